"""What sampling does to a gradient and to a curvature, measured from independent batches.

    V = E‖∇f(x; ξ) − ∇F(x)‖²,     s² = E(vᵀ∇²f(x; ξ)v − vᵀ∇²F(x)v)²

Both are those of one sample: a mean over m independent samples has V/m and s²/m.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.cost import Ledger
from unsaddle.measure import student
from unsaddle.measure.direction import Measurement, symmetric_difference
from unsaddle.objective import Objective, SampledFunction

BATCHES = 16
"""Independent batches that the samples are divided into: with half as many, an interval at 1 − 1e-4 is 1.45 times as
wide from the same number of samples."""


@dataclass(frozen=True, kw_only=True)
class SampledGradient:
    """∇F(x) from independent batches."""

    mean: Tensor = field(repr=False)
    variance: float
    """V, of one sample."""
    samples: int
    """In all batches together."""
    batches: int

    @property
    def norm(self) -> float:
        """‖∇F(x)‖. The norm of the mean is too large by what sampling adds to it, which is taken out."""
        squared = vectors.norm(self.mean) ** 2 - self.variance / self.samples
        return math.sqrt(max(0.0, squared)) if math.isfinite(squared) else math.nan

    def error(self, delta: float) -> float:
        """How far the mean may be from ∇F(x), in norm, at confidence 1 − δ.

        A two-sided t-quantile of standard errors. That is exact if all noise lies along one direction; spread over
        several it is less dispersed, and the interval too wide.
        """
        return student.quantile(1.0 - delta / 2.0, self.batches - 1) * math.sqrt(self.variance / self.samples)


@dataclass(frozen=True, kw_only=True)
class SampledCurvature:
    """vᵀ∇²F(x)v from independent batches."""

    mean: float
    deviation: float
    """s, of one sample."""
    samples: int
    batches: int

    @property
    def standard_error(self) -> float:
        """Of the mean."""
        return self.deviation / math.sqrt(self.samples)

    def error(self, delta: float) -> float:
        """The one-sided interval at confidence 1 − δ: the truth is below mean + error."""
        quantile = student.quantile(1.0 - min(delta, 0.5), self.batches - 1)
        return quantile * self.standard_error


def gradient(
    objective: Objective, x: Tensor, *, samples: int, generator: torch.Generator, ledger: Ledger | None = None
) -> SampledGradient:
    """∇F(x) and V from about `samples` samples in independent batches.

    >>> from unsaddle import FiniteSum
    >>> rows = torch.tensor([-1.0, 1.0], dtype=torch.float64).repeat(500)
    >>> objective = FiniteSum(lambda x, a: (x[0] * a).mean(), rows)
    >>> seen = gradient(
    ...     objective, torch.zeros(1, dtype=torch.float64), samples=800, generator=torch.Generator().manual_seed(0)
    ... )
    >>> seen.samples, 0.3 < seen.variance < 3.0
    (800, True)
    """
    return mean_gradient((f.size, f.grad(x)) for f in batches(objective, samples, generator, ledger))


def mean_gradient(gradients: Iterable[tuple[int, Tensor]]) -> SampledGradient:
    """The mean of the gradients of independent batches, each with its size, and V; two batches at least.

    The mean g of batches of m_1, m_2, … samples has Σ m_k‖g_k − g‖² = (K − 1)·V in expectation, whatever the m_k.
    Welford's recurrence: no batch's gradient is kept, so that they may be computed one by one.
    """
    remaining = iter(gradients)
    samples, first = next(remaining)
    mean, squares, count = first.clone(), 0.0, 1
    for size, grad in remaining:
        off = grad - mean
        before, samples, count = samples, samples + size, count + 1
        mean.add_(off, alpha=size / samples)
        squares += vectors.norm(off) ** 2 * size * before / samples
    return SampledGradient(mean=mean, variance=squares / (count - 1), samples=samples, batches=count)


def curvature(
    objective: Objective,
    x: Tensor,
    v: Tensor,
    *,
    radius: float,
    samples: int,
    generator: torch.Generator,
    ledger: Ledger | None = None,
) -> SampledCurvature:
    """vᵀ∇²F(x)v for a unit v and s, by symmetric differences on about `samples` samples in independent batches."""
    return curvature_on(batches(objective, samples, generator, ledger), x, v, radius)


def curvature_on(functions: list[SampledFunction], x: Tensor, v: Tensor, radius: float) -> SampledCurvature:
    """The same on batches that are drawn already; two gradients each."""
    return mean_curvature([symmetric_difference(f, x, v, radius) for f in functions], functions[0].size)


def mean_curvature(curvatures: Sequence[float], size: int) -> SampledCurvature:
    """The mean of curvatures along one direction, each from an independent batch of that size, and s."""
    mean = deviation = math.nan
    if all(math.isfinite(c) for c in curvatures):  # statistics.stdev raises on anything else.
        mean, deviation = statistics.fmean(curvatures), math.sqrt(size) * statistics.stdev(curvatures)
    return SampledCurvature(mean=mean, deviation=deviation, samples=size * len(curvatures), batches=len(curvatures))


def batches(
    objective: Objective, samples: int, generator: torch.Generator, ledger: Ledger | None = None
) -> list[SampledFunction]:
    """Independent batches of equal size, of about so many samples together."""
    count = min(BATCHES, max(2, samples))
    ledger = Ledger() if ledger is None else ledger
    return [objective.sample(max(1, samples // count), generator, ledger=ledger) for _ in range(count)]


def on_fresh_samples(
    objective: Objective,
    x: Tensor,
    v: Tensor,
    radius: float,
    size: int,
    delta: float,
    generator: torch.Generator,
    ledger: Ledger,
) -> Measurement:
    """Curvature of F itself along v, from independent batches of about `size` samples in all.

    The direction was fixed before these samples were drawn, so their curvatures are independent and unbiased: the error
    is that of a one-sided t-interval at confidence 1 − δ.
    """
    seen = curvature(objective, x, v, radius=radius, samples=size, generator=generator, ledger=ledger)
    return Measurement(
        curvature=seen.mean,
        error=seen.error(delta),
        radius=radius,
        samples=seen.samples,
        fresh=True,
        deviation=seen.deviation,
    )
