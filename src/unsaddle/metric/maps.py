"""The map S of x = Sz: symmetric and positive definite, with singular values whose geometric mean is 1.

Only SSᵀ matters for a search, since a rotation of z changes no eigenvalue. So S may be taken to be symmetric, and
Sᵀg is Sg.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import torch
from torch import Tensor

from unsaddle import ranks, vectors

ORDERS = 10.0
"""Singular values of S range over at most this many orders of magnitude; those beyond are brought nearer. Any positive
S is a right one, and float32 has no room for more."""


EQUAL = 1e-6
"""Sizes within this share of the smallest count as the smallest: float32 rounds."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Map(ABC):
    """S, with its smallest and its largest singular value."""

    smallest: float
    largest: float

    @abstractmethod
    def apply(self, z: Tensor, out: Tensor | None = None) -> Tensor:
        """Sz, in `out`, which may be z itself, or in a new vector."""

    @abstractmethod
    def solve(self, x: Tensor) -> Tensor:
        """S⁻¹x, in a new vector."""

    @abstractmethod
    def stiffest(self, like: Tensor) -> Tensor:
        """A unit vector w with ‖Sw‖ = `smallest`."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Diagonal(Map):
    """S = factor·diag(scale): the size of each variable. On several ranks `scale` is this rank's part.

    >>> sizes = diagonal(torch.tensor([1.0, 1e4]))
    >>> sizes.apply(torch.ones(2)).tolist(), round(sizes.smallest, 4)
    ([0.009999999776482582, 100.0], 0.01)
    """

    scale: Tensor = field(repr=False)
    """May be the vector that the caller handed in: S then takes no memory."""
    factor: float = 1.0

    def apply(self, z: Tensor, out: Tensor | None = None) -> Tensor:
        return torch.mul(z, self.scale, out=out).mul_(self.factor)

    def solve(self, x: Tensor) -> Tensor:
        return torch.div(x, self.scale).div_(self.factor)

    def stiffest(self, like: Tensor) -> Tensor:
        w = (self.scale <= (1.0 + EQUAL) * self.smallest / self.factor).to(like)
        return w.div_(vectors.norm(w))


def diagonal(scale: Tensor, dtype: torch.dtype | None = None) -> Diagonal:
    """The diagonal map of positive sizes, divided by their geometric mean and bounded to `ORDERS`; in a dtype if given.

    Sizes farther than half of `ORDERS` from the geometric mean are brought to that distance.
    """
    logs = scale.double().log_() if scale.dtype != torch.float64 else scale.log()
    (total,) = vectors.dots((logs, torch.ones_like(logs)))
    mean, most = total / vectors.dimension(scale), math.log(10.0) * ORDERS / 2.0
    ends = torch.stack([logs.min(), -logs.max()]) if logs.numel() else logs.new_full((2,), math.inf)
    spread = ranks.current()
    if spread is not None:
        ends = spread.rows(ends).amin(0)
    low, high = (float(end) - mean for end in (ends[0], -ends[1]))
    smallest, largest = math.exp(max(low, -most)), math.exp(min(high, most))
    if max(-low, high, abs(mean)) > most or dtype not in (None, scale.dtype):
        bounded = logs.sub_(mean).clamp_(-most, most).exp_().to(dtype or scale.dtype)
        return Diagonal(smallest=smallest, largest=largest, scale=bounded)
    return Diagonal(smallest=smallest, largest=largest, scale=scale, factor=math.exp(-mean))


@dataclass(frozen=True, kw_only=True, eq=False)
class Dense(Map):
    """S = Q·diag(sizes)·Qᵀ with an orthogonal Q, for one process that holds all of x."""

    axes: Tensor = field(repr=False)
    """Q, in columns; the first belongs to the smallest size."""
    sizes: Tensor = field(repr=False)

    def apply(self, z: Tensor, out: Tensor | None = None) -> Tensor:
        applied = self.axes @ (self.sizes * (self.axes.T @ z))
        return applied if out is None else out.copy_(applied)

    def solve(self, x: Tensor) -> Tensor:
        return self.axes @ ((self.axes.T @ x) / self.sizes)

    def stiffest(self, like: Tensor) -> Tensor:
        return self.axes[:, 0].to(like).contiguous()


def dense(axes: Tensor, sizes: Tensor, like: Tensor) -> Dense:
    """The map with these axes (columns, orthonormal) and positive sizes, normalised and bounded as by `diagonal`."""
    order = sizes.argsort()
    bounded = diagonal(sizes[order].double())
    return Dense(
        smallest=bounded.smallest,
        largest=bounded.largest,
        axes=axes[:, order].to(like),
        sizes=bounded.apply(torch.ones_like(sizes, dtype=torch.float64)).to(like),
    )
