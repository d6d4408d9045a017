"""The vector space: inner products, norms, noise, and sweeps in blocks.

Algorithms use torch's element-wise operations on flat 1-D tensors, and this file for everything else. Several inner
products are taken at once, so that a step needs one transfer to the host. If a vector is spread over `ranks`, a tensor
is this rank's part of it, and products are summed over the ranks in one message.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unsaddle import ranks

Array = NDArray[np.float64]

BLOCK_BYTES = 4 << 20
"""Bytes of one vector that a sweep works on at a time: a second pass over a block finds it in the cache.
`python -m benchmarks.step_cost --blocks` measures the gain."""


def dots(*pairs: tuple[Tensor, Tensor]) -> list[float]:
    """Inner products of all pairs, brought to the host together.

    >>> u = torch.tensor([1.0, 2.0])
    >>> dots((u, u), (u, torch.ones(2)))
    [5.0, 3.0]
    """
    parts = blocks(*(v for pair in pairs for v in pair))
    return total([[torch.dot(a, b) for a, b in zip(part[::2], part[1::2], strict=True)] for part in parts])


def dot_matrix(a: Sequence[Tensor], b: Sequence[Tensor]) -> Array:
    """All inner products of two lists of vectors. They go through the cache once, in blocks of all of them.

    >>> u = torch.tensor([1.0, 2.0])
    >>> dot_matrix([u, 3.0 * u], [u])
    array([[ 5.],
           [15.]])
    """
    size = max(1, BLOCK_BYTES // (len(a) + len(b)) // a[0].element_size())
    products = torch.zeros(len(a), len(b), dtype=torch.float64, device=a[0].device)
    for block in zip(*(torch.split(v, size) for v in (*a, *b)), strict=True):
        products += torch.stack(block[: len(a)]) @ torch.stack(block[len(a) :]).T
    return summed(products).cpu().numpy()


def norm(u: Tensor) -> float:
    """Euclidean norm, also of vectors whose squares underflow, or overflow float32. Beyond float64 it is inf."""
    (squared,) = dots((u, u))
    precision = torch.finfo(u.dtype)
    usable = precision.tiny / precision.eps <= squared <= precision.max
    if usable or (squared == math.inf and u.dtype == torch.float64):
        return math.sqrt(squared)
    (size,) = total([[block.abs().sum(dtype=torch.float64)] for (block,) in blocks(u)])
    if size == 0.0 or not math.isfinite(size):
        return size
    return size * math.sqrt(sum(total([[(block.double() / size).square().sum()] for (block,) in blocks(u)])))


def blocks(first: Tensor, *others: Tensor | None) -> Iterator[tuple[Tensor, ...]]:
    """Aligned views of the vectors, each small enough to stay in the cache over several passes.

    For a vector that is None, each block gets the same uninitialised memory of its size.
    """
    size = BLOCK_BYTES // first.element_size()
    if first.numel() <= size:
        return iter([(first, *(torch.empty_like(first) if v is None else v for v in others))])
    parts = torch.split(first, size)
    return zip(parts, *(_same_room(parts) if v is None else torch.split(v, size) for v in others), strict=True)


def _same_room(parts: Sequence[Tensor]) -> list[Tensor]:
    room = torch.empty_like(parts[0])
    return [room[: part.numel()] for part in parts]


def total(products: Sequence[Sequence[Tensor]]) -> list[float]:
    """Sum inner products over the blocks (one sequence each) and over the ranks, and bring them to the host together.

    Blocks are added in float64, so that float32 vectors of 1e8 entries keep their digits.
    """
    width, numbers = len(products[0]), torch.stack([product for block in products for product in block])
    if ranks.current() is not None:
        return summed(numbers.double().view(-1, width).sum(0)).tolist()
    flat = numbers.tolist()
    return [sum(flat[i::width]) for i in range(width)]


def summed(products: Tensor) -> Tensor:
    """Inner products of this rank's parts, summed over the ranks in place."""
    team = ranks.current()
    return products if team is None else team.sum(products)


def summed_and_said(products: Tensor, *numbers: Array) -> tuple[Any, ...]:
    """`summed` on the host, and the first rank's `numbers` on all ranks, in one message.

    Ranks with different processors may compute slightly different `numbers` from the same input.
    """
    team = ranks.current()
    if team is None:
        return products.tolist(), *numbers
    own = np.concatenate([np.empty(0), *(array.ravel() for array in numbers)])
    told = torch.from_numpy(own * team.replicas if team.rank == 0 else np.zeros_like(own)).to(products.device)
    both = team.sum(torch.cat([products.double(), told])).tolist()
    ends = np.cumsum([products.numel(), *(array.size for array in numbers)])
    parts = np.split(np.array(both), ends[:-1])[1:]
    return both[: ends[0]], *(part.reshape(array.shape) for part, array in zip(parts, numbers, strict=True))


def dimension(x: Tensor) -> int:
    """d of the whole vector, of which x may be this rank's part."""
    team = ranks.current()
    return x.numel() if team is None or team.dimension is None else team.dimension


def random_direction(like: Tensor, generator: torch.Generator) -> Tensor:
    """A vector uniform on the unit sphere, in the shape, dtype and device of `like`."""
    u = normal(like, generator)
    return u.div_(norm(u))


def random_in_ball(like: Tensor, radius: float, generator: torch.Generator) -> Tensor:
    """A vector uniform in the ball of the given radius, as the paper's proofs require: u = r·U^{1/d}·g/‖g‖."""
    uniform = float(torch.rand((), generator=generator, dtype=torch.float64, device=generator.device))
    u = normal(like, generator)
    return u.mul_(radius * uniform ** (1.0 / dimension(like)) / norm(u))


def normal(like: Tensor, generator: torch.Generator) -> Tensor:
    """A nonzero vector of independent normal numbers, in the shape, dtype and device of `like`."""
    while True:
        u = _drawn(like, generator).to(like.device)
        if norm(u) > 0.0:  # In one dimension a normal number can round to zero.
            return u


DRAWN_AT_ONCE = 1 << 20
"""A longer vector is drawn in parts of this length, each with its own generator: a rank skips parts of other ranks."""


def _drawn(like: Tensor, generator: torch.Generator) -> Tensor:
    """Normal numbers: the same vector for any number of ranks. Of a long one, a rank draws only its own parts."""
    d, device, team = dimension(like), generator.device, ranks.current()
    draw = partial(torch.randn, dtype=like.dtype, device=device)
    pieces = ((0, d),) if team is None or team.dimension is None else team.pieces
    if d <= DRAWN_AT_ONCE:
        u = draw(d, generator=generator)
        return u if d == like.numel() else torch.cat([u[first : first + length] for first, length in pieces])
    seed = int(torch.randint(1 << 62, (), generator=generator, device=device))
    u = torch.empty(like.numel(), dtype=like.dtype, device=device)
    part, begin, offset = u[:0], 0, 0
    for first, length in pieces:
        at = first
        while at < first + length:
            if not begin <= at < begin + part.numel():  # Small pieces may share a part.
                begin = at - at % DRAWN_AT_ONCE
                own = torch.Generator(device).manual_seed(seed + begin)
                part = draw(min(DRAWN_AT_ONCE, d - begin), generator=own)
            taken = min(first + length, begin + part.numel()) - at
            u[offset : offset + taken] = part[at - begin : at - begin + taken]
            at, offset = at + taken, offset + taken
    return u
