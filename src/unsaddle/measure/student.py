"""Student's t: the number of standard errors in an interval from a few batches."""

from __future__ import annotations

import math
from functools import cache

_NODES = 200


@cache
def quantile(probability: float, degrees: int) -> float:
    """q with P(T ≤ q) = `probability` ≥ 1/2, for Student's t with ν = `degrees` degrees of freedom.

    With T = √ν·tan θ the density is proportional to cos^{ν−1}θ, which is smooth on a bounded interval. Simpson's rule
    and bisection give twelve digits.

    >>> round(quantile(0.95, 7), 4)
    1.8946
    """
    if not 0.5 <= probability < 1.0:
        raise ValueError(f"probability must be in [0.5, 1), got {probability}")
    scale = math.exp(math.lgamma((degrees + 1) / 2.0) - math.lgamma(degrees / 2.0) - 0.5 * math.log(math.pi))

    def above_half(theta: float) -> float:
        h = theta / _NODES
        weights = (1.0 if i in (0, _NODES) else 4.0 if i % 2 else 2.0 for i in range(_NODES + 1))
        return scale * h / 3.0 * sum(w * math.cos(i * h) ** (degrees - 1) for i, w in enumerate(weights))

    low, high = 0.0, math.pi / 2.0
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if above_half(middle) < probability - 0.5 else (low, middle)
    return math.sqrt(degrees) * math.tan(low)
