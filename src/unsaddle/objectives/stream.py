"""Samples that never run out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from unsaddle import checks
from unsaddle.objective import BaseObjective, Oracle
from unsaddle.objectives import derivatives


class Stream(BaseObjective):
    """F(x) = E f(x; ξ), eq. (1) of the paper: a loss that averages over rows, and a way to draw fresh rows.

    Args:
        loss: `loss(x, *rows) -> scalar`, the mean over the rows it is given; with `gradient=True`,
            `loss(x, *rows) -> (value, gradient)`.
        draw: `draw(size, generator) -> tuple of tensors` with `size` independent rows each.
        gradient: whether `loss` returns its own gradient.
        hvp: `hvp(x, v, *rows)`, if Hessian products are known by hand.

    >>> noise = Stream(lambda x, z: ((x - z) ** 2).mean(), lambda m, g: (torch.randn(m, 1, generator=g),))
    >>> noise.sample(10, torch.Generator().manual_seed(0)).size
    10
    """

    num_samples = None

    def __init__(
        self,
        loss: Callable[..., Any],
        draw: Callable[[int, torch.Generator], tuple[Tensor, ...]],
        *,
        gradient: bool = False,
        hvp: Callable[..., Tensor] | None = None,
    ) -> None:
        derivatives.check_callable(loss, "loss")
        derivatives.check_callable(draw, "draw", ("size", "generator"))
        self._fresh_rows = draw
        self._make_oracle = partial(derivatives.of_rows, loss, checks.flag(gradient, "gradient"), hvp)

    def _draw(self, size: int | None, generator: torch.Generator | None, replacement: bool) -> tuple[Oracle, int]:
        """Fresh rows are independent, so `replacement` makes no difference."""
        if size is None:
            raise ValueError("a Stream has no end, so 'everything' does not exist; say how many samples to draw")
        size = checks.count(size, "size")
        rows = self._fresh_rows(size, checks.generator(generator))
        if not isinstance(rows, tuple) or not all(isinstance(r, Tensor) for r in rows):
            hint = "; write return (rows,)" if isinstance(rows, Tensor) else ""
            raise TypeError(f"draw(size, generator) must return a tuple of tensors, got {type(rows).__name__}{hint}")
        for i, row in enumerate(rows):
            if row.ndim == 0 or row.shape[0] != size:
                raise ValueError(
                    f"draw({size}, generator) must return {size} rows; tensor {i} has shape {tuple(row.shape)}"
                )
        return derivatives.SameDtype(self._make_oracle(*rows), rows), size
