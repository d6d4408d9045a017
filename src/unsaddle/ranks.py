"""Ranks that work on one vector together: each holds all of it (DDP), its own shard (FSDP2), or both (HSDP).

`vectors` sums every inner product over the ranks before an algorithm reads it. All ranks then read the same bits and
take the same branch, even if they round differently.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """A process group, and which part of the vector this rank holds.

    >>> alone = Ranks(group=None, dimension=5, pieces=((0, 5),), replicas=1)
    >>> alone.size, alone.rank
    (1, 0)
    """

    group: Any
    """The process group of all replicas and shards; None for a single process."""
    dimension: int | None
    """d of the whole vector, if it is sharded; None if this rank holds everything."""
    pieces: tuple[tuple[int, int], ...] = ()
    """(first index in the whole vector, length) of each piece that this rank holds, in its order."""
    replicas: int
    """How many ranks hold each entry."""

    @property
    def size(self) -> int:
        return 1 if self.group is None else dist.get_world_size(self.group)

    @property
    def rank(self) -> int:
        return 0 if self.group is None else dist.get_rank(self.group)

    def sum(self, numbers: Tensor) -> Tensor:
        """Sum inner products of shards or replicas to those of the whole vector, in place. All ranks get the same."""
        if self.size > 1:
            dist.all_reduce(numbers, group=self.group)
        return numbers.div_(self.replicas) if self.replicas > 1 else numbers

    def mean(self, numbers: Tensor) -> Tensor:
        """The mean over the ranks, as of the losses of their own batches."""
        if self.size == 1:
            return numbers
        numbers = numbers.detach().clone()
        dist.all_reduce(numbers, group=self.group)
        return numbers.div_(self.size)

    def smallest(self, number: int) -> int:
        return -max(self.gather(-number))

    def gather(self, number: int) -> list[int]:
        """Every rank's number, in the order of the ranks."""
        return [int(n) for n in self.rows(torch.tensor(number)).tolist()]

    def rows(self, numbers: Tensor) -> Tensor:
        """Every rank's numbers, in the order of the ranks, on the host."""
        if self.size == 1:
            return numbers.unsqueeze(0)
        device = "cpu" if "gloo" in str(dist.get_backend(self.group)) else torch.device("cuda")
        rows = torch.zeros(self.size, *numbers.shape, dtype=numbers.dtype, device=device)
        rows[self.rank] = numbers
        dist.all_reduce(rows, group=self.group)
        return rows.cpu()


_CURRENT: ContextVar[Ranks | None] = ContextVar("ranks", default=None)


def current() -> Ranks | None:
    """The ranks that vectors are spread over at this moment; None in a single process."""
    return _CURRENT.get()


@contextmanager
def together(ranks: Ranks | None) -> Iterator[None]:
    """Inside, vectors are spread over `ranks`; None changes nothing."""
    token = _CURRENT.set(_CURRENT.get() if ranks is None else ranks)
    try:
        yield
    finally:
        _CURRENT.reset(token)


@contextmanager
def named(ranks: Ranks | None, call: str) -> Iterator[None]:
    """A RuntimeError of the block is told with the call and the rank that it was in: torch.distributed says neither."""
    try:
        yield
    except RuntimeError as error:
        if ranks is not None and ranks.size > 1:
            error.add_note(
                f"This was in {call} on rank {ranks.rank} of {ranks.size}. If the message is of torch.distributed, "
                "another rank has ended, or has called something else: look at its own error."
            )
        raise


@contextmanager
def raised_on_all(ranks: Ranks | None, what: str) -> Iterator[None]:
    """If the block raises on one rank, all ranks raise, so that none waits for it forever."""
    error: Exception | None = None
    try:
        yield
    except Exception as raised:
        error = raised
    wrong = [] if ranks is None else [rank for rank, is_so in enumerate(ranks.gather(int(error is not None))) if is_so]
    if error is not None:
        raise error
    if wrong:
        raise ValueError(f"something is wrong with the {what} of rank {wrong[0]}, whose own error says what")


def check_seed(ranks: Ranks | None, seed: Any) -> None:
    """Raise on all ranks if their seeds differ: replicas would part."""
    if ranks is None or ranks.size == 1:
        return
    own = seed if isinstance(seed, int) and 0 <= seed < 2**62 else -1  # Another one raises its own error later.
    seeds = ranks.gather(own)
    if len(set(seeds)) > 1:
        raise ValueError(f"seed must be the same on all ranks, got {seeds}; the ranks draw their own rows anyway")


ALIKE = 1e-6
"""Replicas may differ by this share, from rounding."""
PART = 1 << 20
"""Entries of x that are compared at a time, so that no second x is in memory."""


def check_alike(ranks: Ranks | None, x: Any) -> None:
    """Raise on all ranks if x is replicated but differs between them."""
    if ranks is None or ranks.size == 1 or ranks.dimension is not None or not isinstance(x, Tensor):
        return
    own = torch.zeros(2, dtype=torch.float64)  # ‖x‖² and Σ (i mod 7)·x_i, with i counted from 1 in each part.
    for part in torch.split(x.detach().flatten(), PART):
        part = part.double().cpu()
        weights = torch.arange(1.0, part.numel() + 1.0, dtype=torch.float64).remainder_(7.0)
        own += torch.stack([part @ part, part @ weights])
    seen = ranks.rows(torch.stack([own[0].sqrt(), own[1]]))
    spread = (seen - seen[0]).abs().max(dim=0).values
    limit = ALIKE * seen[0, 0] * max(1.0, 7.0 * x.numel() ** 0.5)
    if bool((spread > limit).any()):
        raise ValueError("x must be the same point on all ranks, got different ones; broadcast it from one of them")


def of_parameters(parameters: Sequence[Tensor], group: Any = None) -> Ranks | None:
    """The ranks that sharded parameters (DTensors) are spread over; for plain tensors `group`, which holds replicas.

    Raises a ValueError if parameters are sharded in another way than by `fully_shard`.
    """
    if any(getattr(p, "_fsdp_flattened", False) or type(p).__name__ == "FlatParameter" for p in parameters):
        raise ValueError(
            "parameters are sharded by FullyShardedDataParallel, the first FSDP, which is not supported; use "
            "torch.distributed.fsdp.fully_shard"
        )
    sharded = [p for p in parameters if is_sharded(p)]
    if not sharded:
        return replicated(group)
    mesh, placements = sharded[0].device_mesh, sharded[0].placements  # type: ignore[attr-defined]
    others = [p for p in sharded if (p.device_mesh, p.placements) != (mesh, placements)]  # type: ignore[attr-defined]
    if len(sharded) < len(parameters) or others:
        raise ValueError(
            "trainable parameters must all be sharded in one way over one mesh, got several; call fully_shard on the "
            "root module too, or leave the others out with parameters=..."
        )
    shards = [i for i, placement in enumerate(placements) if placement.is_shard()]
    if len(shards) != 1 or not placements[shards[0]].is_shard(0):
        raise ValueError(
            f"parameters must be sharded by rows on one dimension of the mesh and replicated on the others, as "
            f"fully_shard does, got {placements}; tensor-parallel models are not supported"
        )
    by, size = shards[0], mesh.size(shards[0])
    pieces, start = [], 0
    for p in sharded:
        pieces.append(_rows(start, p.shape, size, mesh.get_local_rank(by)))
        start += p.numel()
    replicas = math.prod(mesh.shape) // size
    return Ranks(group=_group(mesh), dimension=start, pieces=tuple(pieces), replicas=replicas)


def replicated(group: Any) -> Ranks | None:
    """The ranks of a group that each hold everything; None if there is only one."""
    if group is None or dist.get_world_size(group) == 1:
        return None
    return Ranks(group=group, dimension=None, replicas=dist.get_world_size(group))


def is_sharded(tensor: Tensor) -> bool:
    """Whether this is a DTensor."""
    return hasattr(tensor, "device_mesh") and hasattr(tensor, "to_local")


def local(tensor: Tensor) -> Tensor:
    """This rank's part of a tensor, in the tensor's own memory, outside autograd."""
    own: Tensor = tensor.detach().to_local() if is_sharded(tensor) else tensor  # type: ignore[attr-defined]
    return own.data


def _rows(start: int, shape: Iterable[int], size: int, rank: int) -> tuple[int, int]:
    """First index and length of the rows that torch.chunk gives to a rank."""
    rows, *rest = (*shape, 1)
    each, width = -(-rows // size), math.prod(rest)
    first = min(rank * each, rows)
    last = min(first + each, rows)
    return start + first * width, (last - first) * width


def _group(mesh: Any) -> Any:
    """All ranks of a mesh."""
    if mesh.ndim == 1:
        return mesh.get_group()
    if math.prod(mesh.shape) == dist.get_world_size():
        return dist.group.WORLD
    return mesh._flatten().get_group()
