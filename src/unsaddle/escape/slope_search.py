"""How far along a direction of negative curvature: growing lengths, with the slope that every gradient brings."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

GROWTH = 4.0
"""Each length is so many times the last while the loss falls, or so many times smaller until it does."""

REFINEMENTS = 2
"""Lengths tried between the last from which the loss falls on and the first from which it does not."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """A point of the line."""

    length: float
    loss: float
    slope: float


def search(
    line: Callable[[float], tuple[float, float]],
    *,
    value: float,
    first: float,
    max_evaluations: int,
    resolution: float = 0.0,
) -> Point:
    """The lowest of a few points of a half-line, at one gradient each.

    Lengths grow while the loss falls and goes on falling; if the first is too long already they shrink. That brackets a
    minimum, which a cubic through both ends' losses and slopes then locates.

    Args:
        line: s ↦ (loss, slope) at x + sv.
        value: the loss at x.
        first: the length to begin with, with the sign to go in.
        max_evaluations: of the line.
        resolution: losses that differ by less are equal; the slope, which has more digits, then tells where down is.

    Returns:
        The lowest point, with its sign; that of length 0 if none was lower than x.

    >>> best = search(lambda s: (s**4 / 4 - s**2, s**3 - 2 * s), value=0.0, first=-0.01, max_evaluations=12)
    >>> round(best.length, 2), round(best.loss, 2)
    (-1.45, -1.0)
    """
    sign = math.copysign(1.0, first)

    def at(s: float) -> Point:
        loss, slope = line(sign * s)
        return Point(length=s, loss=loss if math.isfinite(loss) else math.inf, slope=sign * slope)

    best = near = Point(length=0.0, loss=value, slope=0.0)
    far: Point | None = None
    s, left = abs(first), max_evaluations
    while left > 0:
        left -= 1
        point = at(s)
        best = min(best, point, key=lambda p: p.loss)
        if point.slope < 0.0 and point.loss <= near.loss + resolution:
            near = point
            if far is not None:
                break
            s *= GROWTH
        else:
            far = point
            if near.length > 0.0 or point.loss < value - resolution:
                break
            s /= GROWTH
    for _ in range(min(REFINEMENTS, left)):
        if far is None or near.length == 0.0:
            break
        point = at(_between(near, far))
        best = min(best, point, key=lambda p: p.loss)
        if point.slope < 0.0 and point.loss <= near.loss + resolution:
            near = point
        else:
            far = point
    if best.loss >= value - resolution:
        return Point(length=0.0, loss=value, slope=0.0)
    return Point(length=sign * best.length, loss=best.loss, slope=sign * best.slope)


def _between(a: Point, b: Point) -> float:
    """The minimum of the cubic through both points, kept away from them; their geometric mean where there is none."""
    width = b.length - a.length
    s = math.nan
    if math.isfinite(b.loss) and math.isfinite(b.slope):
        d = a.slope + b.slope - 3.0 * (b.loss - a.loss) / width
        root = d * d - a.slope * b.slope
        if root >= 0.0:
            bottom = b.slope - a.slope + 2.0 * math.sqrt(root)
            s = b.length - width * (b.slope + math.sqrt(root) - d) / bottom if bottom != 0.0 else math.nan
    if not math.isfinite(s):
        s = math.sqrt(a.length * b.length)
    return min(max(s, a.length + 0.1 * width), b.length - 0.1 * width)
