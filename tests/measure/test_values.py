"""Values follow gradients at kinks, and not within a step of a staircase."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from unsaddle import Function, is_minimum
from unsaddle.measure.values import follow_gradients


class Rounded(torch.autograd.Function):
    """½a·z² of z rounded to bfloat16, with the gradient there: a staircase."""

    @staticmethod
    def forward(ctx: object, x: Tensor, a: Tensor) -> Tensor:
        z = x.bfloat16().double()
        ctx.save_for_backward(z, a)  # type: ignore[attr-defined]
        return 0.5 * (a * z * z).sum()

    @staticmethod
    def backward(ctx: object, grad: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        z, a = ctx.saved_tensors  # type: ignore[attr-defined]
        return grad * a * z, None


def staircase(d: int = 60) -> Function:
    """A smooth term in float64, and a staircase that hides negative curvature."""
    a = torch.linspace(-1.0, 1.0, d).double()
    return Function(lambda x: 0.4 * x.square().sum() + Rounded.apply(x, a))


def test_values_follow_gradients_at_kinks_and_not_on_a_staircase() -> None:
    def follow(F: Function, x: Tensor) -> bool:
        return follow_gradients(F.sample(), x, float(x.norm()), torch.Generator().manual_seed(0))

    x = torch.randn(60, generator=torch.Generator().manual_seed(1)).double()
    assert not follow(staircase(), x)
    assert follow(Function(lambda x: (x.square() * torch.linspace(-1.0, 1.0, 60)).sum() + x.relu().sum()), x)


@pytest.mark.parametrize("seed", range(10))
def test_a_staircase_is_no_minimum(seed: int) -> None:
    x = torch.randn(60, generator=torch.Generator().manual_seed(seed)).double()
    found = is_minimum(staircase(), x, eps=1e3)
    assert found.evidence.piece == 0.0
    assert found.kind in ("saddle", "undecided")
