"""The data of a model whose ranks have rows of their own: one sum over all of them.

Models that reduce gradients by themselves (DDP, FSDP2) take the mean over ranks and expect every rank to run as often
as the others. A rank's weights make that mean the one over rows, and a rank that has fewer batches runs one of them
again, with weight zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from unsaddle.objectives.model.data import Drawn, Source
from unsaddle.objectives.rank_rows import split_by_rank
from unsaddle.objectives.sampling import draw_indices
from unsaddle.ranks import Ranks


class SharedSource:
    """The sources of all ranks as one.

    Args:
        source: this rank's own.
        ranks: who else there is.
    """

    def __init__(self, source: Source, ranks: Ranks) -> None:
        self._source, self._ranks = source, ranks
        own = source.num_samples
        self._counts = None if own is None else ranks.gather(own)

    @property
    def num_samples(self) -> int | None:
        """On all ranks together."""
        return None if self._counts is None else sum(self._counts)

    def draw(self, size: int, generator: torch.Generator | None, replacement: bool, seed: int) -> Drawn:
        if self._counts is None:
            return self._draw_from_loaders(size, generator, replacement, seed)
        ranks, n = self._ranks, sum(self._counts)
        parts = split_by_rank(draw_indices(n, size, generator, replacement), self._counts)
        counts = [part.numel() for part in parts]
        own = parts[ranks.rank]
        # A rank that has none of the rows takes one with weight zero.
        drawn = self._source.take(own if own.numel() else torch.zeros(1, dtype=torch.long), seed + ranks.rank)
        return self._weighted(drawn, counts, size)

    def everything(self) -> Drawn:
        drawn = self._source.everything()  # Where there is no end of rows, this says so.
        assert self._counts is not None
        return self._weighted(drawn, self._counts, sum(self._counts))

    def _draw_from_loaders(self, size: int, generator: torch.Generator | None, replacement: bool, seed: int) -> Drawn:
        """Each loader its share. How many rows come is for the loaders to say."""
        drawn = self._source.draw(-(-size // self._ranks.size), generator, replacement, seed + self._ranks.rank)
        counts = self._ranks.gather(drawn.size)
        return self._weighted(drawn, counts, sum(counts))

    def _weighted(self, drawn: Drawn, counts: list[int], total: int) -> Drawn:
        ranks = self._ranks
        share = ranks.size * counts[ranks.rank] / total
        longest = -ranks.smallest(-drawn.batches)
        return Drawn(_Padded(drawn.weighted, share, longest), total, longest)


@dataclass(frozen=True)
class _Padded:
    """Batches with their weights multiplied by `share`, and the last one again until there are `count`."""

    weighted: Iterable[tuple[Any, float]]
    share: float
    count: int

    def __iter__(self) -> Iterator[tuple[Any, float]]:
        batch, given = None, 0
        for batch, weight in self.weighted:
            yield batch, self.share * weight
            given += 1
        for _ in range(self.count - given):
            yield batch, 0.0
