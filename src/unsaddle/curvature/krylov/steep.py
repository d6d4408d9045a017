"""Whether the gradient at x clearly leads down, so that a verdict needs no search among kinks."""

from __future__ import annotations

import torch

from unsaddle.curvature.search import Search
from unsaddle.measure.values import VALUE_ROUNDING
from unsaddle.theory.quadratics import stationary_gradient

CLEARLY = 1.25
"""The gradient is clearly not small if it is so many times what counts as zero."""

LENGTH = 1e-3
"""Values are to fall over this share of max(1, ‖x‖): a gradient that is not small asks for a longer step."""

HALF = 0.5
"""F has to fall by this share of what the gradient promises over that length. With a curvature of L1 along it, it falls
by more; across a kink that x lies beside, F rises."""


def leads_down(search: Search, smoothness: float) -> bool:
    """Whether ‖∇f(x)‖ is clearly above ε = 1e-3·L1·max(1, ‖x‖), and f falls along it as it promises. One value.

    The value makes it sure. L1 may be off where gradients jump, and at a kink the gradient is not small on either side
    of a minimum.
    """
    f_hat = search.f_hat
    slope = f_hat.grad_norm
    if not slope > CLEARLY * stationary_gradient(smoothness=smoothness, x_norm=f_hat.x_norm):
        return False
    length = LENGTH * max(1.0, f_hat.x_norm)
    fall = f_hat.value0 - float(f_hat.f.value(torch.sub(f_hat.x, f_hat.grad0, alpha=length / slope)))
    rounding = VALUE_ROUNDING * torch.finfo(f_hat.x.dtype).eps * abs(f_hat.value0)
    return fall - rounding >= HALF * length * slope
