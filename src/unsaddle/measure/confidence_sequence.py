"""An interval for a curvature that may be looked at after every batch: a confidence sequence.

An interval of Student's t holds at a number of batches that was fixed beforehand. Whoever looks after each batch and
stops when it pleases is wrong more often. A confidence sequence holds at all times at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

SETTLING = 4
"""The first numbers. They tell the scale of the noise, and are no evidence: with fewer the scale may be far off."""

HORIZON = 16
"""The interval is tightest after about this many numbers. A classifier at zero is proved a saddle by 15 to 31 at
batch 8, by 13 to 15 at batch 64 (`benchmarks.stuck`)."""

SMALLEST_NOISE = 1e-2
"""The noise is taken to be at least this share of the first numbers. Those of one batch repeated have none."""

DOUBLINGS = 60
"""Distances from the mean that are tried, each twice the last, before an end counts as infinite."""


class Interval(NamedTuple):
    """The weighted mean of what was seen, and its ends. Each end is wrong with probability δ at most, at any time."""

    mean: float
    lower: float
    upper: float

    @property
    def error(self) -> float:
        """The larger half of the interval, of those that are finite; inf if neither is."""
        halves = [half for half in (self.upper - self.mean, self.mean - self.lower) if math.isfinite(half)]
        return max(halves, default=math.inf)


UNKNOWN = Interval(math.nan, -math.inf, math.inf)


def interval(seen: Sequence[float], delta: float) -> Interval:
    """The interval of the curvatures c_1, c_2, … behind q_t = c_t + noise, from all q_t so far.

    c_t may change with the past: it is the curvature along a direction that earlier batches made. The noise of a batch
    has to be symmetric about 0, given the past; it may have any size, changing from batch to batch, and heavy tails. A
    mean over the rows of a batch is nearly symmetric. What remains of skewness, `benchmarks.online` measures. Rare
    rows that no batch has met are beyond it.

    Let S = Σw(q − m) and V = Σw²(q − m)². Since cosh(y)·exp(−y²/2) ≤ 1, exp(−λS − λ²V/2) is a supermartingale for
    every λ ≥ 0 if all c_t ≥ m (de la Peña 1999). Its mean over a half-normal λ of variance 1/ρ,

        M(m) = 2Φ(z)·exp(z²/2)·√(ρ/(V + ρ)),     z = −S/√(V + ρ),

    reaches 1/δ at any time with probability δ at most (Ville). So the upper end is the least m with M(m) ≥ 1/δ: a c_t
    below it there is, at confidence 1 − δ. The lower end is the same for −q.

    Departures from the cited bound: the mixture is one-sided; weights w_t = t let early directions fade, and cost a
    quarter of the numbers; ρ comes from the first `SETTLING` numbers, which are not used otherwise.

    >>> narrow = interval([-1.0, -1.2, -0.8, -1.1, -0.9] * 5, 0.05)
    >>> narrow.lower < -1.0 < narrow.upper < 0.0
    True
    >>> interval([-1.0] * 8, 0.05).upper
    inf
    """
    if len(seen) <= SETTLING or not all(map(math.isfinite, seen)):
        return UNKNOWN
    first, rest = seen[:SETTLING], seen[SETTLING:]
    about = sum(first) / SETTLING
    variance = sum((q - about) ** 2 for q in first) / (SETTLING - 1)
    size = sum(q * q for q in first) / SETTLING
    noise = max(variance, SMALLEST_NOISE**2 * size) or 1e-30
    weights = range(SETTLING + 1, len(seen) + 1)
    rho = noise * sum(t * t for t in range(SETTLING + 1, SETTLING + HORIZON + 1))
    mean = sum(w * q for w, q in zip(weights, rest, strict=True)) / sum(weights)
    upper = mean + _distance(weights, [q - mean for q in rest], rho, delta)
    lower = mean - _distance(weights, [mean - q for q in rest], rho, delta)
    return Interval(mean, lower, upper)


def _distance(weights: Sequence[int], off: Sequence[float], rho: float, delta: float) -> float:
    """How far above the mean the upper end is, for numbers `off` the mean."""
    total = sum(weights)
    a0, a1, a2 = (sum(w * w * y**k for w, y in zip(weights, off, strict=True)) for k in (0, 1, 2))

    def rejected(d: float) -> bool:
        spread = a2 - 2.0 * d * a1 + d * d * a0 + rho
        z = d * total / math.sqrt(spread)
        evidence = z * z / 2.0 + math.log1p(math.erf(z / math.sqrt(2.0))) - math.log(spread / rho) / 2.0
        return evidence >= -math.log(delta)

    far = math.sqrt(a2 + rho) / total
    for _ in range(DOUBLINGS):
        if rejected(far):
            break
        far *= 2.0
    else:
        return math.inf
    near = far / 2.0
    for _ in range(40):
        middle = (near + far) / 2.0
        near, far = (near, middle) if rejected(middle) else (middle, far)
    return far
