"""The arithmetic of a burst: λ_max from one measurement on each of some consecutive batches, and how many it takes.

λ_max moves by several per cent within twenty steps of a noisy training, and a single batch of 128 rows is off by 5 to
25 %. So measurements that are spread over training average over a λ_max that is gone. Those of consecutive steps do
not: their mean is λ_max at one step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

TURNS = 3
"""The first measurements of a burst only turn the direction to λ_max, which it may have lost since the last burst."""

FEWEST, UNKNOWN, MOST = 2, 3, 13
"""Measurements that count, at least; as long as the noise is not known; and at most: after more of them, so long a time
would pass until the next burst is paid for that a warning would come late."""

WANTED = 0.05
"""The standard error of λ_max that a burst is long enough for, as a share of it."""

MEMORY = 32
"""Second differences that the noise is remembered over."""

APART = 2.0
"""Standard errors by which the second half of a burst is above the first where u was still turning."""

ONE_SIDED = 1.645
"""Standard errors of a one-sided normal interval at confidence 0.95."""


class Noise(NamedTuple):
    """By how much single batches differ along one direction."""

    variance: float = 0.0
    """Of a measurement, relative to λ_max²."""
    terms: int = 0
    """Second differences that it was estimated from."""

    @property
    def deviation(self) -> float:
        """The standard deviation of a measurement, as a share of λ_max."""
        return math.sqrt(self.variance)

    def after(self, burst: Sequence[float]) -> Noise:
        """The noise after one more burst. Second differences show it: a trend, as of a u that turns, is not in them.

        >>> Noise().after([2.0, 2.0, 9.0, 10.0, 11.0]).variance, Noise().after([2.0, 2.0, 11.0, 8.0, 11.0]).terms
        (0.0, 1)
        """
        rest = burst[TURNS - 1 :]
        level = sum(rest) / max(1, len(rest))
        triples = zip(rest, rest[1:], rest[2:], strict=False)
        seconds = [(a - 2.0 * b + c) ** 2 / 6.0 for a, b, c in triples]
        if not (seconds and level > 0.0):
            return self
        kept = min(self.terms, MEMORY)
        return Noise((kept * self.variance + sum(seconds) / level**2) / (kept + len(seconds)), kept + len(seconds))

    @property
    def size(self) -> int:
        """Batches of the next burst.

        >>> Noise().size, Noise(0.15**2, 8).size, Noise(0.5**2, 8).size
        (6, 12, 16)
        """
        if self.terms == 0:
            return TURNS + UNKNOWN
        return TURNS + min(MOST, max(FEWEST, math.ceil(round(self.variance / WANTED**2, 6))))


def highest(burst: Sequence[float], noise: Noise) -> tuple[float, float]:
    """λ_max by a burst, and its one-sided error: of the noise, and by how much the second half is above the first, as u
    may have turned on. If that is by more than the noise explains, the first half does not count.

    >>> highest([5.0, 8.0, 9.0, 10.0, 9.0, 11.0], Noise(0.01, 8))[0]
    10.0
    >>> highest([5.0, 6.0, 7.0, 8.0, 10.0, 10.0], Noise(1e-4, 8))[0]
    10.0
    """
    rest = burst[TURNS:]
    half = len(rest) // 2
    rise = sum(rest[-half:]) / half - sum(rest[:half]) / half if half else 0.0
    if half and rise > APART * noise.deviation * abs(sum(rest) / len(rest)) * math.sqrt(2.0 / half):
        rest = rest[half:]
    mean = sum(rest) / len(rest)
    return mean, ONE_SIDED * noise.deviation * abs(mean) / math.sqrt(len(rest)) + max(0.0, rise)
