"""Samples for the rivals: a batch, everything, or as many as the gradient needs."""

from __future__ import annotations

import math

from torch import Tensor

from unsaddle.first_order.anchor import Anchor, anchor_at, at_most
from unsaddle.objective import SampledFunction
from unsaddle.run import Run

SMALLEST_ANCHOR = 64
"""Least samples of an anchor. V alone would ask for none at a saddle where every component's gradient vanishes."""


def batch(run: Run, size: int, *, hessian: bool = False) -> SampledFunction:
    """F_S on `size` fresh samples. F itself if there are no more than that."""
    return run.objective.sample(at_most(size, run.num_samples), run.generator, hessian=hessian)


def everything(run: Run, *, hessian: bool = False) -> SampledFunction:
    """F itself. A stream has none, which is an error."""
    if run.num_samples is None:
        raise ValueError(
            f"{run.method} needs full gradients, got a stream, which has none; use a method for streams, such as "
            "neon-scsg, or a FiniteSum of samples drawn from it"
        )
    return run.objective.sample(None, hessian=hessian)


def variance_anchor(run: Run, x: Tensor, size: int) -> Anchor:
    """∇F_S(x) with V, the variance of one sample's gradient. Leaves a sample out if it can: everything shows no V."""
    n = run.num_samples
    return anchor_at(run.objective, x, size if n is None else max(1, min(size, n - 1)), run.generator)


def batch_for(seen: Anchor, *, eps: float, share: float, at_least: int, num_samples: int | None) -> int:
    """b = share·V/max(ε², ĝ²/4), where ĝ is the gradient norm less what sampling adds. Everything if b > n/2."""
    if math.isnan(seen.variance):
        return num_samples or at_least
    squared_norm = max(0.0, seen.norm**2 - seen.squared_error)
    size = max(at_least, math.ceil(share * seen.variance / max(eps**2, squared_norm / 4.0)))
    return num_samples if num_samples is not None and 2 * size > num_samples else size


def measured_anchor(run: Run, x: Tensor, eps: float, size: int | None) -> Anchor:
    """∇F_S(x) on `size` samples. Without a size, on |S| = max(64, 4V/max(ε², ĝ²/4)), with V from a first batch of 64.

    Near a stationary point sampling then adds at most ε²/4 to the squared norm.
    """
    if size is not None or run.num_samples == 1:
        return anchor_at(run.objective, x, size, run.generator)
    seen = variance_anchor(run, x, SMALLEST_ANCHOR)
    wanted = batch_for(seen, eps=eps, share=4.0, at_least=SMALLEST_ANCHOR, num_samples=run.num_samples)
    return seen if wanted <= seen.samples else anchor_at(run.objective, x, wanted, run.generator)
