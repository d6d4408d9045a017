"""Measurements of curvature: exact where they claim to be, and off by no more than they say elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from unsaddle import FiniteSum, Function
from unsaddle.cost import Cost, Ledger
from unsaddle.curvature.measure import on_fresh_samples, on_same_sample, symmetric_difference

DOUBLE = torch.float64
V = torch.tensor([0.6, 0.8], dtype=DOUBLE)
X = torch.tensor([1.0, -2.0], dtype=DOUBLE)
HESSIAN = torch.tensor([[1.0, 2.0], [2.0, -3.0]], dtype=DOUBLE)
CURVATURE = 0.36 + 2 * 0.96 - 3 * 0.64  # vᵀHv = 0.36


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Two threads on vectors this short mostly wait for each other, the more so on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def quadratic_plus(term: object) -> Function:
    return Function(lambda x: 0.5 * (x - X) @ HESSIAN @ (x - X) + term(x - X))  # type: ignore[operator]


def test_a_symmetric_difference_is_exact_on_cubics_at_any_radius() -> None:
    f = quadratic_plus(lambda z: (z**3).sum() + 5.0 * z[0] ** 2 * z[1]).sample()
    for radius in (1e-2, 1.0, 100.0):
        assert symmetric_difference(f, X, V, radius) == pytest.approx(CURVATURE, abs=1e-11)
    assert f.cost == Cost(gradients=6, samples=6)


def test_the_first_gradient_survives_the_second_in_the_same_memory() -> None:
    buffer = torch.empty(2, dtype=DOUBLE)
    f = Function(lambda x: (0.0, torch.matmul(HESSIAN, x - X, out=buffer)), gradient=True).sample()
    assert symmetric_difference(f, X, V, 0.1) == pytest.approx(CURVATURE, abs=1e-12)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("radius", [1e-3, 1e-1])
@pytest.mark.parametrize(
    "term",
    [lambda z: (z.abs() ** 3).sum() / 6.0, lambda z: (z**4).sum(), lambda z: (z.abs() ** 3).sum() - (z**4).sum()],
    ids=["a kink in the third derivative", "a quartic", "both with opposite signs"],
)
def test_the_error_covers_the_truncation(term: object, radius: float, sign: float) -> None:
    f = quadratic_plus(lambda z: sign * term(z)).sample()  # type: ignore[operator]
    measurement = on_same_sample(f, X, V, radius, noise=0.0)
    assert 0.0 < abs(measurement.curvature - CURVATURE) <= measurement.error
    assert measurement.error <= 8.0 * abs(measurement.curvature - CURVATURE)
    assert f.cost == Cost(gradients=4, samples=4)
    assert (measurement.radius, measurement.samples, measurement.fresh) == (radius, 1, False)


def test_the_error_has_the_rounding_of_a_gradient_in_it() -> None:
    measurement = on_same_sample(quadratic_plus(lambda z: 0.0 * z.sum()).sample(), X, V, 0.5, noise=1e-3)
    assert measurement.error == pytest.approx(2e-3, abs=1e-12)


def test_falling_as_a_cubic_is_not_mistaken_for_negative_curvature() -> None:
    """Along −|s|³ the curvature measured at r and 2r doubles: extrapolated to zero there is none."""
    f = Function(lambda x: -(x.abs() ** 3).sum()).sample()
    for angle in range(50):
        v = torch.tensor([math.cos(angle), math.sin(angle)], dtype=DOUBLE)
        measurement = on_same_sample(f, torch.zeros(2, dtype=DOUBLE), v, 1e-2, noise=0.0)
        assert measurement.curvature < 0.0 < measurement.curvature + measurement.error


def test_a_measurement_that_fails_at_either_radius_is_not_finite() -> None:
    for edge, finite in ((1.5, False), (0.5, False), (2.5, True)):
        f = Function(
            lambda x, edge=edge: (0.0, HESSIAN @ (x - X) * (1.0 if float((x - X).norm()) < edge else math.nan)),
            gradient=True,
        ).sample()
        assert on_same_sample(f, X, V, 1.0, noise=0.0).is_finite == finite


# --- Fresh samples --------------------------------------------------------------------------------------------------


def weighted(weights: Tensor) -> FiniteSum:
    """Components ½w_i‖x‖²."""
    return FiniteSum(lambda x, w: (0.5 * w.mean() * x @ x, w.mean() * x), weights, gradient=True)


@pytest.mark.parametrize(("size", "batch"), [(1, 1), (2, 1), (7, 1), (8, 1), (15, 1), (16, 2), (100, 12)])
def test_eight_batches_of_an_eighth_take_two_gradients_each(size: int, batch: int) -> None:
    ledger = Ledger()
    random = torch.Generator().manual_seed(0)
    measurement = on_fresh_samples(weighted(torch.ones(100, dtype=DOUBLE)), X, V, 0.1, size, random, ledger)
    assert ledger.cost == Cost(gradients=16, samples=16 * batch)
    assert (measurement.samples, measurement.fresh) == (8 * batch, True)
    assert measurement.curvature == pytest.approx(1.0)
    assert measurement.error == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("size", [2, 8, 80])
def test_three_standard_errors_cover_the_truth(size: int) -> None:
    """Student's t with 7 degrees of freedom is beyond ±3 with probability 0.02; P(more than 14 of 200) < 1e-4."""
    assert 1.0 - sum(math.comb(200, i) * 0.02**i * 0.98 ** (200 - i) for i in range(15)) < 1e-4
    weights = torch.randn(5000, generator=torch.Generator().manual_seed(1), dtype=DOUBLE)
    objective, truth = weighted(weights), float(weights.mean())
    misses = 0
    for seed in range(200):
        random = torch.Generator().manual_seed(seed)
        measurement = on_fresh_samples(objective, X, V, 0.1, size, random, Ledger())
        misses += abs(measurement.curvature - truth) > measurement.error
    assert misses <= 14


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_one_batch_that_is_not_finite_spoils_the_measurement_without_an_exception(bad: float) -> None:
    weights = torch.ones(10, dtype=DOUBLE)
    weights[0] = bad
    random = torch.Generator().manual_seed(0)
    assert not on_fresh_samples(weighted(weights), X, V, 0.1, 10 * 8, random, Ledger()).is_finite
