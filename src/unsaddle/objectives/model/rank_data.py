"""The data of a model whose ranks each have their own rows.

DDP and FSDP2 average gradients over the ranks, and need equally many runs on each rank. Weights turn this average into
the mean over all rows. A rank with fewer batches repeats one with weight zero. What is NaN or infinite in such a batch
counts as zero, as zero times that is NaN.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from unsaddle.objectives.model.data import Drawn, Source, tensors_in
from unsaddle.objectives.rank_rows import split_by_rank
from unsaddle.objectives.sampling import draw_indices
from unsaddle.ranks import Ranks, raised_on_all

ENDLESS = -1
"""The number of samples that a rank tells the others if its data never end."""


class SharedSource:
    """The sources of all ranks as one; `source` is this rank's own, which is evaluated on `least()` rows at least."""

    def __init__(self, source: Source, ranks: Ranks, least: Callable[[], int] = lambda: 1) -> None:
        self._source, self._ranks, self._least = source, ranks, least
        self.batch_size = sum(ranks.gather(source.batch_size))
        counts = ranks.gather(ENDLESS if source.num_samples is None else source.num_samples)
        if ENDLESS in counts and len(set(counts)) > 1:
            kinds = ["without end" if count == ENDLESS else f"{count} samples" for count in counts]
            raise ValueError(f"data must have a length on all ranks or on none, got {', '.join(kinds)}")
        self._counts = None if ENDLESS in counts else counts

    @property
    def num_samples(self) -> int | None:
        return None if self._counts is None else sum(self._counts)

    def draw(self, size: int, generator: torch.Generator | None, replacement: bool, seed: int) -> Drawn:
        rank = self._ranks.rank
        if self._counts is None:  # Endless loaders get equal shares, but may draw more rows than that.
            with raised_on_all(self._ranks, "data"):
                drawn = self._source.draw(-(-size // self._ranks.size), generator, replacement, seed + rank)
            return self._weighted(drawn, self._ranks.gather(drawn.size))
        parts = split_by_rank(draw_indices(sum(self._counts), size, generator, replacement), self._counts)
        # A rank without any of the rows takes some with weight zero. A rank with too few takes others beside them.
        own, least = parts[rank], min(self._least(), self._counts[rank])
        following = (own[-1:] if own.numel() else torch.zeros(1, dtype=torch.long)) + torch.arange(1, least + 1)
        own = torch.cat([own, following.remainder(self._counts[rank])[: max(0, max(1, least) - own.numel())]])
        return self._weighted(self._source.take(own, seed + rank), [part.numel() for part in parts])

    def everything(self) -> Drawn:
        drawn = self._source.everything()  # An endless loader raises here.
        assert self._counts is not None
        return self._weighted(drawn, self._counts)

    def _weighted(self, drawn: Drawn, counts: list[int]) -> Drawn:
        total = sum(counts)
        share = self._ranks.size * counts[self._ranks.rank] / total
        longest = max(self._ranks.gather(drawn.batches))
        return Drawn(lambda: _padded(drawn.weighted(), share, longest), total, longest)


def _padded(weighted: Iterable[tuple[Any, float]], share: float, count: int) -> Iterator[tuple[Any, float]]:
    """The batches with weights times `share`; then the last batch with weight zero, up to `count` batches."""
    batch, given = None, 0
    for batch, weight in weighted:
        yield batch if share else _finite(batch), share * weight
        given += 1
    batch = _finite(batch) if given < count else None
    for _ in range(count - given):
        yield batch, 0.0


def _finite(batch: Any) -> Any:
    """The batch; or, if some of it is NaN or infinite, a copy with zeros there."""
    if all(bool(t.isfinite().all()) for t in _floats(batch)):
        return batch
    batch = copy.deepcopy(batch)
    for tensor in _floats(batch):
        tensor.nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)
    return batch


def _floats(batch: Any) -> Iterator[Tensor]:
    return (t for t in tensors_in(batch) if t.is_floating_point() and t.layout is torch.strided)
