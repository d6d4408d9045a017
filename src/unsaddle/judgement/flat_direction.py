"""Which way F goes along a direction where it is flat to second order: values show the terms of higher order."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.curvature.displaced import VALUE_ROUNDING
from unsaddle.curvature.result import Curvature
from unsaddle.objective import SampledFunction

SHARES = (1e-3, 1e-2, 1e-1)
"""Lengths along the direction, as shares of max(1, ‖x‖)."""

GROWTH = 100.0
"""From a length to the next, ten times as long, a fall of third order grows 1000 times. Noise does not grow, and what a
gradient promises grows ten times."""

SOFT = 1e-7
"""Values are asked along a curvature up to this share of the largest. A cubic term, measured from one side, looks like
as much: its L2 times the probe radius."""

FALLS = (
    "Along one direction F is flat to second order, and falls {ways} by terms of higher order: by {fall:.2g} at a "
    "distance of {length:.2g}. So x is no minimum, or a very narrow one. Go on from there: the direction is "
    "evidence.deciding[0]."
)


def is_flat(found: Curvature, flat: float) -> bool:
    """Whether the lowest eigenvalue is zero, up to `flat` times L1 or as far as it is known."""
    known_to = max(abs(found.upper - found.lowest), flat * found.smoothness)
    return abs(found.lowest) <= known_to < found.gamma / 2.0


def falls_along(f: SampledFunction, x: Tensor, v: Tensor) -> str | None:
    """A sentence if F falls along v or −v by terms of higher order; None if it does not, or too little. Seven values.

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
                seen.append((fall, length))
                break
            before = fall
    if not seen:
        return None
    fall, length = max(seen)
    return FALLS.format(ways="both ways" if len(seen) == 2 else "one way", fall=fall, length=length)
