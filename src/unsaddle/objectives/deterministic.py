"""What objectives that are one function have in common: there is nothing to draw."""

from __future__ import annotations

import torch

from unsaddle import checks
from unsaddle.cost import Ledger
from unsaddle.objective import Oracle, SampledFunction, freeze


class Deterministic:
    """An objective with one sample, the function itself.

    Args:
        oracle: its values and gradients.
        what: its name in errors.
    """

    num_samples = 1

    def __init__(self, oracle: Oracle, what: str) -> None:
        self._oracle, self._what = oracle, what

    def sample(
        self,
        size: int | None = None,
        generator: torch.Generator | None = None,
        *,
        replacement: bool = False,
        hessian: bool = False,
        ledger: Ledger | None = None,
    ) -> SampledFunction:
        """The function itself: `size` may only be None or 1."""
        if size is not None and checks.count(size, "size") > 1:
            raise ValueError(f"{self._what} has nothing to sample, so size must be None or 1, got {size}")
        ledger = Ledger() if ledger is None else ledger
        return freeze(self._oracle_of(ledger), 1, hessian, ledger)

    def _oracle_of(self, ledger: Ledger) -> Oracle:
        """For those that have more to count than their calls."""
        return self._oracle
