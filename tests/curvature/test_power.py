"""The power method with exact Hessian products, against the dense recursion."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tests.curvature.quadratics import quadratic, rng, rotated
from unsaddle import Function
from unsaddle.curvature.power import PowerSettings, power, second_order
from unsaddle.curvature.result import Status

DOUBLE = torch.float64


def _f(hessian: Tensor):
    return quadratic(hessian).sample(hessian=True)


def test_its_iterates_are_those_of_the_dense_power_iteration() -> None:
    hessian = rotated(torch.linspace(-0.5, 2.0, 12), seed=9)
    seen: list[Tensor] = []
    settings = PowerSettings(step_size=0.4, num_steps=30, target=math.inf)
    found = power(_f(hessian), torch.zeros(12, dtype=DOUBLE), settings, rng(0), observer=lambda _, v: seen.append(v))
    assert (found.status, found.exhausted, len(seen)) == (Status.NOTHING_FOUND, True, 30)
    step = torch.eye(12, dtype=DOUBLE) - 0.4 * hessian
    v = seen[0]
    for w in seen:
        torch.testing.assert_close(w, v / v.norm(), rtol=1e-12, atol=1e-12)
        v = step @ v


def test_it_comes_to_the_lowest_eigenvector() -> None:
    hessian = rotated(torch.cat([torch.tensor([-1.0]), torch.linspace(0.0, 1.0, 11)]), seed=9)
    settings = PowerSettings(step_size=1.0, num_steps=200, target=1.0 - 1e-9)
    found = power(_f(hessian), torch.zeros(12, dtype=DOUBLE), settings, rng(0))
    assert found.vector is not None
    lowest = torch.linalg.eigh(hessian).eigenvectors[:, 0]
    assert abs(float(found.vector @ lowest)) == pytest.approx(1.0, abs=1e-8)
    assert found.lowest == pytest.approx(float(found.vector @ hessian @ found.vector), abs=1e-12)


def test_one_product_a_step_and_no_gradient() -> None:
    f = _f(rotated(torch.linspace(0.1, 1.0, 12), seed=9))
    settings = PowerSettings(step_size=1.0, num_steps=17, target=0.5)
    found = power(f, torch.zeros(12, dtype=DOUBLE), settings, rng(0), keep_history=True)
    assert (f.cost.hessian_products, f.cost.gradients) == (17, 0)
    assert [spent for spent, _ in found.history] == list(range(1, 18))
    assert found.lowest == min(curvature for _, curvature in found.history)


def test_when_nothing_is_left_to_follow_it_ends() -> None:
    """H = I/η: the first step takes everything away."""
    f = _f(torch.eye(4, dtype=DOUBLE) * 2.0)
    settings = PowerSettings(step_size=0.5, num_steps=50, target=0.5)
    found = power(f, torch.zeros(4, dtype=DOUBLE), settings, rng(0))
    assert found.status is Status.NOTHING_FOUND
    assert f.cost.hessian_products <= 50


def test_curvature_beyond_two_over_the_step_is_told() -> None:
    f = _f(torch.eye(4, dtype=DOUBLE) * 5.0)
    found = power(f, torch.zeros(4, dtype=DOUBLE), PowerSettings(step_size=0.5, num_steps=50, target=0.5), rng(0))
    assert (found.status, found.vector, f.cost.hessian_products) == (Status.SMOOTHNESS_EXCEEDED, None, 1)


def test_a_product_that_is_not_finite_is_a_status() -> None:
    f = _f(torch.full((4, 4), math.nan, dtype=DOUBLE))
    settings = PowerSettings(step_size=0.5, num_steps=50, target=0.5)
    assert power(f, torch.zeros(4, dtype=DOUBLE), settings, rng(0)).status is Status.NOT_FINITE


def test_products_that_share_memory_do_no_harm() -> None:
    spectrum = torch.tensor([-1.0, 0.5, 1.0], dtype=DOUBLE)
    buffer = torch.empty(3, dtype=DOUBLE)
    settings = PowerSettings(step_size=1.0, num_steps=50, target=0.99)
    results = [
        power(
            Function(lambda x: (0.0, spectrum * x), gradient=True, hvp=hvp).sample(hessian=True),
            torch.zeros(3, dtype=DOUBLE),
            settings,
            rng(0),
        )
        for hvp in (lambda x, v: spectrum * v, lambda x, v: torch.mul(spectrum, v, out=buffer))
    ]
    assert torch.equal(results[0].vector, results[1].vector)


def test_a_function_without_products_is_refused() -> None:
    with pytest.raises(TypeError, match="sample the objective with hessian=True"):
        second_order(Function(lambda x: x @ x).sample())
