"""A finite sum whose rows are spread over several ranks.

The rows are numbered rank by rank. Every rank draws the same sample from all rows and evaluates those that it holds.
So the same seed draws the same rows for any number of ranks.
"""

from __future__ import annotations

from itertools import accumulate, pairwise

import torch
from torch import Tensor

from unsaddle.objective import Oracle
from unsaddle.ranks import Ranks


class SharedOracle(Oracle):
    """The mean over rows on several ranks. Each rank evaluates its own; an evaluation takes one message.

    `oracle` is the mean over this rank's rows, None if it has none. `weight` is this rank's share of all rows.
    """

    def __init__(self, oracle: Oracle | None, weight: float, ranks: Ranks) -> None:
        self._oracle, self._weight, self._ranks = oracle, weight, ranks

    def value(self, x: Tensor) -> Tensor:
        return self._summed(x.new_zeros(()) if self._oracle is None else self._oracle.value(x).to(x))

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        both = x.new_zeros(x.numel() + 1)
        if self._oracle is not None:
            both[0], both[1:] = self._oracle.value_and_grad(x)
        both = self._summed(both)
        return both[0], both[1:]

    def hvp(self, x: Tensor, v: Tensor) -> Tensor:
        return self._summed(torch.zeros_like(x) if self._oracle is None else self._oracle.hvp(x, v))

    def _summed(self, own: Tensor) -> Tensor:
        return self._ranks.mean(own * (self._weight * self._ranks.size))


def split_by_rank(index: Tensor, counts: list[int]) -> list[Tensor]:
    """For each rank, which of its own rows are in `index`, in the order of `index`."""
    return [index[(index >= a) & (index < b)] - a for a, b in pairwise(accumulate(counts, initial=0))]
