"""What a run proves of the space that it looked at: beyond which levels there is no eigenvalue."""

from __future__ import annotations

import math
from collections.abc import Callable

from unsaddle.spectrum.ends import Run, Stop
from unsaddle.theory.start import log_unlucky


def excluded(run: Run, delta: float, error: float, low: bool, high: bool) -> tuple[float, float]:
    """All eigenvalues of the run's space lie between these, at confidence 1 − δ; ±inf at an end that is not asked for.

    Args:
        run: as it ended.
        delta: δ, the probability that the random start hides an eigenvector beyond.
        error: that of the products, in norm.
        low: whether the lower end is asked for.
        high: whether the upper end is.
    """
    seen, allowed = run.process.projection, log_unlucky(run.dimension, delta)
    if not seen.values.size or run.stop is Stop.NOT_FINITE:
        return -math.inf, math.inf
    first, last = float(seen.values[0]), float(seen.values[-1])
    below = above = 0.0
    if run.stop is not Stop.EVERYTHING:
        largest = run.process.largest
        below = _nearest(lambda t: seen.log_missed_at(first - t) <= allowed, largest) if low else math.inf
        above = _nearest(lambda t: seen.log_missed_at(last + t) <= allowed, largest) if high else math.inf
    return first - below - error, last + above + error


def _nearest(holds: Callable[[float], bool], largest: float) -> float:
    """The smallest t, to one per cent, from which on something holds; inf if not even at twice `largest`."""
    above, below = 2.0 * largest, 1e-9 * largest
    if largest == 0.0 or not holds(above):
        return math.inf
    while above > 1.01 * below:
        middle = math.sqrt(below * above)
        below, above = (below, middle) if holds(middle) else (middle, above)
    return above
