"""How far F would fall if the gradient were followed to the end: what explains a soft negative curvature."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.measure.values import VALUE_ROUNDING
from unsaddle.objective import SampledFunction

STEPS = 20
"""The most gradients that are spent on the promise."""

FAR = 0.1
"""A gradient is not small if the lowest point along it is farther away than this share of max(1, ‖x‖)."""

FARTHER = (4.0, 16.0)
"""Lengths in units of the distance to the lowest point of the quadratic along the gradient. At the first, a quadratic
is higher than at x. At the second, xᵏ is, for k up to 8."""

FAR_FROM_REST = (
    "The gradient is small beside the highest curvature, but F is so soft along it, or flattens out so soon, that its "
    "lowest point is far away: follow the gradient, or pass eps."
)

NEARER = (1.0, 0.25, 0.0625, 0.015625)
"""Shares of a distance at which F is asked for along the gradient."""

BETTER_WAY = (
    "The gradient is small beside the highest curvature, but it is the better way down: F falls by "
    "{along_gradient:.2g} along it, and by {along_direction:.2g} along the direction of negative curvature, "
    "{curvature:.4g}, within the same distance. Follow the gradient, or pass eps."
)


def gradient_promise(f: SampledFunction, x: Tensor, *, softest: float, radius: float, enough: float) -> float:
    """About gᵀH⁺g/2 with g = ∇f(x), by conjugate gradients on differences; inf if they meet negative curvature.

    What is left of g after a step may lie along a direction as soft as the softest, so ‖rest‖²/(2·softest) is added.
    That shrinks from step to step. Ends once the sum is below `enough`. Cost: one gradient, and one a step.

    >>> import torch
    >>> from unsaddle import Function
    >>> f = Function(lambda x: 5e3 * x[0] ** 2 - 25.0 * x[1] ** 2)
    >>> x = torch.tensor([5e-4, 0.0], dtype=torch.float64)
    >>> round(gradient_promise(f.sample(), x, softest=50.0, radius=1e-8, enough=0.1), 5)
    0.00125
    """
    g = f.grad(x).clone()
    rest, way = g.clone(), g.neg()
    (left,) = vectors.dots((rest, rest))
    fall = 0.0
    for _ in range(STEPS):
        promised = fall + left / (2.0 * softest)
        if promised < enough or left == 0.0:
            return promised
        scale = radius / vectors.norm(way)
        product = f.grad_at_sum(x, way, scale).clone().sub_(g).div_(scale)
        (curvature,) = vectors.dots((way, product))
        if not curvature > 0.0:
            return math.inf
        step = left / curvature
        fall += step * left / 2.0
        rest.add_(product, alpha=step)
        (new,) = vectors.dots((rest, rest))
        way.mul_(new / left).sub_(rest)
        left = new
    return fall + left / (2.0 * softest)


def small_along_itself(f: SampledFunction, x: Tensor, radius: float) -> float:
    """The norm up to which ∇f(x) leads to a point nearby, by the curvature c along it; inf if that is not positive.

    A stiff direction makes every gradient look small beside L1. One that is small may lead far down all the same, where
    the curvature falls off, as that of a logarithm. So values farther along it are asked for, too: if they fall by more
    than the ‖∇f(x)‖²/(2c) of a quadratic, no gradient near this one is small. Cost: two gradients and three values.

    >>> import torch
    >>> from unsaddle import Function
    >>> f = Function(lambda x: 5e3 * x[0] ** 2 + (x[1] - 1.0) ** 2 / 2.0)
    >>> round(small_along_itself(f.sample(), torch.tensor([0.0, 9.0], dtype=torch.float64), 1e-8), 5)
    0.9
    """
    g = f.grad(x).clone()
    size = vectors.norm(g)
    if size == 0.0:
        return math.inf
    (rise,) = vectors.dots((g, f.grad_at_sum(x, g, radius / size).clone().sub_(g)))
    if not rise > 0.0:
        return math.inf
    curvature, here = rise / (radius * size), float(f.value(x))
    promised = size * (size / (2.0 * curvature)) + VALUE_ROUNDING * torch.finfo(x.dtype).eps * abs(here)
    farther = (float(f.value(torch.sub(x, g, alpha=times / curvature))) for times in FARTHER)
    if all(here - value > promised for value in farther):
        return size / FARTHER[-1]
    return FAR * curvature * max(1.0, vectors.norm(x))


def fall_along_gradient(f: SampledFunction, x: Tensor, distance: float) -> float:
    """How far F falls against its gradient within a distance, by the best of four values; 0 if none is lower.

    >>> import torch
    >>> from unsaddle import Function
    >>> f = Function(lambda x: (x[0] - 1.0) ** 2)
    >>> fall_along_gradient(f.sample(), torch.zeros(1, dtype=torch.float64), 4.0)
    1.0
    """
    g = f.grad(x).clone()
    size = vectors.norm(g)
    if not 0.0 < size < math.inf:
        return 0.0
    here = float(f.value(x))
    falls = [here - float(f.value(torch.sub(x, g, alpha=share * distance / size))) for share in NEARER]
    return max([0.0, *(fall for fall in falls if math.isfinite(fall))])
