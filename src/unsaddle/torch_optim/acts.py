"""What a verdict is made of, whether its samples come from closures or from an objective."""

from __future__ import annotations

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.curvature.displaced import VALUE_ROUNDING
from unsaddle.escape.line_search import by_slopes
from unsaddle.objective import SampledFunction
from unsaddle.torch_optim import policy

FIRST_LENGTH = 1e-3
"""The first step that is tried, as a share of ‖x‖ (of 1 at x = 0)."""

SHARE_OF_BEST = 0.5
"""How much of the length that is best for one sample is tried on others, for which it is mostly too long. The descent
that follows makes up for it."""


def at(f: SampledFunction, x: Tensor, v: Tensor, s: float) -> tuple[float, float]:
    """Loss, and slope along v, at x + sv."""
    value, grad = f.value_and_grad_at_sum(x, v, s)
    return float(value), vectors.dots((v, grad))[0]


def length_along(f: SampledFunction, x: Tensor, v: Tensor, *, radius: float) -> float:
    """How far to go along v or its opposite; 0 if nowhere is lower. At most `policy.LENGTHS` evaluations.

    The mean of the losses at x + sv and x − sv is gone by: the slope at x, which on one batch is mostly noise, cancels.

    Args:
        f: one sample.
        x: where from.
        v: a unit vector.
        radius: the probe radius: steps as short as that tell nothing.
    """
    value = float(f.value(x))

    def both_ways(s: float) -> tuple[float, float]:
        (above, rise), (below, fall) = at(f, x, v, s), at(f, x, v, -s)
        return (above + below) / 2.0, (rise - fall) / 2.0

    best = by_slopes(
        both_ways,
        value=value,
        first=max(4.0 * radius, FIRST_LENGTH * (vectors.norm(x) or 1.0)),
        max_evaluations=(policy.LENGTHS - 1) // 2,
        resolution=VALUE_ROUNDING * torch.finfo(x.dtype).eps * abs(value),
    )
    return SHARE_OF_BEST * best.length
