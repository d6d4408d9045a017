"""NEON: Algorithm 1 against what the paper proves of it."""

import functools
import itertools
import math

import pytest
import torch

from tests.curvature.accelerated import at_zero
from tests.curvature.quadratics import quadratic, random_symmetric
from unsaddle import Function, NeonPlusSettings, NeonSettings, negative_curvature, vectors
from unsaddle.curvature.displaced import DisplacedFunction
from unsaddle.curvature.neon import neon, theory_settings
from unsaddle.curvature.neon_plus import neon_plus
from unsaddle.curvature.result import Status
from unsaddle.problems import prescribed_spectrum, random_spectrum

ENDLESS = {"target": float("inf")}  # No test ever passes.


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def iterates(run, f_hat, settings, seed=0):
    seen = []
    run(f_hat, settings, rng(seed), observer=lambda _, u: seen.append(u.clone()))
    return seen


@pytest.mark.parametrize("seed", range(5))
def test_on_a_quadratic_it_is_unnormalised_power_iteration(seed):
    """Identity 2: u_τ = (I − ηH)^τ u_0, wherever x is and whatever the gradient there."""
    d, eta = 20, 0.3
    hessian = random_symmetric(d, seed)
    generator = rng(seed + 100)
    slope, x = (torch.randn(d, generator=generator, dtype=torch.float64) for _ in range(2))
    f_hat = DisplacedFunction(quadratic(hessian, slope).sample(), x)
    settings = NeonSettings(step_size=eta, num_steps=40, noise_radius=1.0, **ENDLESS)
    power = torch.eye(d, dtype=torch.float64) - eta * hessian
    seen = iterates(neon, f_hat, settings, seed)
    expected = seen[0]
    for u in seen:
        assert (u - expected).norm() <= 1e-12 * expected.norm()
        expected = power @ expected
    assert len(seen) == 40


def test_the_noise_fills_the_ball():
    """E2: the proofs integrate over the ball, so ‖u_0‖ < r for almost every seed."""
    f_hat = DisplacedFunction(
        quadratic(torch.eye(3, dtype=torch.float64)).sample(), torch.zeros(3, dtype=torch.float64)
    )
    settings = NeonSettings(step_size=0.1, num_steps=1, noise_radius=0.5, **ENDLESS)
    lengths = torch.stack([iterates(neon, f_hat, settings, seed)[0].norm() for seed in range(200)])
    assert lengths.max() <= 0.5
    assert (lengths < 0.25).float().mean() == pytest.approx(1 / 8, abs=0.08)  # (1/2)³, three standard errors


def test_f_hat_never_increases_while_the_step_is_below_one_over_L1():
    """Identity 4, on a function that is not quadratic."""
    problem = prescribed_spectrum(random_spectrum(15, lowest=-1.0, largest=2.0), power=4, scale=0.5)
    x = 0.1 * torch.ones(15, dtype=torch.float64)
    f = problem.objective.sample()
    f_hat = DisplacedFunction(f, x)
    settings = NeonSettings(step_size=0.3, num_steps=60, noise_radius=0.1, **ENDLESS)
    values = [float(f.value(x + u)) - f_hat.value0 - float(f_hat.grad0 @ u) for u in iterates(neon, f_hat, settings)]
    assert all(b <= a for a, b in itertools.pairwise(values))
    assert values[-1] < values[0]


@pytest.mark.parametrize("seed", range(20))
def test_whatever_it_returns_has_the_curvature_that_one_gradient_proved(seed):
    """Identity 5: rq ≤ 2f̂/‖u‖² + L2‖u‖/3, and the test of the practical setting implies rq ≤ −target."""
    L2 = 3.0
    hessian = random_symmetric(12, seed)

    def value(x):
        return 0.5 * x @ hessian @ x + L2 / 6.0 * (x.abs() ** 3).sum()

    x = torch.zeros(12, dtype=torch.float64)
    f = Function(value).sample()
    f_hat = DisplacedFunction(f, x)
    settings = NeonSettings(
        step_size=0.2, num_steps=500, noise_radius=1e-3, trust_radius=0.5 / L2, target=0.5, hessian_lipschitz=L2
    )
    u = neon(f_hat, settings, rng(seed)).vector
    quotient = float(u @ hessian @ u / (u @ u))
    assert quotient <= -0.5
    assert quotient <= 2.0 * float(f.value(u)) / float(u @ u) + L2 * float(u.norm()) / 3.0 + 1e-12


def test_the_vector_returned_is_the_iterate_that_passed():
    """The sweep has moved on when the test passes; what is returned is taken back by one step."""
    hessian = random_symmetric(10, 3)
    f_hat = DisplacedFunction(quadratic(hessian).sample(), torch.zeros(10, dtype=torch.float64))
    settings = NeonSettings(step_size=0.3, num_steps=200, noise_radius=1e-2, target=0.7)
    seen = []
    found = neon(f_hat, settings, rng(1), observer=lambda _, u: seen.append(u.clone()))
    assert torch.allclose(found.vector, seen[-1], rtol=1e-13, atol=0.0)
    assert float(seen[-2] @ hessian @ seen[-2] / (seen[-2] @ seen[-2])) > -0.7


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.study) for seed in range(1, 30))])
def test_theorem_1_at_a_larger_step(seed):
    """All constants of Theorem 1 but η, which is raised from 3e-11 to 0.02 so that the run ends: f̂ ≤ −2𝓕 is reached
    within t steps and within U, and the curvature is at most −γ/(8ĉ²ℓ)."""
    d, gamma = 10, 0.5
    hessian = random_symmetric(d, seed, lowest=-gamma, largest=1.0)

    def cubic(x):
        return 0.5 * x @ hessian @ x + (x.abs() ** 3).sum() / 6.0, hessian @ x + x * x.abs() / 2.0

    f = Function(cubic, gradient=True).sample()
    settings = theory_settings(
        gamma=gamma, delta=0.1, dimension=d, smoothness=1.0, hessian_lipschitz=1.0, step_size=0.02
    )
    f_hat = DisplacedFunction(f, torch.zeros(d, dtype=torch.float64))
    found = neon(f_hat, settings, rng(seed))
    assert found.status is Status.FOUND
    u = found.vector
    assert float(u.norm()) <= settings.trust_radius
    assert float(f.value(u)) <= -2.0 * settings.decrease
    assert float(u @ hessian @ u / (u @ u)) <= -settings.target


def test_a_step_too_long_is_named_instead_of_called_nothing():
    f_hat = DisplacedFunction(
        quadratic(torch.diag(torch.tensor([1.0, 100.0], dtype=torch.float64))).sample(),
        torch.zeros(2, dtype=torch.float64),
    )
    settings = NeonSettings(step_size=0.1, num_steps=500, noise_radius=1e-3, trust_radius=1.0, target=0.5)
    assert neon(f_hat, settings, rng()).status is Status.SMOOTHNESS_EXCEEDED


def test_blocks_change_nothing(monkeypatch):
    hessian = random_symmetric(50, 5)
    f_hat = DisplacedFunction(quadratic(hessian).sample(), torch.zeros(50, dtype=torch.float64))
    settings = NeonSettings(step_size=0.3, num_steps=100, noise_radius=1e-2, target=0.9)
    whole = neon(f_hat, settings, rng()).vector
    monkeypatch.setattr(vectors, "BLOCK_BYTES", 7 * 8)
    assert torch.allclose(neon(f_hat, settings, rng()).vector, whole, rtol=1e-10)


@pytest.mark.parametrize("name", ["neon", "neon+"])
def test_a_run_ends_with_nothing_as_soon_as_the_iterate_is_shorter_than_curvature_minus_gamma_allows(name):
    """The mode at −γ, from the least length that the noise has along it, is a lower bound of every iterate."""
    gamma, d = 0.1, 30
    shared = {"step_size": 0.5, "num_steps": 2000, "noise_radius": 1.0, "gamma": gamma, "target": gamma / 2}
    extract = neon if name == "neon" else neon_plus
    kind = NeonSettings if name == "neon" else functools.partial(NeonPlusSettings, momentum=1 - math.sqrt(0.05))
    bowl, saddle = (at_zero(random_symmetric(d, 1, lowest=lowest, largest=1.0)) for lowest in (0.2, -gamma))
    for seed in range(4):
        patient = extract(bowl, kind(**shared), rng(seed))
        early = extract(bowl, kind(**shared, least_start=1e-3), rng(seed), keep_history=True)
        assert patient.status is early.status is Status.NOTHING_FOUND
        assert patient.exhausted or not patient.deciding
        assert not early.exhausted
        assert len(early.history) < 100
        assert extract(saddle, kind(**shared, least_start=1e-3), rng(seed)).status is Status.FOUND


@pytest.mark.parametrize("name", ["neon", "neon+"])
def test_the_iterate_that_is_left_points_along_low_curvature(name):
    """So the sampling error of the Hessian can be measured along it."""
    spectrum = torch.linspace(0.02, 1.0, 40, dtype=torch.float64)
    f = Function(lambda x: (0.5 * (spectrum * x * x).sum(), spectrum * x), gradient=True)
    for seed in range(5):
        found = negative_curvature(f, torch.ones(40).double(), extractor=name, gamma=0.05, smoothness=1.0, seed=seed)
        assert found.status is Status.NOTHING_FOUND
        (v,) = found.deciding
        assert float(v.norm()) == pytest.approx(1.0)
        assert float((spectrum * v * v).sum()) <= 0.1
