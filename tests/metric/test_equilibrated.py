"""Sizes of variables from products: right within a factor of ten or so, whatever the scales were."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from unsaddle import Function
from unsaddle.cost import Ledger
from unsaddle.metric.equilibrated import GRADIENTS, equilibrated

D = 40


def case(seed: int, orders: float, dtype: torch.dtype, at_zero: bool) -> tuple[Function, Tensor, Tensor]:
    """f(x) = g(Dx) for a dense quadratic g; x; and D, over so many orders of magnitude."""
    generator = torch.Generator().manual_seed(seed)
    axes, _ = torch.linalg.qr(torch.randn(D, D, generator=generator, dtype=torch.float64))
    h = axes @ torch.diag(torch.linspace(-0.5, 1.0, D, dtype=torch.float64)) @ axes.T
    scale = 10.0 ** (orders * (torch.rand(D, generator=generator, dtype=torch.float64) - 0.5))
    y = torch.zeros(D, dtype=torch.float64) if at_zero else torch.randn(D, generator=generator, dtype=torch.float64)
    x, low, inner = (y / scale).to(dtype), scale.to(dtype), h.to(dtype)
    centre = low * x

    def fun(x: Tensor) -> Tensor:
        u = low * x - centre
        return u @ (inner @ u) / 2.0

    return Function(fun), x, scale


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("at_zero", [False, True])
def test_rows_become_about_equally_long(dtype: torch.dtype, at_zero: bool) -> None:
    """Over eight orders of magnitude, and 16 of the Hessian's diagonal, what is left is two or three."""
    for seed in range(5):
        f, x, scale = case(seed, 8.0, dtype, at_zero)
        ledger = Ledger()
        s = equilibrated(f.sample(ledger=ledger), x, torch.Generator().manual_seed(seed))
        assert s is not None
        assert ledger.gradients == GRADIENTS
        left = (s.double() * scale).log10()
        assert float(left.max() - left.min()) < 4.0
        assert float(left.std()) < 0.15 * float(scale.log10().std()) + 0.5


def test_sizes_that_explain_nothing_and_gradients_that_are_not_finite_give_none() -> None:
    f, x, _ = case(0, 0.5, torch.float64, False)
    assert equilibrated(f.sample(), x, torch.Generator().manual_seed(0)) is None
    broken = Function(lambda x: x.sum() * float("nan"))
    assert equilibrated(broken.sample(), x, torch.Generator().manual_seed(0)) is None


def test_variables_without_any_effect_do_no_harm() -> None:
    f = Function(lambda x: 1e8 * x[0] ** 2 - x[1] ** 2)
    s = equilibrated(f.sample(), torch.zeros(4, dtype=torch.float64), torch.Generator().manual_seed(0))
    assert s is not None
    assert bool(s.isfinite().all())
    assert float(s[1] / s[0]) > 1e3
