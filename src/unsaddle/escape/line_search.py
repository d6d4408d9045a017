"""The length of a step along a direction of negative curvature: a search by values, and one by slopes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple


class Point(NamedTuple):
    """A point x + sv of the line. `length` is s, with its sign. `slope` is that along v, nan if not computed."""

    length: float
    value: float
    slope: float = math.nan


LENGTHS = 60
"""The number of lengths that `by_values` tries. 60 doublings lead from rounding to anywhere."""

MUCH = 0.05
"""A fall counts as that of the curvature from this share of qs²/2 on, up to twice that. At the lowest point of a cosine
the share is 0.4; at twice that length, where F is as high as at x again, 0."""


def by_values(
    value_at: Callable[[float], float],
    here: float,
    *,
    first: float,
    rounding: float = 0.0,
    quarterings: int = 0,
    patience: int = 2,
    ahead: float | None = 0.1,
    lengths: int = LENGTHS,
    curvature: float = math.nan,
) -> Point | None:
    """The lowest of the points x ± sv over doubled lengths s; None if none is lower than x.

    Both signs are tried until one of them is ahead. From then on a length costs one value instead of two. With the
    curvature, the nearest fall is taken: a periodic function has many.

    Args:
        value_at: s ↦ f(x + sv). Values that are not finite end the search, or lead to a shorter length.
        here: f(x).
        first: the first length.
        rounding: a value counts as lower if it is lower by more than this.
        quarterings: while no value is lower, the length is quartered up to this many times. With 0 it is doubled, for
            a first length so short that its gain drowns in rounding.
        patience: the search ends after this many lengths in a row without a lower value.
        ahead: a sign is ahead if both values differ by this share of the change of the lower one. With None, a sign is
            ahead as soon as its value is lower than here.
        lengths: the largest number of lengths, not counting quarterings.
        curvature: q = −vᵀ∇²f(x)v, if it is known. A fall of about qs²/2 is no noise, and a rise after it ends the
            search, whatever `patience`.

    >>> double_well = lambda s: s**4 / 4 - s**2
    >>> by_values(double_well, 0.0, first=1 / 64).length
    1.0
    >>> by_values(double_well, 0.0, first=8.0, quarterings=10, patience=1, ahead=None).length
    1.0
    """
    best: Point | None = None
    signs: tuple[float, ...] = (1.0, -1.0)
    length, lost = first, 0
    for tried in range(1, quarterings + lengths + 1):
        values = [value_at(sign * length) for sign in signs]
        finite = [value if math.isfinite(value) else math.inf for value in values]
        value = min(finite)
        sign = signs[finite.index(value)]
        if value < (here - rounding if best is None else best.value):
            best, lost = Point(sign * length, value), 0
        elif best is not None:
            promised = curvature * best.length * best.length / 2.0
            lost = patience if MUCH * promised < here - best.value < 2.0 * promised else lost + 1
        elif quarterings > 0:
            if tried == quarterings:
                return None
            length *= 0.25
            continue
        if lost == patience or math.isinf(value):
            break
        if len(signs) == 2:
            decisive = max(rounding, (ahead or 0.0) * abs(value - here))
            settled = best is not None if ahead is None else abs(values[0] - values[1]) > decisive
            signs = (sign,) if settled else signs
        length *= 2.0
    return best


GROWTH, REFINEMENTS = 4.0, 2
"""`by_slopes` multiplies or divides the length by GROWTH to bracket a minimum. Then it tries REFINEMENTS lengths inside
the bracket."""


def by_slopes(
    line: Callable[[float], tuple[float, float]],
    *,
    value: float,
    first: float,
    max_evaluations: int,
    resolution: float = 0.0,
) -> Point:
    """The lowest of a few points of a half-line, at one gradient each; the point of length 0 if none is lower than x.

    Lengths grow while the value falls and the slope is negative. If the first is too long, they shrink. Once a minimum
    is bracketed, a cubic through the values and slopes of both ends locates it. A slope tells on which side of a
    minimum a point is, so this needs fewer points than a search by values.

    Args:
        line: s ↦ (value, slope) at x + sv.
        value: the value at x.
        first: the first length. Its sign is the direction of the search.
        max_evaluations: a bound on the calls of `line`.
        resolution: values that differ by less count as equal. Then the slope, which has more digits, decides.

    >>> best = by_slopes(lambda s: (s**4 / 4 - s**2, s**3 - 2 * s), value=0.0, first=-0.01, max_evaluations=12)
    >>> round(best.length, 2), round(best.value, 2)
    (-1.45, -1.0)
    """
    sign = math.copysign(1.0, first)

    def at(s: float) -> Point:
        found, slope = line(sign * s)
        return Point(s, found if math.isfinite(found) else math.inf, sign * slope)

    def goes_on(point: Point) -> bool:
        return point.slope < 0.0 and point.value <= near.value + resolution

    best = near = Point(0.0, value, 0.0)
    far: Point | None = None
    s, left = abs(first), max_evaluations
    while left > 0:
        left -= 1
        point = at(s)
        best = min(best, point, key=lambda p: p.value)
        near, far = (point, far) if goes_on(point) else (near, point)
        if far is not None and (near.length > 0.0 or point.value < value - resolution):
            break
        s = s * GROWTH if far is None else s / GROWTH
    for _ in range(min(REFINEMENTS, left)):
        if far is None or near.length == 0.0:
            break
        point = at(_between(near, far))
        best = min(best, point, key=lambda p: p.value)
        near, far = (point, far) if goes_on(point) else (near, point)
    if best.value >= value - resolution:
        return Point(0.0, value, 0.0)
    return Point(sign * best.length, best.value, sign * best.slope)


def _between(a: Point, b: Point) -> float:
    """The minimum of the cubic through both points, kept away from them; without one, their geometric mean."""
    width, s = b.length - a.length, math.nan
    if math.isfinite(b.value) and math.isfinite(b.slope):
        d = a.slope + b.slope - 3.0 * (b.value - a.value) / width
        root = d * d - a.slope * b.slope
        if root >= 0.0:
            bottom = b.slope - a.slope + 2.0 * math.sqrt(root)
            s = b.length - width * (b.slope + math.sqrt(root) - d) / bottom if bottom != 0.0 else math.nan
    if not math.isfinite(s):
        s = math.sqrt(a.length * b.length)
    return min(max(s, a.length + 0.1 * width), b.length - 0.1 * width)
