"""Products by differences against dense Hessians and autograd."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from tests.spectrum.networks import dense, network, objective
from unsaddle import Function
from unsaddle.spectrum import hessian_operator
from unsaddle.spectrum.hessian import Hessian


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
