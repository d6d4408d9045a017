"""Sources of batches for a model's loss: rows of a data set, a list of batches, or an endless loader."""

from __future__ import annotations

import copy
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils import data as torch_data
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, TensorDataset, default_collate

from unsaddle.objectives.model.rng import RandomState
from unsaddle.objectives.sampling import draw_indices

MICRO_BATCH = 128
"""Rows of a data set that go through the model at once, by default."""
KEPT_BYTES = 64 << 20
"""Batches of a data set of tensors are kept, not gathered at each evaluation, up to so many bytes."""
UNIFORM = (torch_data.SequentialSampler, torch_data.RandomSampler, DistributedSampler)
"""Samplers under which all rows weigh the same. A loader with another sampler is `Endless`."""


@dataclass(frozen=True)
class Drawn:
    """A frozen sample: batches with their weights in the mean."""

    weighted: Callable[[], Iterable[tuple[Any, float]]]
    """Returns the same (batch, weight) pairs each time. The weights add up to one."""
    size: int
    """Samples in all batches."""
    batches: int


class Source(ABC):
    """Draws batches. `num_samples` is None if samples never run out."""

    num_samples: int | None
    batch_size: int
    """Samples that go through the model at once."""

    def draw(self, size: int, generator: torch.Generator | None, replacement: bool, seed: int) -> Drawn:
        """Draw `size` samples. `seed` is for random numbers in the data set, as of augmentation."""
        assert self.num_samples is not None
        return self.take(draw_indices(self.num_samples, size, generator, replacement), seed)

    @abstractmethod
    def take(self, index: Tensor, seed: int) -> Drawn:
        """The samples at `index`."""

    @abstractmethod
    def everything(self) -> Drawn: ...


class Rows(Source):
    """A data set with a length. A sample is a row; rows are gathered into batches."""

    def __init__(self, dataset: Any, collate: Callable[[list[Any]], Any], micro_batch: int) -> None:
        self.num_samples: int = len(dataset)
        if self.num_samples == 0:
            raise ValueError("the data set is empty; a loss needs at least one row")
        self._dataset, self._collate, self._micro_batch = dataset, collate, micro_batch
        self.batch_size = min(micro_batch, self.num_samples)
        self._is_of_tensors = type(dataset) is TensorDataset and collate is default_collate

    def take(self, index: Tensor, seed: int) -> Drawn:
        """Reads the rows once and keeps them."""
        with RandomState.seeded(seed).in_force(), torch.inference_mode(False):  # Autograd is to use them.
            held = list(self._batches(index))
        return Drawn(lambda: held, index.numel(), len(held))

    def everything(self) -> Drawn:
        """Reads the rows again each time, so that only one batch is in memory. Of tensors, small ones are kept."""
        n, tensors = self.num_samples, self._dataset.tensors if self._is_of_tensors else ()
        if tensors and (self._parts(n) == 1 or sum(tensor.nbytes for tensor in tensors) <= KEPT_BYTES):
            with torch.inference_mode(False):
                held = list(self._batches(torch.arange(n)))
            return Drawn(lambda: held, n, len(held))
        return Drawn(lambda: self._batches(torch.arange(n)), n, self._parts(n))

    def _batches(self, index: Tensor) -> Iterator[tuple[Any, float]]:
        for part in torch.tensor_split(index.cpu(), self._parts(index.numel())):
            yield self._fetch(part), part.numel() / index.numel()

    def _parts(self, rows: int) -> int:
        """Batches of equal size, up to one row: a leftover batch of one row would break batch norm."""
        parts = -(-rows // self._micro_batch)
        return parts if self._micro_batch == 1 else min(parts, max(1, rows // 2))

    def _fetch(self, index: Tensor) -> Any:
        if self._is_of_tensors:
            return [tensor[index.to(tensor.device)] for tensor in self._dataset.tensors]  # The same as collating rows.
        at = index.tolist()
        whole = getattr(self._dataset, "__getitems__", None)
        return self._collate([self._dataset[i] for i in at] if whole is None else whole(at))


class Listed(Source):
    """A list of batches. A sample is a batch, and all weigh the same."""

    def __init__(self, batches: Sequence[Any]) -> None:
        if len(batches) == 0:
            raise ValueError("the list of batches is empty; a loss needs at least one")
        *rows, last = map(count_rows, batches)
        if len(set(rows)) == 1 and last < rows[0]:  # As in list(loader).
            warnings.warn(
                f"the last batch of the list has {last} rows and weighs as much as the others of {rows[0]}; pass the "
                "DataLoader itself to have every row weigh the same",
                RuntimeWarning,
                stacklevel=4,
            )
        self.num_samples: int = len(batches)
        self.batch_size, self._batches = 1, batches

    def take(self, index: Tensor, seed: int) -> Drawn:
        n = index.numel()
        held = [(self._batches[i], 1.0 / n) for i in index.tolist()]
        return Drawn(lambda: held, n, n)

    def everything(self) -> Drawn:
        return self.take(torch.arange(self.num_samples), 0)


class Endless(Source):
    """A loader that chooses its own order. A sample is a row, but whole batches are drawn.

    Its copy here runs in this process. It shares the data set with the caller's loader, but no iterator, worker or
    random numbers. A draw continues where the last one ended: a loader may always start with the same samples.
    """

    num_samples = None

    def __init__(self, loader: DataLoader[Any], seed: int) -> None:
        self.batch_size = loader.batch_size or 1  # At least a batch is drawn.
        self._loader = own = copy.copy(loader)
        vars(own).update(num_workers=0, persistent_workers=False, prefetch_factor=None, timeout=0, _iterator=None)
        self._random = RandomState.seeded(seed)
        samplers = (loader, loader.sampler, loader.batch_sampler, getattr(loader.batch_sampler, "sampler", None))
        generators = (getattr(sampler, "generator", None) for sampler in samplers)
        self._states = {g: g.get_state() for g in generators if isinstance(g, torch.Generator)}
        self._iterator: Iterator[Any] = iter(())

    def draw(self, size: int, generator: torch.Generator | None, replacement: bool, seed: int) -> Drawn:
        batches: list[tuple[Any, int]] = []
        total = 0
        theirs = {g: g.get_state() for g in self._states}
        with self._random.in_force():
            try:
                for g, state in self._states.items():
                    g.set_state(state)
                while total < size:
                    batch = self._next()
                    batches.append((batch, count_rows(batch)))
                    total += batches[-1][1]
                self._random, self._states = RandomState.capture(), {g: g.get_state() for g in theirs}
            finally:
                for g, state in theirs.items():
                    g.set_state(state)
        return Drawn(lambda: [(batch, rows / total) for batch, rows in batches], total, len(batches))

    def take(self, index: Tensor, seed: int) -> Drawn:
        raise ValueError("these data come from a loader that decides itself what comes next; rows have no index")

    def everything(self) -> Drawn:
        raise ValueError(
            "these data come from a loader that decides itself what comes next, so 'everything' does not exist; say "
            "how many samples to draw, or pass a data set with a length"
        )

    def _next(self) -> Any:
        for _ in range(2):
            for batch in self._iterator:
                return batch
            self._iterator = iter(self._loader)
        raise ValueError("the loader is empty; a loss needs at least one batch")


def tensors_in(batch: Any) -> Iterator[Tensor]:
    """The tensors in nested lists, tuples and dictionaries."""
    if isinstance(batch, Tensor):
        yield batch
    elif isinstance(batch, (list, tuple)) or callable(getattr(batch, "values", None)):
        for part in batch.values() if callable(getattr(batch, "values", None)) else batch:
            yield from tensors_in(part)


def count_rows(batch: Any) -> int:
    """The first dimension of the first tensor in a batch that is no scalar; 1 if there is none."""
    return next((t.shape[0] for t in tensors_in(batch) if t.ndim > 0), 1)


def source(data: Any, micro_batch: int | None, seed: int, *, shared: bool = False) -> Source:
    """The source for a Dataset, a DataLoader or a list of batches. `seed` is for an endless loader.

    With `shared`, other ranks have rows, too, and a DistributedSampler selects this rank's rows.
    """
    if isinstance(data, DataLoader):
        return _of_loader(data, micro_batch, seed, shared)
    if isinstance(data, IterableDataset):
        return Endless(DataLoader(data, batch_size=micro_batch or MICRO_BATCH), seed)
    if isinstance(data, list):
        if micro_batch is not None:
            raise ValueError(
                f"micro_batch splits the rows of a Dataset, got {micro_batch} with a list of batches, which are taken "
                "as they are; leave it out, or make the batches smaller"
            )
        _check_is_of_batches(data)
        return Listed(data)
    unfit = isinstance(data, (tuple, dict, str, Tensor, np.ndarray, type))
    if unfit or not (hasattr(data, "__getitem__") and hasattr(data, "__len__")):
        raise TypeError(f"data must be a Dataset, a DataLoader or a list of batches, got {_refused(data)}")
    return Rows(data, default_collate, micro_batch or MICRO_BATCH)


def _refused(data: Any) -> str:
    """What came in place of data, and what to write instead."""
    kind = type(data).__name__
    if isinstance(data, type):
        return f"the class {data.__name__}; pass an instance of it"
    if isinstance(data, torch_data.Dataset):
        return f"{kind}, a Dataset without a length; give it __len__, or make it an IterableDataset"
    if isinstance(data, Iterator):
        return f"{kind}, which ends after one pass; pass list(...) of it, or what it was made from"
    return f"{kind}; wrap tensors as torch.utils.data.TensorDataset(...), and a single batch as [batch]"


def _check_is_of_batches(data: list[Any]) -> None:
    """Raise if the list is [inputs, targets], which is no list of batches."""
    if len(data) < 2 or not all(isinstance(part, Tensor) and part.ndim > 0 for part in data):
        return
    kinds = {(part.dtype, part.shape[1:]) for part in data}
    if len(kinds) > 1 and len({part.shape[0] for part in data}) == 1:
        shapes = ", ".join(f"{tuple(part.shape)} of {part.dtype}" for part in data[:3])
        raise ValueError(
            f"data is a list of tensors that are no batches of the same thing, got {shapes}; wrap inputs and targets "
            "as torch.utils.data.TensorDataset(inputs, targets), and a single batch as [batch]"
        )


def _of_loader(loader: DataLoader[Any], micro_batch: int | None, seed: int, shared: bool) -> Source:
    dataset: Any = loader.dataset
    uniform = type(loader.batch_sampler) is torch_data.BatchSampler and type(loader.sampler) in UNIFORM
    if uniform and not isinstance(dataset, IterableDataset):
        assert loader.collate_fn is not None
        if shared and isinstance(loader.sampler, DistributedSampler):  # Without the rows that it repeats as padding.
            dataset = torch_data.Subset(dataset, range(loader.sampler.rank, len(dataset), loader.sampler.num_replicas))
        return Rows(dataset, loader.collate_fn, micro_batch or loader.batch_size or MICRO_BATCH)
    if micro_batch is not None:
        raise ValueError(
            f"micro_batch splits the rows of a data set that is sampled uniformly, got {micro_batch} with a loader "
            "that makes its own batches; leave it out, or give the loader smaller batches"
        )
    return Endless(loader, seed)
