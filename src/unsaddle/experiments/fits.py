"""Exponents: the slope of a straight line through logarithms, with an interval over seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from unsaddle.measure import student


@dataclass(frozen=True, kw_only=True)
class Exponent:
    """p of counts ~ x^p."""

    value: float
    """nan if nothing could be fitted."""
    low: float
    high: float
    """The upper end of the 95 % interval from `low`. Both are nan if there are at most two runs."""
    points: int
    """Values of x that were fitted: those at which every run has a count."""
    missing: int
    """Runs without a count, which leave their x out of the fit."""

    @property
    def known(self) -> bool:
        return math.isfinite(self.value)

    def __str__(self) -> str:
        if not self.known:
            return "–"
        return f"{self.value:.2f}" if math.isnan(self.low) else f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


def exponent(counts: Mapping[float, Sequence[float]], *, confidence: float = 0.95) -> Exponent:
    """Fit counts ~ x^p by least squares in logarithms, one line through the runs of all seeds.

    Args:
        counts: for each x the counts of its runs; infinite, nan or 0 where a run has none.
        confidence: of the interval, Student's t with the residual variance of the line. A curve that is no power law
            has a wider interval.

    An x at which some run has no count is left out with all its runs: to leave out only that run would favour methods
    that fail.

    >>> fit = exponent({1.0: [3.0, 3.0], 2.0: [12.0, 12.0], 4.0: [48.0, 48.0]})
    >>> round(fit.value, 6), fit.points
    (2.0, 3)
    """
    usable = {x: c for x, c in counts.items() if c and all(math.isfinite(k) and k > 0.0 for k in c)}
    missing = sum(not (math.isfinite(k) and k > 0.0) for c in counts.values() for k in c)
    if len(usable) < 2:
        return Exponent(value=math.nan, low=math.nan, high=math.nan, points=len(usable), missing=missing)
    x = np.log(np.concatenate([np.full(len(c), at, dtype=float) for at, c in usable.items()]))
    y = np.log(np.concatenate([np.asarray(c, dtype=float) for c in usable.values()]))
    x -= x.mean()
    slope = float(x @ y / (x @ x))
    low = high = math.nan
    if len(x) > 2:
        residuals = y - y.mean() - slope * x
        error = math.sqrt(float(residuals @ residuals) / (len(x) - 2) / float(x @ x))
        reach = student.quantile((1.0 + confidence) / 2.0, len(x) - 2) * error
        low, high = slope - reach, slope + reach
    return Exponent(value=slope, low=low, high=high, points=len(usable), missing=missing)
