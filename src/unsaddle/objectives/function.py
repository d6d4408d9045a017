"""A deterministic function."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from torch import Tensor

from unsaddle import checks
from unsaddle.cost import Ledger
from unsaddle.objectives import derivatives
from unsaddle.objectives.derivatives import Product
from unsaddle.objectives.deterministic import Deterministic
from unsaddle.objectives.double import InDouble, check_keeps_nothing


class Function(Deterministic):
    """A plain function of a flat vector, the paper's f.

    Args:
        fun: `fun(x) -> scalar tensor`, differentiated by autograd; with `gradient=True`, `fun(x) -> (value, gradient)`.
        gradient: whether `fun` returns its own gradient.
        hvp: `hvp(x, v) -> ∇²f(x)v`; by default autograd, which needs `gradient=False`.

    >>> import torch
    >>> f = Function(lambda x: x[0] ** 2 - x[1] ** 2).sample()
    >>> value, grad = f.value_and_grad(torch.tensor([1.0, 0.0]))
    >>> float(value), grad.tolist(), f.cost.gradients
    (1.0, [2.0, 0.0], 1)
    """

    def __init__(self, fun: Callable[[Tensor], Any], *, gradient: bool = False, hvp: Product | None = None) -> None:
        derivatives.check_callable(fun, "fun", ["x"])
        self._fun = fun
        super().__init__(derivatives.oracle(fun, checks.flag(gradient, "gradient"), hvp), "a Function")

    @property
    def doubles(self) -> bool:
        return True

    def in_double(self, x: Tensor, ledger: Ledger) -> Function:
        check_keeps_nothing(self._fun, lambda: self.sample(ledger=ledger).grad(x))
        double = copy.copy(self)
        double._oracle = InDouble(self._oracle)
        return double
