"""Measuring the curvature along a direction again, symmetrically, before anybody is told that it is negative."""

from __future__ import annotations

import math
import statistics

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.cost import Ledger
from unsaddle.curvature.result import Measurement
from unsaddle.objective import Objective, SampledFunction

SAME_SAMPLE_GRADIENTS = 4
"""Gradients that `on_same_sample` takes: two at each of two radii."""

FRESH_BATCHES = 8
"""Independent batches that `on_fresh_samples` takes, two gradients each."""

STANDARD_ERRORS = 3.0
"""Half-width of the interval on fresh samples. With eight batches, three standard errors are exceeded one-sidedly with
probability 0.01 (Student's t with 7 degrees of freedom)."""


def symmetric_difference(f: SampledFunction, x: Tensor, v: Tensor, radius: float) -> float:
    """vᵀ(∇f(x+rv) − ∇f(x−rv))/(2r) for a unit v: vᵀ∇²f(x)v, up to L2·r/2, and exactly so for cubics. Two gradients."""
    above = f.grad(torch.add(x, v, alpha=radius)).clone()  # The function may answer the next call in the same memory.
    below = f.grad(torch.sub(x, v, alpha=radius))
    (difference,) = vectors.dots((v, above.sub_(below)))
    return difference / (2.0 * radius)


def on_same_sample(f: SampledFunction, x: Tensor, v: Tensor, radius: float, noise: float) -> Measurement:
    """Curvature along v on the F_S that v was found on, at r and 2r; their difference bounds the truncation.

    What is measured at r is the average of vᵀ∇²f(x+sv)v over |s| ≤ r. A term |s| in it moves the average as far from r
    to 2r as from 0 to r, and a term s² three times as far, so the difference covers either.

    Args:
        f: F_S.
        x: the point.
        v: a unit vector.
        radius: r.
        noise: the absolute rounding error of a gradient.
    """
    near = symmetric_difference(f, x, v, radius)
    far = symmetric_difference(f, x, v, 2.0 * radius)
    return Measurement(
        curvature=near, error=abs(far - near) + noise / radius, radius=radius, samples=f.size, fresh=False
    )


def on_fresh_samples(
    objective: Objective, x: Tensor, v: Tensor, radius: float, size: int, generator: torch.Generator, ledger: Ledger
) -> Measurement:
    """Curvature of F itself along v, from independent batches of about `size` samples in all.

    The error is three standard errors of their mean: the direction was fixed before these samples were drawn, so their
    curvatures are independent and unbiased.
    """
    batches = min(FRESH_BATCHES, max(2, size))
    batch = max(1, size // batches)
    curvatures = [
        symmetric_difference(objective.sample(batch, generator, ledger=ledger), x, v, radius) for _ in range(batches)
    ]
    error = STANDARD_ERRORS * statistics.stdev(curvatures) / math.sqrt(batches)
    return Measurement(
        curvature=statistics.fmean(curvatures), error=error, radius=radius, samples=batches * batch, fresh=True
    )
