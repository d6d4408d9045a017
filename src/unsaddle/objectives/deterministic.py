"""Base class of objectives that are one function: there is nothing to draw."""

from __future__ import annotations

import torch

from unsaddle import checks
from unsaddle.objective import BaseObjective, Oracle


class Deterministic(BaseObjective):
    """An objective with one sample, the function itself: `size` must be None or 1. Errors call it `what`."""

    num_samples = 1

    def __init__(self, oracle: Oracle, what: str) -> None:
        self._oracle, self._what = oracle, what

    def _draw(self, size: int | None, generator: torch.Generator | None, replacement: bool) -> tuple[Oracle, int]:
        if size is not None and checks.count(size, "size") > 1:
            raise ValueError(f"{self._what} has nothing to sample, so size must be None or 1, got {size}")
        return self._oracle, 1
