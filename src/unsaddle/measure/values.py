"""Whether values change as gradients say. Next to x, those of a function in less than the precision of x do not."""

from __future__ import annotations

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.measure.noise import FIRST_RADIUS
from unsaddle.objective import SampledFunction

VALUE_ROUNDING = 16.0
"""Rounding of a computed value, in units of precision·size: some for the sum, some for the formula."""

ASIDE, POINTS = 1e-3, 2
"""Values are compared with gradients at so many random points, this share of ‖x‖ from x: there a gradient is not zero,
and its slope is above the rounding of values."""

SAME_SLOPE = 0.25
"""The slope of values may differ from that of gradients by this share: a few kinks may lie between them."""

CLEAR = 100.0
"""Values are taken so far apart that their difference is so many roundings."""


def follow_gradients(
    f: SampledFunction, x: Tensor, x_norm: float, generator: torch.Generator, radius: float = 0.0
) -> bool:
    """Whether values change along the gradient as it says, at random points a little off x, over `radius` at least.

    A function that rounds x to a lower precision is constant between two steps, and its gradient is not zero there. A
    kink, as of ReLU, changes a slope, but values follow it. Where values are too coarse to tell, they count as
    following. Cost: two gradients, and four values.

    >>> from unsaddle import Function
    >>> g = torch.Generator().manual_seed(0)
    >>> x = torch.randn(20, generator=g).double()
    >>> follow_gradients(Function(lambda x: x.relu().sum()).sample(), x, float(x.norm()), g)
    True
    """
    size = x_norm or 1.0
    for _ in range(POINTS):
        there = torch.add(x, vectors.random_direction(x, generator), alpha=ASIDE * size)
        value, grad = f.value_and_grad(there)
        grad, slope = grad.clone(), vectors.norm(grad)
        rounding = VALUE_ROUNDING * torch.finfo(x.dtype).eps * abs(float(value))
        if slope == 0.0:
            continue
        apart = max(CLEAR * rounding / slope, FIRST_RADIUS[x.dtype] * size, radius)
        if apart > ASIDE * size:
            continue
        above, below = (float(f.value(torch.add(there, grad, alpha=sign * apart / slope))) for sign in (1.0, -1.0))
        if not abs(above - below - 2.0 * apart * slope) <= SAME_SLOPE * 2.0 * apart * slope:
            return False
    return True
