"""Measurements of curvature: exact where they claim to be, and off by no more than they say elsewhere."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from unsaddle import Function
from unsaddle.cost import Cost
from unsaddle.measure.direction import Measurement, Scale, on_same_sample, opposite_probes, symmetric_difference

DOUBLE = torch.float64
V = torch.tensor([0.6, 0.8], dtype=DOUBLE)
X = torch.tensor([1.0, -2.0], dtype=DOUBLE)
HESSIAN = torch.tensor([[1.0, 2.0], [2.0, -3.0]], dtype=DOUBLE)
CURVATURE = 0.36 + 2 * 0.96 - 3 * 0.64  # vᵀHv = 0.36


def quadratic_plus(term: object) -> Function:
    return Function(lambda x: 0.5 * (x - X) @ HESSIAN @ (x - X) + term(x - X))  # type: ignore[operator]


def test_a_symmetric_difference_is_exact_on_cubics_at_any_radius() -> None:
    f = quadratic_plus(lambda z: (z**3).sum() + 5.0 * z[0] ** 2 * z[1]).sample()
    for radius in (1e-2, 1.0, 100.0):
        assert symmetric_difference(f, X, V, radius) == pytest.approx(CURVATURE, abs=1e-11)
    assert f.cost == Cost(gradients=6, samples=6)


@pytest.mark.parametrize("radius", [1e-170, 1e170])
def test_a_radius_whose_square_is_no_number_is_no_error(radius: float) -> None:
    """x may be as long as that."""
    f = Function(lambda x: (x * x).sum() / 2.0).sample()
    seen = opposite_probes(f, torch.zeros(2, dtype=DOUBLE), V, radius, torch.zeros(2, dtype=DOUBLE))
    assert seen.curvature == pytest.approx(1.0)


def test_the_first_gradient_survives_the_second_in_the_same_memory() -> None:
    buffer = torch.empty(2, dtype=DOUBLE)
    f = Function(lambda x: (0.0, torch.matmul(HESSIAN, x - X, out=buffer)), gradient=True).sample()
    assert symmetric_difference(f, X, V, 0.1) == pytest.approx(CURVATURE, abs=1e-12)


def _measure(f: Function, *, radius: float, noise: float = 0.0, x: Tensor = X, v: Tensor = V) -> Measurement:
    return on_same_sample(f.sample(), x, v, Scale(gamma=0.1, smoothness=3.0, noise=noise, radius=radius))


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("radius", [1e-3, 1e-2])
@pytest.mark.parametrize(
    "term",
    [lambda z: (z.abs() ** 3).sum() / 6.0, lambda z: (z**4).sum(), lambda z: (z.abs() ** 3).sum() - (z**4).sum()],
    ids=["a kink in the third derivative", "a quartic", "both with opposite signs"],
)
def test_the_error_covers_the_truncation_where_the_radii_agree(term: object, radius: float, sign: float) -> None:
    measurement = _measure(quadratic_plus(lambda z: sign * term(z)), radius=radius, noise=1e-16)  # type: ignore[operator]
    assert measurement.consistent
    assert abs(measurement.curvature - CURVATURE) <= measurement.error
    assert measurement.error <= 20.0 * radius
    assert radius / 64.0 <= measurement.radius <= radius
    assert (measurement.samples, measurement.fresh) == (1, False)


def test_it_takes_six_gradients() -> None:
    f = quadratic_plus(lambda z: 0.0 * z.sum()).sample()
    on_same_sample(f, X, V, Scale(gamma=0.1, smoothness=3.0, noise=0.0, radius=0.1))
    assert f.cost == Cost(gradients=6, samples=6)


def test_the_error_has_the_rounding_of_a_gradient_in_it() -> None:
    measurement = _measure(quadratic_plus(lambda z: 0.0 * z.sum()), radius=0.5, noise=1e-3)
    assert measurement.error == pytest.approx(3e-3 / (0.5 * math.sqrt(len(X))), abs=1e-12)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("seed", range(10))
def test_the_error_covers_the_rounding_of_half_precision_that_is_the_same_at_all_radii(
    dtype: torch.dtype, seed: int
) -> None:
    a = torch.randn(32, 5, generator=torch.Generator().manual_seed(seed))
    exact = -(a.double().T @ a.double()) / 32

    def halves(x: Tensor) -> tuple[float, Tensor]:
        low = a.to(dtype)
        return 0.0, -(low.T @ (low @ x.to(dtype))).float() / 32  # A power of two leaves the bits.

    v = torch.ones(5) / math.sqrt(5.0)
    measured = _measure(Function(halves, gradient=True), radius=1e-3, x=torch.zeros(5), v=v)
    assert abs(measured.curvature - float(v.double() @ exact @ v.double())) <= measured.error
    assert measured.error <= 0.05 * abs(measured.curvature)


@pytest.mark.parametrize(
    ("error", "consistent", "negative"), [(0.5, True, True), (2.0, True, False), (0.5, False, False)]
)
def test_a_curvature_is_negative_beyond_its_error(error: float, consistent: bool, negative: bool) -> None:
    seen = Measurement(curvature=-1.0, error=error, radius=0.1, consistent=consistent, samples=1, fresh=False)
    assert seen.is_negative is negative


def test_a_rounding_that_hides_the_curvature_is_not_consistent() -> None:
    """The radii agree, and the differences shrink as they should: the error alone says so."""
    assert _measure(quadratic_plus(lambda z: 0.0 * z.sum()), radius=0.5, noise=0.01).consistent
    assert not _measure(quadratic_plus(lambda z: 0.0 * z.sum()), radius=0.5, noise=1.0).consistent


def test_a_kink_at_x_is_not_consistent() -> None:
    """Along −|z| the curvature measured at r is −1/r: it does not settle down as r shrinks."""
    measurement = _measure(quadratic_plus(lambda z: -z.abs().sum()), radius=1e-2)
    assert measurement.curvature < 0.0
    assert not measurement.consistent


def test_falling_as_a_cubic_is_not_mistaken_for_negative_curvature() -> None:
    """Along −|s|³ what is measured at r is all truncation."""
    f = Function(lambda x: -(x.abs() ** 3).sum())
    for angle in range(50):
        v = torch.tensor([math.cos(angle), math.sin(angle)], dtype=DOUBLE)
        measurement = _measure(f, radius=1e-2, x=torch.zeros(2, dtype=DOUBLE), v=v)
        assert not (measurement.consistent and measurement.curvature + measurement.error < 0.0)


def test_a_measurement_that_fails_at_any_radius_is_not_finite() -> None:
    for edge, finite in ((0.5, False), (1.5, False), (3.0, False), (5.0, True)):
        f = Function(
            lambda x, edge=edge: (0.0, HESSIAN @ (x - X) * (1.0 if float((x - X).norm()) < edge else math.nan)),
            gradient=True,
        )
        assert _measure(f, radius=1.0).is_finite == finite


def test_l2_along_a_direction_is_the_third_derivative_of_a_cubic() -> None:
    f = Function(lambda x: 5.0 * x[0] ** 3 / 6.0 + x[1] ** 2).sample()
    x, v = torch.tensor([0.3, -1.0], dtype=DOUBLE), torch.tensor([1.0, 0.0], dtype=DOUBLE)
    probes = opposite_probes(f, x, v, 1e-3, f.grad(x).clone())
    assert probes.hessian_lipschitz == pytest.approx(5.0, rel=1e-6)
    assert f.cost.gradients == 3


def test_l2_is_not_seen_where_the_function_is_even() -> None:
    f = Function(lambda x: -(x[0] ** 2) + x[0] ** 4).sample()
    x, v = torch.zeros(1, dtype=DOUBLE), torch.ones(1, dtype=DOUBLE)
    assert opposite_probes(f, x, v, 1e-3, f.grad(x).clone()).hessian_lipschitz == pytest.approx(0.0, abs=1e-9)


def test_kinks_all_around_are_told_from_a_third_derivative() -> None:
    """Sixty kinks in a thousandth on one side of x bend f by 0.18 more along v than its Hessian at x does."""
    places = 1e-5 * (0.5 + torch.arange(2000, dtype=DOUBLE))
    scale = Scale(gamma=0.1, smoothness=3.0, noise=1e-16, radius=1e-3)
    f = quadratic_plus(lambda z: 1e-5 * torch.relu(z[0] - places).sum()).sample()
    bent = on_same_sample(f, X, V, scale, f.grad(X).clone())
    assert bent.consistent
    assert bent.curvature == pytest.approx(CURVATURE + 0.18, rel=0.05)
    assert bent.uneven == pytest.approx(1e-5 * 60, rel=0.1)
    f = quadratic_plus(lambda z: 1e3 * z[0] ** 3).sample()
    assert on_same_sample(f, X, V, scale, f.grad(X).clone()).uneven == 0.0


def test_a_claim_does_not_stand_where_the_sides_of_x_differ() -> None:
    """The claim and one measurement agree. Next to x there is a kink across v, and the even part shows it."""
    across = torch.tensor([0.8, -0.6], dtype=DOUBLE)
    scale = Scale(gamma=0.1, smoothness=3.0, noise=1e-16, radius=1e-3)
    for size, gradients in ((1e-3, 2), (1.0, 8)):
        f = quadratic_plus(lambda z, size=size: size * torch.relu(z @ V - 1e-4) * (z @ across)).sample()
        grad0, before = f.grad(X).clone(), f.ledger.gradients
        on_same_sample(f, X, V, scale, grad0, claimed=CURVATURE)
        assert f.ledger.gradients - before == gradients
