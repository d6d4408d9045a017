"""How far F would fall if the gradient were followed to the end: what explains a soft negative curvature."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.measure.rest import STEPS, approaches
from unsaddle.objective import SampledFunction

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
    for count, at in enumerate(approaches(f, x, radius)):
        promised = at.fall + at.rest * (at.rest / (2.0 * softest))
        if promised < enough or at.rest == 0.0 or count == STEPS:
            return promised
    return math.inf


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
