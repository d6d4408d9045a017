"""Which way to step off a saddle, and how far, by the loss and slopes of one sample."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.escape.line_search import by_slopes
from unsaddle.measure.values import VALUE_ROUNDING
from unsaddle.objective import SampledFunction
from unsaddle.objectives.model.parameters import FlatParameters
from unsaddle.torch_optim import policy

FIRST_LENGTH = 1e-3
"""The first length tried, as a share of ‖x‖ (of 1 at x = 0)."""

SHARE_OF_BEST = 0.5
"""The step taken, as a share of the best length on one sample. That length is mostly too long for other samples, and
the descent that follows covers the rest."""


SCATTER = 0.3
"""The length of random noise in a step, as a share of the direction. A saddle often has several ways down, and where it
was left along one of them training is slow to find the others (`python -m benchmarks.stuck --scatter`)."""


def scattered(u: Tensor, flat: FlatParameters, seed: int) -> Tensor:
    """The direction of the step: u with some noise, as a unit vector. It is zero in parameters in which u is zero."""
    w = vectors.random_direction(u, torch.Generator().manual_seed(seed))
    sizes = vectors.summed(torch.stack(torch._foreach_norm([part for _, part in flat.pieces(u)])).square())
    for (_, part), size in zip(flat.pieces(w), sizes.tolist(), strict=True):
        if size == 0.0:
            part.zero_()
    v = torch.add(u, w, alpha=SCATTER)
    return v.div_(vectors.norm(v))


def at(f: SampledFunction, x: Tensor, v: Tensor, s: float) -> tuple[float, float]:
    """Loss, and slope along v, at x + sv."""
    value, grad = f.value_and_grad_at_sum(x, v, s)
    return float(value), vectors.dots((v, grad))[0]


def length_along(f: SampledFunction, x: Tensor, v: Tensor, *, radius: float) -> float:
    """How far to step along a unit vector v or −v; 0 if no point is lower. Takes at most `policy.LENGTHS` evaluations.

    The search uses the mean of the losses at x + sv and x − sv. In it the slope at x cancels, which on one sample is
    mostly noise. The first length is at least four probe radii, and at least 4√ε: next to x = 0 radii are very short.
    """
    value = float(f.value(x))
    shortest = 4.0 * max(radius, math.sqrt(torch.finfo(x.dtype).eps))

    def both_ways(s: float) -> tuple[float, float]:
        (above, rise), (below, fall) = at(f, x, v, s), at(f, x, v, -s)
        return (above + below) / 2.0, (rise - fall) / 2.0

    best = by_slopes(
        both_ways,
        value=value,
        first=max(shortest, FIRST_LENGTH * (vectors.norm(x) or 1.0)),
        max_evaluations=(policy.LENGTHS - 1) // 2,
        resolution=VALUE_ROUNDING * torch.finfo(x.dtype).eps * abs(value),
    )
    return SHARE_OF_BEST * best.length
