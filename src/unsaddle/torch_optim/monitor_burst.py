"""The arithmetic of a burst: λ_max at one point x, from a Krylov search on one batch and fresh batches after it.

The search on a batch B, with Hessian H + E, finds its highest eigenvalue λ_B and the unit vector u. Fresh batches then
measure q = uᵀ(H + E')u at the same x. To second order in E, with Σ over the other eigenvectors of H,

    E λ_B = λ_max + b,    E q = λ_max − b,    b = Σ_j E(v_jᵀEv)²/(λ_max − λ_j):

a batch flatters the vector that it has chosen by what that vector lacks on all others. The mean of the products
(H + E')u over fresh batches leaves u by ‖Ev − vvᵀEv‖. So b is known from below, as most of the λ_j are small. Inner
products of different batches show it: rounding, which a preconditioner may make large where gradients are zero, is not
in them.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from unsaddle.measure import student

FEWEST, UNKNOWN, MOST = 2, 5, 20
"""Fresh batches of a burst: where all batches agree, as whole data sets do; else at least, since two may agree by
chance; and at most. After more of them, it would take so long to pay for the next burst that a warning came late."""

AGREE = 0.01
"""Batches agree if they scatter by no more than this share of λ_max."""

WANTED = 0.05
"""The standard error of λ_max at which a burst ends, as a share of it."""

MEMORY = 5
"""Differences of earlier batches that count beside those of a burst: the noise changes along training."""

CONFIDENCE = 0.95
"""Of the error, one-sided."""


class Noise(NamedTuple):
    """By how much single batches differ along one direction."""

    variance: float = 0.0
    """Of a measurement, relative to λ_max²."""
    terms: int = 0
    """Degrees of freedom that it was estimated from."""

    @property
    def deviation(self) -> float:
        """The standard deviation of a measurement, as a share of λ_max."""
        return math.sqrt(self.variance)

    def after(self, burst: Sequence[float]) -> Noise:
        """The noise after one more burst.

        >>> Noise().after([9.0, 10.0, 11.0])
        Noise(variance=0.01, terms=2)
        """
        level, more = statistics.fmean(burst) if burst else 0.0, len(burst) - 1
        if not (more > 0 and level > 0.0):
            return self
        kept, seen = min(self.terms, MEMORY), statistics.variance(burst) / level**2
        return Noise((kept * self.variance + more * seen) / (kept + more), kept + more)

    @property
    def size(self) -> int:
        """Fresh batches that a burst needs. The batch of its search counts, too. Few terms may be too small by chance.

        >>> Noise().size, Noise(0.15**2, 8).size, Noise(0.5**2, 8).size
        (5, 11, 20)
        """
        if self.terms == 0:
            return UNKNOWN
        careful = self.variance * (1.0 + 2.0 / self.terms)
        least = FEWEST if self.deviation <= AGREE else UNKNOWN
        return min(MOST, max(least, math.ceil(round(careful / WANTED**2, 6)) - 1))


def highest(searched: float, burst: Sequence[float], beside: float, noise: Noise) -> tuple[float, float]:
    """λ_max and its one-sided error: of the noise, and as much as b is.

    The mean of λ_B and all q, with b taken off λ_B and added to each q.

    Args:
        searched: λ_B.
        burst: q of fresh batches.
        beside: ‖Hu − (uᵀHu)u‖².
        noise: of single batches.

    >>> [round(number, 3) for number in highest(11.0, [9.0, 9.0, 9.0], 10.0, Noise(0.01, 8))]
    [10.056, 2.046]
    """
    count, mean = len(burst), statistics.fmean(burst)
    lost = max(0.0, beside) / mean if mean > 0.0 else 0.0
    found = (searched - lost + count * (mean + lost)) / (count + 1)
    error = student.quantile(CONFIDENCE, max(1, noise.terms)) * noise.deviation * abs(found) / math.sqrt(count + 1)
    return found, error + lost


def across(total: float, each: Sequence[float]) -> float:
    """The mean of h_iᵀh_j over i ≠ j, from ‖Σh‖² and all ‖h‖²; 0 for one h.

    >>> across(9.0, [1.0, 4.0])  # 1 and 2: 1·2.
    2.0
    """
    pairs = len(each) * (len(each) - 1)
    return (total - sum(each)) / pairs if pairs else 0.0
