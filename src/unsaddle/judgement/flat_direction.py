"""Which way F goes along a direction where it is flat to second order: values show the terms of higher order."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.curvature.result import Curvature
from unsaddle.measure.values import VALUE_ROUNDING
from unsaddle.objective import SampledFunction

SHARES = (1e-3, 1e-2, 1e-1)
"""Lengths along the direction, as shares of max(1, ‖x‖)."""

GROWTH = 100.0
"""From a length to the next, ten times as long, a fall of third order grows 1000 times. Noise does not grow, and what a
gradient promises grows ten times."""

SOFT = {torch.float64: 1e-7, torch.float32: 1e-5}
"""Values are asked along a curvature up to this share of the largest. A cubic term, measured from one side, looks like
as much: its L2 times the probe radius. In float32 more would take soft minima beside stiff directions for flat."""

CLEARLY = 2.0
"""A fall counts if it is so many times what the curvature that was seen explains."""

FALLS = (
    "Along one direction F is flat to second order, and falls {ways} by terms of higher order: by {fall:.2g} at a "
    "distance of {length:.2g}. So x is no minimum, or a very narrow one. Go on from there: the direction is "
    "evidence.deciding[0]."
)


def is_flat(found: Curvature, flat: float) -> bool:
    """Whether the lowest eigenvalue is zero, up to `flat` times L1 or as far as it is known."""
    known_to = max(abs(found.upper - found.lowest), flat * found.smoothness)
    return abs(found.lowest) <= known_to < found.gamma / 2.0


class FlatFall(NamedTuple):
    """A fall of F along a direction where it is flat to second order."""

    fall: float
    """F(x) − F(x + sv)."""
    length: float
    """s, with its sign."""
    both_ways: bool
    """Whether F falls along the opposite direction, too."""

    @property
    def reason(self) -> str:
        """The fall in words, and what to do."""
        ways = "both ways" if self.both_ways else "one way"
        return FALLS.format(ways=ways, fall=self.fall, length=abs(self.length))


def flat_fall(f: SampledFunction, x: Tensor, found: Curvature) -> FlatFall | None:
    """How far F falls along the lowest direction of a search that found nothing, if that is soft; else None.

    Cost: seven values if the direction is soft, none if it is not.
    """
    soft = found.deciding and abs(found.lowest) <= SOFT[x.dtype] * found.smoothness
    falls = falls_along(f, x, found.deciding[0]) if soft else None
    explained = 0.0 if falls is None else 0.5 * abs(found.lowest) * falls.length**2
    return falls if falls is not None and falls.fall > CLEARLY * explained else None


def falls_along(f: SampledFunction, x: Tensor, v: Tensor) -> FlatFall | None:
    """The fall of F along v or −v by terms of higher order; None if F does not fall, or too little. Seven values.

    At the first length where the change of F exceeds the rounding of values, it has to be a fall, and at the next
    length that has to have grown as a term of third order does.
    """
    here = float(f.value(x))
    rounding = VALUE_ROUNDING * torch.finfo(x.dtype).eps * abs(here)
    size = max(1.0, vectors.norm(x))
    seen: list[tuple[float, float]] = []
    for sign in (1.0, -1.0):
        before = 0.0
        for share in SHARES:
            length = share * size
            fall = here - float(f.value(torch.add(x, v, alpha=sign * length)))
            if not math.isfinite(fall) or fall < -rounding:
                break
            if before > rounding and fall > GROWTH * before:
                seen.append((fall, sign * length))
                break
            before = fall
    if not seen:
        return None
    fall, length = max(seen)
    return FlatFall(fall, length, both_ways=len(seen) == 2)
