"""The arithmetic of a burst: λ_max at one point x, from a direction that one batch found and fresh batches after it.

The search on a batch, with Hessian H + E, finds its highest eigenvector u. To second order in E it lacks

    λ_max − uᵀHu = Σ_j (v_jᵀEv)²/(λ_max − λ_j)

of λ_max: 3 to 10 % on a conv net. The batch's own eigenvalue is too high, by as much and by its noise, so it is not
used. The first fresh batches turn u to the mean of their Hu, unless they agree. The next ones measure q = uᵀHu, and
p = Hu − qu with the same products. One more measures t = pᵀHp/‖p‖². The answer is the Ritz value of span{u, Hu}, the
higher eigenvalue of

    q    ‖p‖
    ‖p‖   t

which lacks 0 to 4 % there. ‖p‖ is from inner products of different batches. Their noise is not in them, nor is
rounding, which a preconditioner may make large where gradients are zero.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from unsaddle.measure import student

FIRST_BATCHES = 3
"""Fresh batches along u after which a burst ends if they agree, as whole data sets do. Else they turn u."""

UNKNOWN, MOST = 12, 24
"""Fresh batches that then measure it: at least, and at most. After more of them, it would take so long to pay for the
next burst that a warning came late."""

AGREE = 0.01
"""Batches agree if they scatter by no more than this share of λ_max."""

WANTED = 0.035
"""The standard error of λ_max at which a burst ends, as a share of it."""

NEGLIGIBLE = 2e-3
"""p is left out if ‖p‖² is at most this share of q²: it would change λ_max by about as much."""

MEMORY = 5
"""Differences of earlier batches complete those of a burst up to so many: the noise changes along training."""

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

    @property
    def agree(self) -> bool:
        """Whether batches agree, as far as is known."""
        return self.terms > 0 and self.deviation <= AGREE

    def after(self, burst: Sequence[float]) -> Noise:
        """The noise after one more burst.

        >>> Noise().after([9.0, 10.0, 11.0])
        Noise(variance=0.01, terms=2)
        """
        level, more = statistics.fmean(burst) if burst else 0.0, len(burst) - 1
        if not (more > 0 and level > 0.0):
            return self
        kept, seen = min(self.terms, max(0, MEMORY - more)), statistics.variance(burst) / level**2
        return Noise((kept * self.variance + more * seen) / (kept + more), kept + more)

    @property
    def size(self) -> int:
        """Fresh batches that a burst needs along u. Few terms may be too small by chance.

        >>> Noise().size, Noise(0.15**2, 8).size, Noise(0.5**2, 8).size
        (12, 23, 24)
        """
        if self.terms == 0:
            return UNKNOWN
        careful = self.variance * (1.0 + 2.0 / self.terms)
        least = FIRST_BATCHES if self.agree else UNKNOWN
        return min(MOST, max(least, math.ceil(round(careful / WANTED**2, 6))))


def is_seen(mean: float, beside: float) -> bool:
    """Whether p is worth another batch."""
    return beside > NEGLIGIBLE * mean**2


def highest(burst: Sequence[float], beside: float, aside: float | None, noise: Noise) -> tuple[float, float]:
    """λ_max and its one-sided error: of the noise, and as much as p has added.

    Args:
        burst: q of fresh batches.
        beside: ‖p‖².
        aside: t; None if p is left out.
        noise: of single batches.

    >>> [round(number, 3) for number in highest([9.0, 9.0, 9.0], 10.0, 0.0, Noise(0.01, 8))]
    [10.0, 2.074]
    """
    mean = statistics.fmean(burst)
    found = mean if aside is None else (mean + aside) / 2.0 + math.hypot((mean - aside) / 2.0, math.sqrt(beside))
    spread = student.quantile(CONFIDENCE, max(1, noise.terms)) * noise.deviation / math.sqrt(len(burst))
    return found, spread * abs(found) + found - mean


def across(total: float, each: Sequence[float]) -> float:
    """The mean of h_iᵀh_j over i ≠ j, from ‖Σh‖² and all ‖h‖²; 0 for one h.

    >>> across(9.0, [1.0, 4.0])  # 1 and 2: 1·2.
    2.0
    """
    pairs = len(each) * (len(each) - 1)
    return (total - sum(each)) / pairs if pairs else 0.0
