"""Rows of data on several ranks, each with its own: one sum over all of them.

The rows of rank 0 come first, then those of rank 1, and so on: a sample is drawn from all of them, by every rank in the
same way, and each evaluates those that it has. So the same seed draws the same rows for any number of ranks.
"""

from __future__ import annotations

from itertools import accumulate, pairwise

import torch
from torch import Tensor

from unsaddle.objective import Oracle
from unsaddle.ranks import Ranks


class SharedOracle(Oracle):
    """The mean over rows on several ranks, each of which evaluates its own: one message an evaluation.

    Args:
        oracle: of this rank's rows; None where it has none of them.
        weight: their share of all rows.
        ranks: who else there is.
    """

    def __init__(self, oracle: Oracle | None, weight: float, ranks: Ranks) -> None:
        self._oracle, self._weight, self._ranks = oracle, weight, ranks

    def value(self, x: Tensor) -> Tensor:
        own = x.new_zeros(()) if self._oracle is None else self._oracle.value(x).to(x)
        return self._summed(own)

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        both = x.new_zeros(x.numel() + 1)
        if self._oracle is not None:
            value, grad = self._oracle.value_and_grad(x)
            both[0], both[1:] = value, grad
        both = self._summed(both)
        return both[0], both[1:]

    def hvp(self, x: Tensor, v: Tensor) -> Tensor:
        return self._summed(torch.zeros_like(x) if self._oracle is None else self._oracle.hvp(x, v))

    def _summed(self, own: Tensor) -> Tensor:
        return self._ranks.mean(own * (self._weight * self._ranks.size))


def split_by_rank(index: Tensor, counts: list[int]) -> list[Tensor]:
    """For each rank, which of its own rows are among `index`, in the order of `index`."""
    starts = [0, *accumulate(counts)]
    return [index[(index >= a) & (index < b)] - a for a, b in pairwise(starts)]
