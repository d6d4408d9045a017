"""Second looks, before a verdict is given: whether gradients farther out, or once more, contradict it."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.cost import Ledger
from unsaddle.curvature.result import Curvature
from unsaddle.judgement.judge import Kind
from unsaddle.measure.noise import (
    LOW_PRECISION_RADIUS,
    LOW_PRECISION_SHIFT,
    GradientNoise,
    gradient_noise,
    is_low_precision,
)
from unsaddle.objective import Objective, SampledFunction

ROUNDINGS = 3.0
"""The rounding of ∇F(x) is taken to be at most this many times σ, which is an estimate from two points."""

REPEATS = 10.0
"""Two gradients at the same point that differ by more than so many σ are those of two functions."""

COARSE = 2.0
"""A gradient that changes this many times faster at a thousandth of ‖x‖ than at the probe radius was not seen right."""

ROUGH = 100.0
"""Where the noise of a gradient at a thousandth of ‖x‖ is so many times that next to x, or where"""

HALF_PRECISION = 0.5
"""this share of its entries has the trailing zeros of half precision, a saddle has to be one farther out, too."""

STAIRCASE = (
    "Gradients farther from x contradict those at the resolution: they are computed in less than float32, or there is "
    "structure of that width. Switch autocast off, or use float64."
)


def coarse_noise(
    objective: Objective, x: Tensor, samples: int | None, generator: torch.Generator, ledger: Ledger
) -> GradientNoise | None:
    """What gradients show at the distance that half precision resolves; None at x = 0, near which it resolves all.

    A function that computes in half precision inside a float32 interface is a staircase. Within a step its gradient
    seems exact, and its Hessian that of what float32 was left with, a weight decay for one. Three gradients.
    """
    x_norm = vectors.norm(x)
    if x_norm == 0.0:
        return None
    f = objective.sample(samples, generator, ledger=ledger)
    coarse = gradient_noise(f.grad, x, x_norm, f.grad(x).clone(), generator, LOW_PRECISION_SHIFT)
    return coarse if math.isfinite(coarse.noise + coarse.curvature) else None  # The domain may end so far away.


def is_staircase(
    f: SampledFunction,
    x: Tensor,
    found: Curvature,
    coarse: GradientNoise,
    kind: Kind,
    excess: float,
    generator: torch.Generator,
) -> bool:
    """Whether the verdict is one on the steps of half precision, as far as gradients farther out tell.

    A minimum or a slope: the Hessian at a thousandth of ‖x‖ is not the one that was seen. A slope: its excess over ε is
    rounding, measured where bfloat16 rounds afresh. A saddle: the curvature is not negative there.
    """
    far = LOW_PRECISION_RADIUS * vectors.norm(x)
    if kind is Kind.SADDLE:
        assert found.direction is not None
        above = f.grad(torch.add(x, found.direction, alpha=far)).clone()
        suspicious = is_low_precision(above, HALF_PRECISION) or coarse.noise > ROUGH * found.noise
        below = f.grad(torch.sub(x, found.direction, alpha=far))
        return suspicious and not vectors.dots((found.direction, above.sub_(below)))[0] < 0.0
    if coarse.curvature > COARSE * found.smoothness:
        return True
    if kind is Kind.MINIMUM:
        return False
    beyond = gradient_noise(f.grad, x, vectors.norm(x), f.grad(x).clone(), generator, LOW_PRECISION_RADIUS)
    return ROUNDINGS * beyond.noise >= excess


def repeats(
    objective: Objective, x: Tensor, found: Curvature, samples: int | None, generator: torch.Generator, ledger: Ledger
) -> bool:
    """Whether F_S answers the same twice next to x. At x itself the noise of dropout can vanish, with the gradient."""
    f = objective.sample(samples, generator, ledger=ledger)
    y = vectors.random_direction(x, generator).mul_(found.radius).add_(x)
    once = f.grad(y).clone()
    return vectors.norm(f.grad(y) - once) <= REPEATS * found.noise
