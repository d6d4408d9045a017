"""Products by differences against dense Hessians and autograd."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from tests.objectives.in_float32 import InFloat32
from tests.spectrum.networks import dense, network, objective, pooled
from unsaddle import FiniteSum, Function
from unsaddle.cost import Ledger
from unsaddle.spectrum import hessian_operator
from unsaddle.spectrum.hessian import Hessian, asked_in_double, hessian_at
from unsaddle.vectors import random_direction


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-6), (torch.float32, 1e-2)])
def test_products_are_those_of_the_dense_hessian(dtype: torch.dtype, tolerance: float) -> None:
    model = network(dtype).eval()
    H, exact = hessian_operator(objective(model, dtype)), dense(model.double())
    model.to(dtype)
    for seed in range(5):
        v = torch.randn(H.dimension, generator=torch.Generator().manual_seed(seed), dtype=dtype)
        assert (H(v).double() - exact @ v.double()).norm() <= tolerance * (exact @ v.double()).norm()


def test_a_product_takes_one_gradient_after_the_survey() -> None:
    H = hessian_operator(Function(lambda x: x.pow(4).sum()), torch.ones(200, dtype=torch.float64))
    before = H.cost.gradients
    assert before == 9  # At x, five around it, and three for products at two radii.
    H(torch.ones(200, dtype=torch.float64))
    H(3.0 * torch.ones(200, dtype=torch.float64))
    assert H.cost.gradients == before + 2


def test_products_are_linear_in_the_length_and_zero_at_zero() -> None:
    H = hessian_operator(Function(lambda x: x.pow(4).sum()), torch.ones(5, dtype=torch.float64))
    v = torch.arange(5.0, dtype=torch.float64)
    assert torch.allclose(H(1e6 * v), 1e6 * H(v), rtol=1e-12)
    assert torch.equal(H(0.0 * v), torch.zeros(5, dtype=torch.float64))


def test_products_are_from_both_sides_where_noise_leads_far_out() -> None:
    """Rounding of the function to five digits: forward products at a near radius would be noise."""

    def rounded(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scale = torch.linspace(1.0, 2.0, 100, dtype=torch.float64)
        grad = scale * x + 0.1 * x**2
        step = 2.0**-14 * grad.abs().max()
        return (x * grad).sum(), (grad / step).round() * step

    x = torch.linspace(0.5, 1.5, 100, dtype=torch.float64)
    H = hessian_operator(Function(rounded, gradient=True), x)
    before = H.cost.gradients
    v = torch.randn(100, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    exact = (torch.linspace(1.0, 2.0, 100, dtype=torch.float64) + 0.2 * x) * v
    assert (H(v) - exact).norm() <= 0.02 * exact.norm()
    assert H.cost.gradients == before + 2


@pytest.mark.parametrize(("between", "central", "told"), [(None, False, 4.0 / 3.0), (None, True, 2.0), (1, False, 2.0)])
def test_curvatures_of_both_sides_are_weighted(between: int | None, central: bool, told: float) -> None:
    """At r and at −2r the third derivative enters as 1 and −2. Products from both sides need no weights."""
    hessian: Any = SimpleNamespace(between=between, is_central=lambda radius: central, radius=lambda largest: 1.0)
    assert Hessian.both(hessian, np.ones(1), np.full(1, 2.0), 1.0)[0] == pytest.approx(told)


def test_products_of_a_network_with_kinks_are_taken_in_float64_and_come_back_in_float32() -> None:
    _, F, truth = pooled()
    H = hessian_operator(F)
    before, v = H.cost.gradients, torch.ones(H.dimension)
    for _ in range(60):
        v = H(v)
        v /= v.norm()
    assert H(v).dtype is torch.float32
    assert H.cost.gradients == before + 61
    assert float(v @ H(v)) == pytest.approx(float(truth[-1]), rel=1e-3)


def hessian_of(f: Any, x: torch.Tensor) -> Hessian:
    return hessian_at(f, x, None, torch.Generator().manual_seed(0), Ledger())


def test_a_copy_is_asked_only_if_its_products_are_those_of_a_hessian() -> None:
    generator, x = torch.Generator().manual_seed(1), torch.linspace(0.5, 1.5, 100)

    def stairs(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        step = 2.0**-14 * x.detach().abs().max()
        return (x * x).sum() / 2.0, (x * torch.linspace(1.0, 2.0, 100) / step).round() * step

    smooth = hessian_of(Function(lambda x: (x**4).sum()), x)
    v = random_direction(x, generator)
    double = asked_in_double(smooth, v, generator)
    assert double is not None
    assert (double.share, double.in_float64, double.wary) == (1.0, True, False)
    assert double.ledger.gradients <= 9 + 26
    assert asked_in_double(double, v, generator) is None
    assert asked_in_double(replace(hessian_of(Function(stairs, gradient=True), x), wary=True), v, generator) is None


def test_kinks_within_the_first_radius_are_avoided_nearer_to_x() -> None:
    x = torch.linspace(0.5, 1.5, 100, dtype=torch.float64)
    wall = x + 2e-10

    def value(y: torch.Tensor) -> torch.Tensor:
        return (y**4).sum() + 1e-8 * (y - wall).relu().sum()

    hessian = hessian_of(Function(value), x)
    assert (hessian.share, hessian.in_float64) == (1e-2, False)


def test_samples_and_ranks_and_budgets_have_no_copy() -> None:
    F = FiniteSum(lambda x, a: (a * x**4).sum(1).mean(), torch.rand(50, 5))
    x = torch.ones(5)
    generator = torch.Generator().manual_seed(0)
    assert hessian_at(F, x, None, generator, Ledger()).wary
    assert not hessian_at(F, x, 20, generator, Ledger()).wary
    assert not hessian_at(F, x, None, generator, Ledger(), 1000).wary
    assert not hessian_at(InFloat32(F), x, None, generator, Ledger()).wary
