"""The sampling error of a gradient and of a curvature, measured from independent batches.

    V = E‖∇f(x; ξ) − ∇F(x)‖²,     s² = E(vᵀ∇²f(x; ξ)v − vᵀ∇²F(x)v)²

Both are variances of one sample. A mean over m independent samples has V/m and s²/m. Intervals are those of
`measure.mean_error`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.cost import Ledger
from unsaddle.measure.direction import Measurement, symmetric_difference
from unsaddle.measure.mean_error import farthest_from, mean_error
from unsaddle.objective import Objective, SampledFunction, as_objective

BATCHES = 32
"""Independent batches in a sample. With half as many, an interval at confidence 0.975 is 1.11 times as wide."""

CHECKS, EVERYTHING = 4, 8
"""A gradient and a curvature along one direction are measured on 4 times the samples of a search; on everything, if
that is at most 8 times as much. A search takes tens of gradients, and these take one and two."""


def checking_samples(objective: Objective, samples: int) -> int | None:
    """How many samples check what was found on `samples`: four times as many; or None, which is everything.

    >>> from unsaddle import FiniteSum
    >>> rows = FiniteSum(lambda x, a: (x[0] * a).mean(), torch.ones(1000))
    >>> checking_samples(rows, 100), checking_samples(rows, 125)
    (400, None)
    """
    n = objective.num_samples
    return None if n is not None and EVERYTHING * samples >= n else CHECKS * samples


@dataclass(frozen=True, kw_only=True)
class SampledGradient:
    """∇F(x) from independent batches with `samples` samples in all. `variance` is V, of one sample."""

    mean: Tensor = field(repr=False)
    variance: float
    farthest: float
    """The largest distance of a batch from the mean of those before it: at least about that from the mean of all."""
    samples: int
    batches: int

    @property
    def norm(self) -> float:
        """‖∇F(x)‖, as √(‖mean‖² − V/samples): sampling makes the norm of the mean too large."""
        squared = vectors.norm(self.mean) ** 2 - self.variance / self.samples
        return math.sqrt(max(0.0, squared)) if math.isfinite(squared) else math.nan

    def error(self, delta: float) -> float:
        """How far the mean may be from ∇F(x), in norm, at confidence 1 − δ. Too wide unless all noise is on a line."""
        deviation = math.sqrt(self.variance * self.batches / self.samples)
        return mean_error(deviation=deviation, farthest=self.farthest, count=self.batches, delta=delta / 2.0)


@dataclass(frozen=True, kw_only=True)
class SampledCurvature:
    """vᵀ∇²F(x)v from independent batches with `samples` samples in all. `deviation` is s, of one sample."""

    mean: float
    deviation: float
    farthest: float
    """The largest distance of a batch from the mean."""
    samples: int
    batches: int

    @property
    def standard_error(self) -> float:
        """The standard error of the mean, s/√samples."""
        return self.deviation / math.sqrt(self.samples)

    def error(self, delta: float) -> float:
        """The width of a one-sided interval: the truth is below mean + error at confidence 1 − δ."""
        deviation = self.standard_error * math.sqrt(self.batches)
        return mean_error(deviation=deviation, farthest=self.farthest, count=self.batches, delta=delta)


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
    return mean_gradient((f.size, f.grad(x)) for f in drawn(objective, samples, generator, ledger))


class GradientNorm(NamedTuple):
    """‖∇F(x)‖, how far that may be off, and V."""

    norm: float
    error: float
    variance: float


def gradient_norm(
    objective: Objective, x: Tensor, samples: int, delta: float, generator: torch.Generator, ledger: Ledger
) -> GradientNorm:
    """‖∇F(x)‖ at confidence 1 − δ, on four times `samples`, or on everything (`checking_samples`).

    Cost: one gradient of 4·`samples` in batches; or one of `samples` in batches, for V, and one of everything, which is
    at most 8·`samples`.
    """
    size = checking_samples(objective, samples)
    seen = gradient(objective, x, samples=size or samples, generator=generator, ledger=ledger)
    if size is None:
        return GradientNorm(vectors.norm(objective.sample(ledger=ledger).grad(x)), 0.0, seen.variance)
    return GradientNorm(seen.norm, seen.error(delta), seen.variance)


def mean_gradient(gradients: Iterable[tuple[int, Tensor]]) -> SampledGradient:
    """The mean and V from (size, gradient) of at least two independent batches.

    The mean g over K batches of m_1, m_2, … samples has E Σ m_k‖g_k − g‖² = (K − 1)·V for any m_k. Welford's recurrence
    needs one gradient at a time, so none is kept.
    """
    remaining = iter(gradients)
    samples, first = next(remaining)
    mean, squares, farthest, count = first.clone(), 0.0, 0.0, 1
    for size, grad in remaining:
        off = grad - mean
        before, samples, count = samples, samples + size, count + 1
        mean.add_(off, alpha=size / samples)
        distance = vectors.norm(off)
        squares, farthest = squares + distance**2 * size * before / samples, max(farthest, distance)
    variance = squares / (count - 1)
    return SampledGradient(mean=mean, variance=variance, farthest=farthest, samples=samples, batches=count)


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
    seen = [(f.size, symmetric_difference(f, x, v, radius)) for f in drawn(objective, samples, generator, ledger)]
    return mean_curvature([curvature for _, curvature in seen], seen[0][0])


def mean_curvature(curvatures: Sequence[float], size: int) -> SampledCurvature:
    """The mean and s from curvatures along one direction, each from an independent batch of `size` samples."""
    mean = deviation = farthest = math.nan
    if all(math.isfinite(c) for c in curvatures):  # statistics.stdev raises on nan and inf.
        mean, deviation = statistics.fmean(curvatures), math.sqrt(size) * statistics.stdev(curvatures)
        farthest = farthest_from(mean, curvatures)
    count = len(curvatures)
    return SampledCurvature(mean=mean, deviation=deviation, farthest=farthest, samples=size * count, batches=count)


def drawn(
    objective: Objective, samples: int, generator: torch.Generator, ledger: Ledger | None = None
) -> Iterator[SampledFunction]:
    """Draw independent batches of equal size, with about `samples` samples in all, one after the other.

    So no more than one of them is in memory.
    """
    least = as_objective(objective).least_samples
    count = min(BATCHES, max(2, samples // least))
    ledger = Ledger() if ledger is None else ledger
    for _ in range(count):
        yield objective.sample(max(least, samples // count), generator, ledger=ledger)


def on_fresh_samples(
    objective: Objective,
    x: Tensor,
    v: Tensor,
    same: Measurement,
    delta: float,
    generator: torch.Generator,
    ledger: Ledger,
) -> Measurement:
    """The curvature of F along v, on four times the samples that v was found on, or on everything (`checking_samples`).

    v was fixed before the samples were drawn, so their curvatures are independent and unbiased. The error is that of a
    one-sided interval at confidence 1 − δ. On everything it is that of `same`, the measurement on the sample that v was
    found on: there is no sampling error then.

    Cost: two gradients of 4m samples for `same` on m samples, in batches; or of everything, at most 8m.
    """
    size = checking_samples(objective, same.samples)
    if size is None:
        f = objective.sample(ledger=ledger)
        exact = symmetric_difference(f, x, v, same.radius)
        return replace(same, curvature=exact, samples=f.size, fresh=True, deviation=0.0)
    c = curvature(objective, x, v, radius=same.radius, samples=size, generator=generator, ledger=ledger)
    return Measurement(
        curvature=c.mean, error=c.error(delta), radius=same.radius, samples=c.samples, fresh=True, deviation=c.deviation
    )
