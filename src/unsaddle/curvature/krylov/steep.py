"""Whether the gradient at x clearly leads down, or far, so that a verdict needs no search among kinks."""

from __future__ import annotations

import math

import torch

from unsaddle import vectors
from unsaddle.curvature.displaced import DisplacedFunction
from unsaddle.curvature.search import Search
from unsaddle.measure.noise import GRADIENT_ROUNDINGS
from unsaddle.measure.rest import MUCH, small_gradient
from unsaddle.measure.survey import Survey
from unsaddle.theory.quadratics import stationary_gradient

CLEARLY = 1.25
"""The gradient is clearly not small if it is so many times what counts as zero."""

LENGTH = 1e-3
"""Values are to fall over this share of max(1, ‖x‖): a gradient that is not small asks for a longer step."""

HALF = 0.5
"""F has to fall by this share of what the gradient promises over that length. With a curvature of L1 along it, it falls
by more; across a kink that x lies beside, F rises."""

PROMISED = 10.0
"""A fall is the gradient's if it is at most so many times what a straight line promises."""

OVER_KINKS = 3e-3
"""Differences of gradients over this share of ‖x‖ see how f bends beyond its nearest kinks. In trained networks of
convolutions, with ReLU and max-pooling, products are most symmetric at 1e-3 to 3e-3, in float32 and in float64."""

DOWN, NEAREST = (1e-4, 3e-4, 1e-3, 3e-3), 3e-5
"""Shares of max(1, ‖x‖) at which f is asked for along its gradient; nearer ones do not count. Networks with batch norm
are so narrow that half of their loss may lie within the second."""

REST_GRADIENTS = 21
"""Gradients that `leads_far` takes, at most."""


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
    return fall - f_hat.value_rounding >= HALF * length * slope


def leads_far(f_hat: DisplacedFunction, error: float) -> float:
    """The norm from which on a gradient leads far, or far down, if ∇f(x) is longer; else inf. Values decide.

    f falls by `MUCH` of itself along −∇f(x), or the way to rest is long, beyond the nearest kinks (`measure/rest.py`).
    Either way no curvature at x is needed, which kinks may hide. `error` is that of ∇f(x).
    """
    norm = f_hat.grad_norm
    if norm <= error:
        return math.inf
    small = _falls_much(f_hat)
    if small == math.inf:
        radius = OVER_KINKS * (f_hat.x_norm or 1.0)
        small = small_gradient(f_hat.f, f_hat.x, radius=radius, eps=norm, error=error)
    if not small < norm - error:
        return math.inf
    again = float(f_hat.f.value(f_hat.x))  # That of a solver which starts where it ended may have fallen by itself.
    return small if abs(again - f_hat.value0) <= f_hat.value_rounding else math.inf


def error_among_kinks(f_hat: DisplacedFunction, around: Survey) -> float:
    """The error of ∇f(x): jumps at kinks are none, other noise is.

    L1, which bounds its rounding, is up to √d times the product along a random direction.
    """
    largest = math.sqrt(vectors.dimension(f_hat.x)) * around.curvature
    rounding = torch.finfo(f_hat.x.dtype).eps * (f_hat.grad_norm + largest * f_hat.x_norm)
    return GRADIENT_ROUNDINGS * max(rounding, 0.0 if around.jumps else around.noise)


def _falls_much(f_hat: DisplacedFunction) -> float:
    """The norm at which f would fall by `MUCH` no farther than `NEAREST` away; inf if it does not fall by that.

    On the opposite side f may not fall by half as much: there a kink or curvature would make the fall. Nor may it fall
    by far more than the gradient promises: there a kink farther out would. Six values.
    """

    def fall(share: float) -> float:
        length = share * max(1.0, f_hat.x_norm) / f_hat.grad_norm
        return f_hat.value0 - float(f_hat.f.value(torch.sub(f_hat.x, f_hat.grad0, alpha=length)))

    for share in DOWN:
        fallen = fall(share)
        promised = share * max(1.0, f_hat.x_norm) * f_hat.grad_norm
        much = fallen > max(f_hat.value_rounding, MUCH * abs(f_hat.value0))
        if much and fallen <= PROMISED * promised and fall(-share) < fallen / 2.0:
            return f_hat.grad_norm * NEAREST / share
    return math.inf
