"""Points beside x where F is lower, and whether they come nearer and nearer: then x is no minimum."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.escape.line_search import by_values
from unsaddle.measure.values import VALUE_ROUNDING
from unsaddle.objective import SampledFunction

SHORTEST, LONGEST, LONGER = 1e-4, 10.0, 4.0
"""Lengths at which values are asked for, as shares of max(1, ‖x‖): the first, the last, and the factor between two."""

WEIGHTS = 8.0
"""The last length is at least this times √d. In a network that begins at zero, weights of size 1 are √d away."""

SEEN = 4.0
"""A change of F is seen if it is so many times the rounding of values. Then its order can be told."""

RITZ = {torch.float64: 1e-8, torch.float32: 3e-7}
"""A flat direction is a Ritz vector. Stiff directions in it leave a curvature up to this share of the largest."""

DOUBLINGS = 6
"""A fall along a line is followed over so many doubled lengths, from the first at which it is seen."""

STARTS, STEPS = 2, 8
"""Descents begin at so many points beside x, and have so many steps to come lower than x. A step takes one gradient."""

CLEAR, SHARE = 100.0, 0.1
"""A descent that has come lower takes as many steps more, until the fall is so many times what is seen, and this share
of the rise that it began with. Then nearer points are seen to be lower, too."""

NEARER, TIMES = math.sqrt(0.5), 24
"""Lower points are sought so many times, each time nearer to x by this factor."""

REPAIRS, BENDS = 4, 6
"""Where the straight way is not lower, so many steps of descent are taken, so many times at most."""

ORDER = 2.2
"""A fall is of higher order from here on: a gradient makes one of order 1, a curvature one of order 2."""

QUARTERINGS, LENGTHS = 12, 8
"""How often a step of a descent is quartered until F is lower, and how often a length is doubled while F falls."""


class LowerPoint(NamedTuple):
    """A point where F is lower than at x."""

    way: Tensor
    """The unit vector from x to it."""
    distance: float
    fall: float
    """F(x) less its value."""
    straight: bool
    """Whether all nearer ones that were seen lie on the line to x. If not, they lie on a curve."""
    nearest: float
    """How near to x the nearest lower point is that was seen."""


class Around:
    """F around x, by values and, for descents, gradients.

    Changes of F count if they are above the rounding of values and of x, and above what a Ritz vector that is flat has
    of the stiff directions, whose curvature is up to `smoothness`.
    """

    def __init__(self, f: SampledFunction, x: Tensor, smoothness: float = 0.0) -> None:
        self.f, self.x, self.here = f, x, float(f.value(x))
        eps, norm = torch.finfo(x.dtype).eps, vectors.norm(x)
        self.flat, self.size = RITZ[x.dtype] * smoothness, max(1.0, norm)
        self.rounding = SEEN * (VALUE_ROUNDING * eps * abs(self.here) + smoothness * (SEEN * eps * norm) ** 2)
        longest = max(LONGEST * self.size, WEIGHTS * math.sqrt(vectors.dimension(x)))
        count = 1 + math.floor(math.log(longest / (SHORTEST * self.size), LONGER))
        self.lengths = [SHORTEST * self.size * LONGER**k for k in range(count)]

    def lower_point(self, v: Tensor, *, by_descent: bool = True) -> LowerPoint | None:
        """A point where F is lower by terms of higher order, along ±v, or by descent from beside x; None if none is.

        Values along ±v tell at once if F falls there, or does not change. If it rises, as x⁴ − y⁴ does along half of
        all directions, descents from there may lead lower.

        Cost: two dozen values if F does not change along v. If it rises, up to 16 gradients with some values each.
        """
        rises = False
        for way in (v, -v):
            length, change = self._first_change(way)
            found = self._nearer(self._lowest(way, length)) if -math.inf < change < 0.0 else None
            if found is not None:
                return self._followed(found)
            rises = rises or 0.0 < change < math.inf
        points = self._beside(v) if rises and by_descent else ()
        return next((self._followed(found) for point in points if (found := self._nearer(point))), None)

    def falls_along(self, v: Tensor) -> bool:
        """Whether the nearest change of F along v that is seen is a fall."""
        return self._first_change(v)[1] < 0.0

    def seen(self, distance: float) -> float:
        """The least change of F that counts at a distance."""
        return self.rounding + 0.5 * self.flat * distance**2

    def _change(self, v: Tensor, length: float = 1.0) -> float:
        """F(x + sv) − F(x)."""
        return float(self.f.value(torch.add(self.x, v, alpha=length))) - self.here

    def _first_change(self, v: Tensor) -> tuple[float, float]:
        """The shortest length along v at which a change of F is seen, and the change; 0 if none is, nan if F ends."""
        for length in self.lengths:
            change = self._change(v, length)
            if not abs(change) <= self.seen(length):
                return length, change
        return self.lengths[-1], 0.0

    def _lowest(self, v: Tensor, length: float, times: int = DOUBLINGS) -> Tensor:
        """The offset of the lowest point along v: the length is doubled while F falls, so many times at most."""
        change = self._change(v, length)
        for _ in range(times):
            farther = self._change(v, 2.0 * length) if length < self.lengths[-1] else math.inf
            if not -math.inf < farther < change:
                break
            length, change = 2.0 * length, farther
        return v * length

    def _followed(self, found: LowerPoint) -> LowerPoint:
        """The lower point, or one farther along the same way if that is lower still."""
        offset = self._lowest(found.way, found.distance, LENGTHS)
        return found._replace(distance=vectors.norm(offset), fall=-self._change(offset))

    def _nearer(self, offset: Tensor) -> LowerPoint | None:
        """The point at an offset from x, if lower ones come nearer as far as values show, and by a higher order.

        The offset is shortened time and again. Where F is not lower, as on the straight way across a bent valley, a few
        steps of descent may lead lower. Where a fall ought to be seen by how it has shrunk so far, and there is none, F
        rises from x first.
        """
        first, falls, bends = offset, [-self._change(offset)], 0
        distance = vectors.norm(offset)
        nearest = distance
        for _ in range(TIMES):
            tried = offset * NEARER
            fall, seen = -self._change(tried), self.seen(nearest * NEARER)
            if not fall > seen:
                if bends == BENDS or (len(falls) > 2 and falls[-1] * (falls[-1] / falls[-2]) <= SEEN * seen):
                    break
                lower, bends = self._descended(tried, REPAIRS), bends + 1
                if lower is None or not vectors.norm(lower) < nearest:
                    return None
                tried, fall = lower, -self._change(lower)
            if not 0.0 < fall < math.inf:  # Values differ from call to call.
                return None
            offset, nearest = tried, vectors.norm(tried)
            if fall >= falls[-1]:  # The descent has found a better way: it begins anew from there.
                first, falls, distance, bends = offset, [], nearest, 0
            falls.append(fall)
        if len(falls) < 3 or not min(falls) > 0.0 or max(_order(falls), _order(falls[-3:])) < ORDER:
            return None
        # Noise of values makes no slope.
        rise = self.f.grad(torch.add(self.x, offset)).clone().sub_(self.f.grad(self.x))
        if not -vectors.dots((offset, rise))[0] > falls[-1]:
            return None
        return LowerPoint(first / distance, distance, falls[0], bends == 0, nearest)

    def _beside(self, v: Tensor) -> Iterator[Tensor]:
        """Offsets of lower points, by descents that begin far out along ±v, where F has not risen by |F(x)| yet."""
        much = abs(self.here) or math.inf
        starts: list[tuple[float, float, Tensor]] = []
        for length in self.lengths if self.here != 0.0 else [s for s in self.lengths if s <= self.size]:
            for longer in (length, 2.0 * length):
                (change, sign), (other, _) = sorted((self._change(v, sign * longer), sign) for sign in (1.0, -1.0))
                if change <= much and other > self.seen(longer):
                    starts.append((longer, other, v * (sign * longer)))
        for length, rise, offset in starts[: -STARTS - 1 : -1]:
            lower = self._descended(offset, STEPS, max(CLEAR * self.seen(length), SHARE * min(rise, much)))
            if lower is not None:
                yield lower

    def _descended(self, offset: Tensor, steps: int, enough: float = 0.0) -> Tensor | None:
        """The offset of a point where F is lower than at x, by descent; None if there is none after so many steps.

        If there is, as many steps more are taken until it is lower by `enough`. A step is that of conjugate gradients,
        of Polak and Ribière, with the length by values. Vectors are in units of the gradient's norm, whose square may
        underflow.
        """
        fall, distance, left = -self._change(offset), vectors.norm(offset), steps
        seen, way, last, last_size = self.seen(distance), torch.zeros_like(offset), torch.zeros_like(offset), math.inf
        while left > 0 and not fall > max(enough, seen):
            grad = self.f.grad(torch.add(self.x, offset)).clone()
            size = vectors.norm(grad)
            if not 0.0 < size < math.inf:
                break
            grad.div_(size)
            (turn,) = vectors.dots((grad, last))
            way = way.mul(max(0.0, size / last_size - turn)).sub_(grad)
            way = way if vectors.dots((way, grad))[0] < 0.0 else grad.neg()
            unit = way / vectors.norm(way)
            length = self._step(offset, unit, -fall, distance)
            if length == 0.0:
                break
            offset, last, last_size, left = torch.add(offset, unit, alpha=length), grad, size, left - 1
            before, fall = fall, -self._change(offset)
            left += steps if before <= seen < fall else 0
        return offset if fall > seen else None

    def _step(self, offset: Tensor, way: Tensor, change: float, first: float) -> float:
        """How far to go along a way for the lowest value, up to the longest length; 0 if none is lower."""

        def change_at(s: float) -> float:
            return self._change(torch.add(offset, way, alpha=s)) if 0.0 < s <= self.lengths[-1] else math.inf

        how = {"quarterings": QUARTERINGS, "lengths": LENGTHS, "patience": 1}
        lower = by_values(change_at, change, first=first, ahead=None, **how)
        return 0.0 if lower is None else lower.length


def _order(falls: list[float]) -> float:
    """k of falls that shrink as the k-th power of the distance, which `NEARER` shortens from each to the next."""
    return math.log(falls[0] / falls[-1]) / ((len(falls) - 1) * -math.log(NEARER))
