"""A number that depends on a radius, where it does so least: between rounding, near x, and truncation, far from it.

Neither is known beforehand. Radii that disagree show both.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

MOVES = 3
"""The ladder is moved so often, by two rungs, before the best three rungs have to do."""

STEADY, CLEAR = 0.1, 0.5
"""Three rungs are steady if their error is at most this share of the number, and clear up to the second share."""

LOWEST = 12
"""The ladder goes down by at most so many rungs, to a 2000th of the first radius, in search of three clear ones."""

CHOSEN = 2.0
"""The error is doubled where the ladder was moved: of several threes, one may agree by accident."""

AGREES = 0.25
"""Three rungs agree if they differ by this share in all. A kink beside smooth curvature is then within the error."""

RATIO = 1.9
"""A rung is so much farther than the last. No power of two: at x = 0 rounding would be the same on all of them."""

SHRINKAGE = 0.6
"""The largest |c(ρr) − c(r)|/|c(ρ²r) − c(ρr)| of a smooth function. For a term t^p the ratio is ρ^{-p}, so p ≥ 0.8 is
admitted, and the error covers the truth. It would not cover t^{0.4}, with 0.75. A kink has 2."""


@dataclass(frozen=True)
class Plateau:
    """c at the three neighbouring rungs r, ρr and ρ²r that disagree least; ρ is `RATIO`."""

    value: float
    """c extrapolated to r = 0, (ρ²c(r) − c(ρr))/(ρ² − 1): exact for c = a + bt²."""
    error: float
    """|c(ρr) − c(r)| + |c(ρ²r) − c(ρr)|/2 + |e − e₂|, with e = `value` and e₂ that of the outer two, and what was known
    of the rounding at r."""
    radius: float
    """r."""
    jump: float
    """(|c(r)| − |c(ρr)|)·ρr/(ρ − 1), or 0: for c = J/t, a jump of a gradient or its noise, this is |J|."""
    smooth: bool
    """Whether the differences shrink towards r as those of a smooth function do, or are a small share of the number."""

    def is_clear(self, share: float) -> bool:
        """Whether the number is known to this share of it."""
        return self.smooth and self.error <= share * abs(self.value)


def plateau(
    at: Callable[[float], float],
    first: float,
    *,
    rounding: float = 0.0,
    within: tuple[float, float] = (0.0, math.inf),
    to_the_ground: bool = False,
) -> Plateau:
    """Climb to the radii at which c = `at` is steady, from r = `first`. Three evaluations where it is steady there.

    If the differences between rungs grow with the radius, truncation rules, or a kink, and the ladder moves inwards.
    If they grow towards x, rounding rules, and it moves outwards. Each move costs two evaluations.

    Args:
        at: t ↦ c(t).
        first: r.
        rounding: the error of c(r) by rounding, as far as it is known. It falls as 1/t.
        within: the ladder is not moved to radii out of these limits.
        to_the_ground: whether to go on towards x where no three rungs are clear. Among kinks the differences do not
            tell the way, and nearer to x there may be fewer.

    >>> round(plateau(lambda t: -1.0 + t**2, first=1e-3).value, 9)
    -1.0
    >>> found = plateau(lambda t: -1.0 + 100.0 * t**2, first=1.0)     # too far: it moves inwards
    >>> round(found.radius, 3), round(found.value, 6), found.smooth
    (0.021, -1.0, True)
    """
    rungs: dict[int, float] = {}

    def c(k: int) -> float:
        if k not in rungs:
            rungs[k] = at(first * RATIO**k)
        return rungs[k]

    tried = dict[int, Plateau]()

    def three(k: int) -> bool:
        """Tries the rungs from k on. Returns whether truncation rules there, or a kink."""
        near, middle, far = c(k), c(k + 1), c(k + 2)
        r = first * RATIO**k
        floor = rounding * first / r
        value, next_value = _extrapolated(near, middle), _extrapolated(middle, far)
        inner, outer = abs(middle - near), abs(far - middle)
        error = (inner + outer / 2.0 + abs(value - next_value)) * (1.0 if not tried else CHOSEN) + floor
        agrees = inner + outer <= AGREES * abs(value)
        jump = max(0.0, abs(near) - abs(middle)) * RATIO * r / (RATIO - 1.0)
        smooth = agrees or inner <= SHRINKAGE * outer + floor
        tried[k] = Plateau(value, error, r, jump, smooth)
        return inner <= outer

    def inside(k: int) -> bool:
        return within[0] <= first * RATIO**k and first * RATIO ** (k + 2) <= within[1]

    k = 0
    for _ in range(MOVES + 1):
        inwards = three(k)
        if tried[k].is_clear(STEADY) or not math.isfinite(tried[k].error):
            break
        k += -2 if inwards else 2
        if k in tried or not inside(k):
            break
    k = min(tried) - 2
    while to_the_ground and not any(t.is_clear(CLEAR) for t in tried.values()) and inside(k) and k >= -LOWEST:
        three(k)
        k -= 2
    clear = [found for found in tried.values() if found.is_clear(CLEAR)]
    if clear:
        return min(clear, key=lambda found: found.error / abs(found.value) if found.value else math.inf)
    return min(tried.values(), key=lambda found: found.error)


def _extrapolated(near: float, far: float) -> float:
    """c at t = 0, for c = a + bt², from two neighbouring rungs."""
    return (RATIO**2 * near - far) / (RATIO**2 - 1.0)
