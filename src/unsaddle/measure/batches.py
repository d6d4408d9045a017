"""The sampling error of a gradient and of a curvature, measured from independent batches.

    V = E‖∇f(x; ξ) − ∇F(x)‖²,     s² = E(vᵀ∇²f(x; ξ)v − vᵀ∇²F(x)v)²

Both are variances of one sample. A mean over m independent samples has V/m and s²/m.
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
"""Independent batches in a sample. With half as many, an interval at confidence 1 − 1e-4 is 1.45 times as wide."""


@dataclass(frozen=True, kw_only=True)
class SampledGradient:
    """∇F(x) from independent batches with `samples` samples in all. `variance` is V, of one sample."""

    mean: Tensor = field(repr=False)
    variance: float
    samples: int
    batches: int

    @property
    def norm(self) -> float:
        """‖∇F(x)‖, as √(‖mean‖² − V/samples): sampling makes the norm of the mean too large."""
        squared = vectors.norm(self.mean) ** 2 - self.variance / self.samples
        return math.sqrt(max(0.0, squared)) if math.isfinite(squared) else math.nan

    def error(self, delta: float) -> float:
        """How far the mean may be from ∇F(x), in norm, at confidence 1 − δ.

        A two-sided t-interval. It is exact if all noise lies along one direction. Else it is too wide.
        """
        return student.quantile(1.0 - delta / 2.0, self.batches - 1) * math.sqrt(self.variance / self.samples)


@dataclass(frozen=True, kw_only=True)
class SampledCurvature:
    """vᵀ∇²F(x)v from independent batches with `samples` samples in all. `deviation` is s, of one sample."""

    mean: float
    deviation: float
    samples: int
    batches: int

    @property
    def standard_error(self) -> float:
        """The standard error of the mean, s/√samples."""
        return self.deviation / math.sqrt(self.samples)

    def error(self, delta: float) -> float:
        """The width of a one-sided t-interval: the truth is below mean + error at confidence 1 − δ."""
        return student.quantile(1.0 - min(delta, 0.5), self.batches - 1) * self.standard_error


def gradient(
    objective: Objective, x: Tensor, *, samples: int, generator: torch.Generator, ledger: Ledger | None = None
) -> SampledGradient:
    """∇F(x) and V from about `samples` samples in independent batches.

    >>> from unsaddle import FiniteSum
    >>> rows = torch.tensor([-1.0, 1.0], dtype=torch.float64).repeat(500)
    >>> objective, x = FiniteSum(lambda x, a: (x[0] * a).mean(), rows), torch.zeros(1, dtype=torch.float64)
    >>> seen = gradient(objective, x, samples=800, generator=torch.Generator().manual_seed(0))
    >>> seen.samples, 0.3 < seen.variance < 3.0
    (800, True)
    """
    return mean_gradient((f.size, f.grad(x)) for f in batches(objective, samples, generator, ledger))


def mean_gradient(gradients: Iterable[tuple[int, Tensor]]) -> SampledGradient:
    """The mean and V from (size, gradient) of at least two independent batches.

    The mean g over K batches of m_1, m_2, … samples has E Σ m_k‖g_k − g‖² = (K − 1)·V for any m_k. Welford's recurrence
    needs one gradient at a time, so none is kept.
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
    """vᵀ∇²F(x)v for a unit v, and s, from about `samples` samples in independent batches. Two gradients a batch."""
    return curvature_on(batches(objective, samples, generator, ledger), x, v, radius)


def curvature_on(functions: list[SampledFunction], x: Tensor, v: Tensor, radius: float) -> SampledCurvature:
    """vᵀ∇²F(x)v for a unit v, and s, from given batches of equal size. Two gradients a batch."""
    return mean_curvature([symmetric_difference(f, x, v, radius) for f in functions], functions[0].size)


def mean_curvature(curvatures: Sequence[float], size: int) -> SampledCurvature:
    """The mean and s from curvatures along one direction, each from an independent batch of `size` samples."""
    mean = deviation = math.nan
    if all(math.isfinite(c) for c in curvatures):  # statistics.stdev raises on nan and inf.
        mean, deviation = statistics.fmean(curvatures), math.sqrt(size) * statistics.stdev(curvatures)
    return SampledCurvature(mean=mean, deviation=deviation, samples=size * len(curvatures), batches=len(curvatures))


def batches(
    objective: Objective, samples: int, generator: torch.Generator, ledger: Ledger | None = None
) -> list[SampledFunction]:
    """Draw independent batches of equal size, with about `samples` samples in all."""
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
    """The curvature of F along v, from independent batches with about `size` samples in all.

    v was fixed before the samples were drawn, so their curvatures are independent and unbiased. The error is that of a
    one-sided t-interval at confidence 1 − δ.
    """
    c = curvature(objective, x, v, radius=radius, samples=size, generator=generator, ledger=ledger)
    return Measurement(
        curvature=c.mean, error=c.error(delta), radius=radius, samples=c.samples, fresh=True, deviation=c.deviation
    )
