"""A number that depends on a radius, where it does so least: between rounding, near x, and truncation, far from it.

Neither is known beforehand. Radii that disagree show both.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

MOVES = 3
"""The ladder is moved so often, by two rungs, before the best three rungs have to do."""

STEADY = 0.1
"""Three rungs are steady if their error is at most this share of the number."""

CHOSEN = 2.0
"""The error is doubled where the ladder was moved: of several threes, one may agree by accident."""

SHRINKAGE = 0.6
"""The largest |c(2r) − c(r)|/|c(4r) − c(2r)| of a smooth function. For a term t^p the ratio is 2^{-p}, so p ≥ 0.74 is
admitted, and the error covers the truth. It would not cover t^{0.4}, with 0.75. A kink has 2."""


@dataclass(frozen=True)
class Plateau:
    """c at the three neighbouring rungs r, 2r and 4r that disagree least."""

    value: float
    """c extrapolated to r = 0, (4c(r) − c(2r))/3: exact for c = a + bt²."""
    error: float
    """|c(2r) − c(r)| + |c(4r) − c(2r)|/2 + |e − e₂|, with e = `value` and e₂ that of 2r and 4r, and what was known of
    the rounding at r."""
    radius: float
    smooth: bool
    """Whether the differences shrink towards r as those of a smooth function do, or are a hundredth of the number."""


def plateau(at: Callable[[float], float], first: float, *, rounding: float = 0.0, smallest: float = 0.0) -> Plateau:
    """Climb to the radii at which c = `at` is steady, from r = `first`. Three evaluations where it is steady there.

    If the differences between rungs grow with the radius, truncation rules, or a kink, and the ladder moves inwards.
    If they grow towards x, rounding rules, and it moves outwards. Each move costs two evaluations.

    Args:
        at: t ↦ c(t).
        first: r.
        rounding: the error of c(r) by rounding, as far as it is known. It falls as 1/t.
        smallest: no radius below this.

    >>> plateau(lambda t: -1.0 + t**2, first=1e-3).value
    -1.0
    >>> found = plateau(lambda t: -1.0 + 100.0 * t**2, first=1.0)     # too far: it moves inwards
    >>> found.radius, round(found.value, 6), found.smooth
    (0.015625, -1.0, True)
    """
    rungs: dict[int, float] = {}

    def c(k: int) -> float:
        if k not in rungs:
            rungs[k] = at(first * 2.0**k)
        return rungs[k]

    k, tried = 0, dict[int, Plateau]()
    for _ in range(MOVES + 1):
        near, middle, far = c(k), c(k + 1), c(k + 2)
        floor = rounding / 2.0**k
        value, next_value = (4.0 * near - middle) / 3.0, (4.0 * middle - far) / 3.0
        inner, outer = abs(middle - near), abs(far - middle)
        error = (inner + outer / 2.0 + abs(value - next_value)) * (1.0 if not tried else CHOSEN) + floor
        agrees = inner + outer <= 1e-2 * abs(value)
        tried[k] = Plateau(value, error, first * 2.0**k, agrees or inner <= SHRINKAGE * outer + floor)
        steady = error <= STEADY * abs(value) and tried[k].smooth
        k += -2 if inner <= outer else 2
        if steady or k in tried or first * 2.0**k < smallest or not math.isfinite(error):
            break
    clear = [found for found in tried.values() if found.smooth and found.error < 0.5 * abs(found.value)]
    if clear:
        return min(clear, key=lambda found: found.error / abs(found.value))
    return min(tried.values(), key=lambda found: found.error)
