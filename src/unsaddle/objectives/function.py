"""A deterministic function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from unsaddle import checks
from unsaddle.cost import Ledger
from unsaddle.objective import SampledFunction, freeze
from unsaddle.objectives import derivatives


class Function:
    """A plain function of a flat vector, the paper's f.

    Args:
        fun: `fun(x) -> scalar tensor`, differentiated by autograd; with `gradient=True`, `fun(x) -> (value, gradient)`.
        gradient: whether `fun` returns its own gradient.
        hvp: `hvp(x, v) -> ∇²f(x)v`, if Hessian products are known by hand.

    >>> saddle = Function(lambda x: x[0] ** 2 - x[1] ** 2)
    >>> f = saddle.sample()
    >>> value, grad = f.value_and_grad(torch.tensor([1.0, 0.0]))
    >>> float(value), grad.tolist(), f.cost.gradients
    (1.0, [2.0, 0.0], 1)
    """

    num_samples = 1

    def __init__(
        self,
        fun: Callable[[Tensor], Any],
        *,
        gradient: bool = False,
        hvp: Callable[[Tensor, Tensor], Tensor] | None = None,
    ) -> None:
        derivatives.check_callable(fun, "fun")
        self._oracle = derivatives.oracle(fun, gradient, hvp)

    def sample(
        self,
        size: int | None = None,
        generator: torch.Generator | None = None,
        *,
        replacement: bool = False,
        hessian: bool = False,
        ledger: Ledger | None = None,
    ) -> SampledFunction:
        """The function itself: there is nothing to draw, and `size` may only be None or 1."""
        if size is not None and checks.count(size, "size") > 1:
            raise ValueError(f"a Function has nothing to sample, so size must be None or 1, got {size}")
        return freeze(self._oracle, 1, hessian, ledger)
