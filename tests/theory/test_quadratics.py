"""The usable constants: numbers worked out by hand, and the arguments in their docstrings carried out."""

from __future__ import annotations

import math

import pytest
import torch

from unsaddle.theory import quadratics

EPS32, EPS64 = 2.0**-23, 2.0**-52


def test_half_of_the_largest_step() -> None:
    assert quadratics.step_size(smoothness=4.0) == 0.125


def test_numbers_of_steps() -> None:
    # ln(100/0.01) = 9.210340; /(0.01·0.5) = 1842.07; 2·9.210340/√0.005 = 260.51
    question = {"step_size": 0.01, "gamma": 0.5, "dimension": 100, "delta": 0.1}
    assert quadratics.neon_num_steps(**question) == 1843
    assert quadratics.neon_plus_num_steps(**question) == 261


@pytest.mark.parametrize("delta", [0.3, 0.05, 0.001])
@pytest.mark.parametrize("dimension", [2, 40, 10_000, 10**8])
@pytest.mark.parametrize("ratio", [0.2, 0.01, 1e-4])
def test_neon_has_enough_steps_for_the_worst_spectrum(ratio: float, dimension: int, delta: float) -> None:
    """c² = πδ²/(2d) of the noise at −γ, all the rest at the λ where it hides it best: the quotient is below −γ/2."""
    gamma, eta = ratio, 0.5
    t = quadratics.neon_num_steps(step_size=eta, gamma=gamma, dimension=dimension, delta=delta)
    component = math.pi * delta**2 / (2.0 * dimension)
    gain = math.log(gamma / 2.0 * component) + 2 * t * math.log1p(eta * gamma)
    rest = -gamma / 2.0 + 1.0 / (2.0 * eta * t)
    losses = [
        math.log(lam + gamma / 2.0) + 2 * t * math.log1p(-eta * lam)
        for lam in (rest, rest / 2.0, -gamma / 4.0, 0.0, gamma)
    ]
    assert max(losses) == pytest.approx(losses[0], abs=0.05) or losses[0] <= gain
    assert max(losses) <= gain


def _growth(lam: float, gamma: float, eta: float) -> float:
    """The larger root of μ² − (1+ζ)(1−ηλ)μ + ζ(1−ηλ) = 0, the growth a step of Nesterov's method at λ < 0."""
    zeta, a = 1.0 - math.sqrt(eta * gamma), 1.0 - eta * lam
    return ((1.0 + zeta) * a + math.sqrt((1.0 + zeta) ** 2 * a**2 - 4.0 * zeta * a)) / 2.0


@pytest.mark.parametrize("ratio", [1e-4, 1e-6])
def test_neon_plus_grows_as_its_docstring_says(ratio: float) -> None:
    root = math.sqrt(0.5 * ratio)
    assert (_growth(-ratio, ratio, 0.5) - 1.0) / root == pytest.approx(0.618, abs=0.02)
    assert (_growth(-ratio / 2.0, ratio, 0.5) - 1.0) / root == pytest.approx(0.366, abs=0.02)


@pytest.mark.parametrize("delta", [0.3, 0.05, 0.001])
@pytest.mark.parametrize("dimension", [2, 40, 10_000, 10**8])
@pytest.mark.parametrize("ratio", [0.1, 0.01, 1e-4])
def test_neon_plus_has_enough_steps_for_a_crowd_at_half_gamma(ratio: float, dimension: int, delta: float) -> None:
    t = quadratics.neon_plus_num_steps(step_size=0.5, gamma=ratio, dimension=dimension, delta=delta)
    component = math.pi * delta**2 / (2.0 * dimension)
    lead = math.log(component) + 2 * t * (
        math.log(_growth(-ratio, ratio, 0.5)) - math.log(_growth(-0.49 * ratio, ratio, 0.5))
    )
    # (γ/2)·c²·(growth at −γ)^{2t} against 0.01γ·(growth at −0.49γ)^{2t}
    assert lead > math.log(0.02)


def test_trust_radius() -> None:
    assert quadratics.trust_radius(gamma=0.5, hessian_lipschitz=2.0, x_norm=7.0) == 0.125
    assert quadratics.trust_radius(gamma=0.5, hessian_lipschitz=0.0, x_norm=7.0) == math.inf
    assert quadratics.trust_radius(gamma=0.5, hessian_lipschitz=None, x_norm=7.0) == pytest.approx(0.07)
    assert quadratics.trust_radius(gamma=0.5, hessian_lipschitz=None, x_norm=0.0) == pytest.approx(0.01)


def test_within_the_trust_radius_curvature_minus_gamma_proves_minus_half_gamma() -> None:
    gamma, L2 = 0.3, 7.0
    U = quadratics.trust_radius(gamma=gamma, hessian_lipschitz=L2, x_norm=1.0)
    # The quotient is at most −γ + L2·U/2, and adding the bound's own L2·U/2 leaves −γ/2.
    assert -gamma + L2 * U / 2.0 + L2 * U / 2.0 == pytest.approx(-gamma / 2.0)


def test_gradient_noise() -> None:
    noise = quadratics.gradient_noise(dtype=torch.float32, grad_norm=3.0, smoothness=2.0, x_norm=0.5)
    assert noise == EPS32 * 4.0
    assert quadratics.gradient_noise(dtype=torch.float64, grad_norm=0.0, smoothness=2.0, x_norm=0.0) == 0.0


@pytest.mark.parametrize(("dtype", "eps"), [(torch.float32, EPS32), (torch.float64, EPS64)], ids=str)
def test_at_the_smallest_radius_rounding_is_a_tenth_of_gamma(dtype: torch.dtype, eps: float) -> None:
    gamma, smoothness, noise = 0.2, 5.0, eps * 11.0
    r = quadratics.smallest_radius(noise=noise, gamma=gamma, dtype=dtype, smoothness=smoothness)
    assert math.sqrt(2.0) * (noise + eps * smoothness * r) / r == pytest.approx(0.1 * gamma, rel=1e-9)


def test_no_radius_is_enough_for_a_gamma_below_the_rounding_of_the_smoothness() -> None:
    question = {"noise": 1e-9, "dtype": torch.float32, "smoothness": 1.0}
    assert quadratics.smallest_radius(gamma=1e-6, **question) == math.inf
    assert quadratics.smallest_radius(gamma=1e-4, **question) < math.inf


@pytest.mark.parametrize("trust", [1e-6, 1e-2, 10.0])
@pytest.mark.parametrize("share", [0.0, 1e-6, 1e-2, 0.19, 0.2])
@pytest.mark.parametrize("dimension", [1, 100, 10**8])
def test_every_radius_lies_between_rounding_and_truncation(dimension: int, share: float, trust: float) -> None:
    smallest = share * trust
    r = quadratics.noise_radius(smallest=smallest, trust=trust, dimension=dimension, delta=0.05)
    q = quadratics.measurement_radius(smallest=smallest, trust=trust)
    assert smallest * (1 - 1e-12) <= r <= trust / 5.0
    assert smallest * (1 - 1e-12) <= q <= trust / 5.0
    assert min(r, q) > 0.0


def test_noise_leaves_room_to_grow() -> None:
    # Uδ/√d = 2·0.05/10
    assert quadratics.noise_radius(smallest=0.0, trust=2.0, dimension=100, delta=0.05) == pytest.approx(0.01)


def test_radii_for_a_quadratic() -> None:
    for smallest, radius in ((0.0, 1e-3), (1e-2, 1e-1)):
        assert quadratics.noise_radius(smallest=smallest, trust=math.inf, dimension=9, delta=0.1) == radius
        assert quadratics.measurement_radius(smallest=smallest, trust=math.inf) == radius


@pytest.mark.parametrize(("lipschitz", "radius"), [(0.5, 0.1), (5.0, 0.01), (0.0, math.inf)])
def test_the_trust_radius_is_gamma_over_twice_l2(lipschitz: float, radius: float) -> None:
    assert quadratics.trust_radius(gamma=0.1, hessian_lipschitz=lipschitz, x_norm=7.0) == pytest.approx(radius)
