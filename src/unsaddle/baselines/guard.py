"""A guard against divergence, of which the papers, with every constant known, have no need."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from unsaddle.first_order.anchor import Anchor, anchor_at
from unsaddle.run import Ending, Run, RunEnded

DIVERGED = 1e8
"""A value that exceeds this many times max(1, |F(x0)|) has diverged."""

SUFFICIENT = 1e-4
"""Share of η‖∇F_S‖² that an epoch or a step must lower F_S by, the usual one of line searches."""


class Guard:
    """Moves a run to points that were seen to be finite, and ends it where they are not."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._limit = math.nan
        self._largest = 0.0

    def seen(self, x: Tensor, value: float) -> None:
        """F_S(x) = value: go there, or end the run at the last point that was finite."""
        if math.isnan(self._limit):
            if not math.isfinite(value):
                raise RunEnded(Ending.NOT_FINITE)
            self._limit = DIVERGED * max(1.0, abs(value))
        if not math.isfinite(value) or value > self._limit:
            raise RunEnded(Ending.DIVERGED)
        self._largest = max(self._largest, abs(value))
        self.run.moved(x, value)

    def rounding(self, dtype: torch.dtype) -> float:
        """By how much two values may differ for no reason: sixteen roundings of the largest that was seen."""
        return 16.0 * torch.finfo(dtype).eps * self._largest

    def lowered(self, value: float, seen: Anchor, step_size: float) -> bool:
        """Whether F_S fell to `value` from where it was, by some share of η‖∇F_S‖², up to rounding.

        Merely not rising is not enough: at η = 2/L1 a step goes to and fro. False for NaN.
        """
        return value <= seen.value - SUFFICIENT * step_size * seen.norm**2 + self.rounding(seen.x.dtype)


def check_output(run: Run, x: Tensor, size: int) -> None:
    """Report the gradient at the output of a method that never checks where it is."""
    seen = anchor_at(run.objective, x, max(size, 2), run.generator)
    if not seen.is_finite:
        raise RunEnded(Ending.DIVERGED)
    run.checked(x, value=seen.value, gradient_norm=seen.norm, gradient_error=math.sqrt(seen.squared_error))
