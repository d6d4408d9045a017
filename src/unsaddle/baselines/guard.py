"""A guard against divergence. The papers need none, since they know every constant."""

from __future__ import annotations

import math
from typing import NoReturn

import torch
from torch import Tensor

from unsaddle.first_order.anchor import Anchor, anchor_at
from unsaddle.run import Ending, Run, RunEnded

DIVERGED = 1e8
"""A value above this many times max(1, |F(x0)|) has diverged."""

SUFFICIENT = 1e-4
"""An epoch or a step must lower F_S by this share of η‖∇F_S‖². It is the share that is usual in line searches."""


class Guard:
    """Moves a run to points with a finite value, and ends it at the first other one."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._limit = math.nan
        self._largest = 0.0

    def seen(self, x: Tensor, value: float) -> None:
        """Moves the run to x, where F_S(x) = value, or ends it at the last finite point."""
        if not math.isfinite(value) or value > self._limit:  # Before the first value the limit is NaN.
            raise RunEnded(Ending.NOT_FINITE if math.isnan(self._limit) else Ending.DIVERGED)
        if math.isnan(self._limit):
            self._limit = DIVERGED * max(1.0, abs(value))
        self._largest = max(self._largest, abs(value))
        self.run.moved(x, value)

    def rounding(self, dtype: torch.dtype) -> float:
        """By how much rounding alone may separate two values: sixteen roundings of the largest value seen."""
        return 16.0 * torch.finfo(dtype).eps * self._largest

    def lowered(self, value: float, seen: Anchor, step_size: float) -> bool:
        """Whether F_S fell to `value` by `SUFFICIENT`·η‖∇F_S‖², up to rounding. False for NaN.

        A value that only does not rise is not enough: at η = 2/L1 steps go to and fro.
        """
        return value <= seen.value - SUFFICIENT * step_size * seen.norm**2 + self.rounding(seen.x.dtype)


def end_at(run: Run, x: Tensor, size: int) -> NoReturn:
    """Ends a method that never checks its point: x is its output. Measures the gradient there, on `size` samples."""
    seen = anchor_at(run.objective, x, max(size, 2), run.generator)
    if not seen.is_finite:
        raise RunEnded(Ending.DIVERGED)
    run.checked(x, value=seen.value, gradient_norm=seen.norm, gradient_error=math.sqrt(seen.squared_error))
    raise RunEnded(Ending.OUTPUT)
