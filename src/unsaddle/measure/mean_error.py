"""How far the mean of a few batches may be from the truth: Student's t, and a term for tails on one side."""

from __future__ import annotations

import math
from collections.abc import Sequence

from unsaddle.measure import student

TAIL = 0.8
"""The weight of the farthest batch. From counts: if k rare samples were seen, k + t·√k + TAIL·ln(1/δ) is not below
Poisson's exact upper limit at 1 − δ, for every k ≥ 1 and 1e-4 ≤ δ ≤ 0.05 (`tests/measure/test_mean_error.py`)."""

SMALLEST_DELTA = 2.0**-50
"""1 − δ has to differ from 1."""


def mean_error(*, deviation: float, farthest: float, count: int, delta: float) -> float:
    """The width of a one-sided interval: the truth is below the mean + width at confidence 1 − δ.

        t·s/√K + 0.8·ln(1/δ)·D/K,     s = `deviation`, D = `farthest`, K = `count`

    The truth is not more than this above the mean of K independent batches whose standard deviation is s, and the
    farthest of which is D off the mean. The first term is Student's, and alone it is too short if a rare sample makes
    up much of the truth: the mean then goes with the number of such samples, which is Poisson's. The second term makes
    up for that. It holds for any noise whose tail is seen in the sample, such as exponential, lognormal up to σ = 1.5,
    and rare classes that were met once. Where none was met, nothing in the sample can tell.

    >>> round(mean_error(deviation=1.0, farthest=2.5, count=32, delta=0.025) * 32**0.5, 2)
    3.34
    """
    delta = min(max(delta, SMALLEST_DELTA), 0.5)
    t = student.quantile(1.0 - delta, count - 1)
    return t * deviation / math.sqrt(count) + TAIL * math.log(1.0 / delta) * farthest / count


def farthest_from(mean: float, values: Sequence[float]) -> float:
    """The largest distance of a value from the mean."""
    return max(abs(value - mean) for value in values)
