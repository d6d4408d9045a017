"""Where the Hessian is zero, or there is none: what a verdict says, and whether that is so."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.objectives.in_float32 import InFloat32
from unsaddle import Function, is_minimum
from unsaddle.judgement.zero_hessian import growth

BOTH = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)


@BOTH
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize(
    "fun",
    [
        lambda x: x[0] ** 3 - 3.0 * x[0] * x[1] ** 2,
        lambda x: x[0] ** 2 * x[1],
        lambda x: x[0] ** 4 - x[1] ** 4,
        lambda x: x.prod(),
        lambda x: (x.prod() - 1.0) ** 2,
    ],
    ids=["monkey saddle", "x²y", "x⁴ - y⁴", "xyz", "(xyz - 1)²"],
)
def test_a_point_is_named_that_is_lower(fun: Callable[[Tensor], Tensor], size: float, dtype: torch.dtype) -> None:
    x = torch.zeros(3, dtype=dtype)
    verdict = is_minimum(Function(lambda x: size * fun(x)), x)
    assert verdict.kind == "undecided"
    assert verdict.direction is None
    assert "So x is no minimum" in verdict.reason
    length = float(re.search(r"Go on from x \+ ([0-9.e+-]+)·v", verdict.reason)[1])
    assert fun(x + length * verdict.evidence.deciding[0]) < fun(x)


@BOTH
@pytest.mark.parametrize(
    "fun", [lambda x: (x**4).sum(), lambda x: (x**4).sum() + x[0] ** 2 * x[1] ** 2, lambda x: (x**6).sum()]
)
def test_a_minimum_of_higher_order_has_no_kink_and_is_not_told_to_fall(
    fun: Callable[[Tensor], Tensor], dtype: torch.dtype
) -> None:
    verdict = is_minimum(Function(fun), torch.zeros(2, dtype=dtype))
    assert verdict.kind == "undecided"
    assert "the Hessian seems to be zero" in verdict.reason


@pytest.mark.parametrize(
    ("dtype", "kind", "words"),
    [
        (torch.float64, "saddle", "x lies on 1 kink"),
        (torch.float32, "undecided", "F has a kink next to x"),
    ],
)
def test_a_kink_is_no_zero_hessian(dtype: torch.dtype, kind: str, words: str) -> None:
    f = InFloat32(Function(lambda x: -(x[0] ** 2) + x[1].abs() + x[0] ** 4))
    verdict = is_minimum(f, torch.zeros(2, dtype=dtype))
    assert verdict.kind == kind
    assert words in verdict.reason


@pytest.mark.parametrize(
    ("fun", "order"),
    [(lambda x: x.abs().sum(), 0.0), (lambda x: (x**2).sum(), 1.0), (lambda x: (x**3).sum(), 2.0)],
    ids=["kink", "Hessian", "cubic"],
)
def test_gradients_grow_by_the_order_of_f(fun: Callable[[Tensor], Tensor], order: float) -> None:
    x, v = torch.zeros(2, dtype=torch.float64), torch.tensor([0.6, 0.8], dtype=torch.float64)
    assert growth(Function(fun).sample(), x, v).order == pytest.approx(order, abs=1e-6)
