"""Checks before a verdict is given: do gradients farther out, or repeated ones, contradict it?"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.cost import Ledger
from unsaddle.curvature.displaced import VALUE_ROUNDING
from unsaddle.curvature.result import Curvature
from unsaddle.judgement.judge import Kind
from unsaddle.measure import noise
from unsaddle.measure.noise import GradientNoise, gradient_noise
from unsaddle.objective import Objective, SampledFunction
from unsaddle.theory.quadratics import gradient_noise as gradient_rounding

ROUNDINGS = 3.0
"""The rounding of ∇F(x) is taken to be at most this many σ, as σ is an estimate from two points."""

REPEATS = 10.0
"""If two gradients at the same point differ by more than this many σ, the function is not deterministic."""

COARSE = 2.0
"""A Hessian this many times larger at a thousandth of ‖x‖ than at the probe radius contradicts the verdict."""

ROUGH, HALF_PRECISION = 100.0, 0.5
"""A saddle must be one farther out, too, if the noise at a thousandth of ‖x‖ is ROUGH times that next to x, or if more
than the share HALF_PRECISION of a gradient's entries has the trailing zeros of half precision."""

STAIRCASE = (
    "Gradients farther from x contradict those at the resolution: they are computed in less than the precision of x, "
    "or there is structure of that width. Switch autocast off, or compute in float64 throughout."
)


def coarse_noise(
    objective: Objective, x: Tensor, samples: int | None, generator: torch.Generator, ledger: Ledger
) -> GradientNoise | None:
    """The noise and the size of the Hessian at a distance that a lower precision resolves. Three gradients.

    A function that computes in a lower precision than that of x is a staircase. Within a step its gradient seems exact,
    and its Hessian is that of the terms left in the precision of x, such as a weight decay. None if x = 0, near which
    every precision resolves everything, or if the function is not finite at that distance.
    """
    x_norm = vectors.norm(x)
    if x_norm == 0.0:
        return None
    f = objective.sample(samples, generator, ledger=ledger)
    if x.dtype == torch.float32:
        coarse = gradient_noise(f.grad, x, x_norm, f.grad(x).clone(), generator, noise.LOW_PRECISION_SHIFT)
    else:
        coarse = _by_relative_shift(f, x, generator)
    return coarse if math.isfinite(coarse.noise + coarse.curvature) else None


def _by_relative_shift(f: SampledFunction, x: Tensor, generator: torch.Generator) -> GradientNoise:
    """`gradient_noise`, with every variable shifted by about a thousandth of itself, as rounding shifts it.

    Variables of very different sizes then all stay where they belong.
    """
    s = vectors.normal(x, generator).mul_(x).mul_(noise.LOW_PRECISION_SHIFT)
    here, above, below = f.grad(x).clone(), f.grad(x + s).clone(), f.grad(x - s)
    first, second = vectors.norm(above - below), vectors.norm(above + below - 2.0 * here)
    size = first / (2.0 * vectors.norm(s))
    return GradientNoise(noise=second / math.sqrt(6.0), curvature=size, drowned=first < 2.0 * second)


def is_flatter_near_x(found: Curvature, coarse: GradientNoise) -> bool:
    """Whether the Hessian is much larger at a thousandth of ‖x‖ than the search saw next to x.

    A function that computes in a lower precision than that of x is a staircase, and flat on each of its steps.
    """
    return coarse.curvature > COARSE * found.smoothness


def has_barrier(f: SampledFunction, x: Tensor, v: Tensor, radius: float, lengths: int) -> bool:
    """Whether f(x + sv) + f(x − sv) > 2f(x), beyond rounding, at a distance s up to the radius: no saddle along v then.

    Gradients from the radius on cannot tell a staircase from structure that is narrower. Values within it can.
    """
    here = float(f.value(x))
    for k in range(lengths):
        above, below = (float(f.value(torch.add(x, v, alpha=sign * radius / 4.0**k))) for sign in (1.0, -1.0))
        rounding = VALUE_ROUNDING * torch.finfo(x.dtype).eps * (abs(here) + abs(above) + abs(below))
        if above + below - 2.0 * here > rounding:
            return True
    return False


def is_staircase(
    f: SampledFunction,
    x: Tensor,
    found: Curvature,
    coarse: GradientNoise,
    kind: Kind,
    excess: float,
    generator: torch.Generator,
) -> bool:
    """Whether gradients farther out show that half precision misled the verdict.

    Saddle: the curvature is not negative farther out. Other kinds: the Hessian is larger at a thousandth of ‖x‖. Not
    stationary: rounding, measured where bfloat16 rounds afresh, explains the excess of the gradient over ε.
    """
    far = noise.LOW_PRECISION_RADIUS * vectors.norm(x)
    if kind is Kind.SADDLE:
        assert found.direction is not None
        above = f.grad(torch.add(x, found.direction, alpha=far)).clone()
        rounding = gradient_rounding(
            dtype=x.dtype, grad_norm=found.gradient_norm, smoothness=found.smoothness, x_norm=vectors.norm(x)
        )
        usual = max(found.noise, rounding)
        suspicious = noise.is_low_precision(above, HALF_PRECISION) or coarse.noise > ROUGH * usual
        below = f.grad(torch.sub(x, found.direction, alpha=far))
        return suspicious and not vectors.dots((found.direction, above.sub_(below)))[0] < 0.0
    if kind is Kind.MINIMUM:
        return False
    beyond = gradient_noise(f.grad, x, vectors.norm(x), f.grad(x).clone(), generator, noise.LOW_PRECISION_RADIUS)
    return ROUNDINGS * beyond.noise >= excess


def repeats(
    objective: Objective, x: Tensor, found: Curvature, samples: int | None, generator: torch.Generator, ledger: Ledger
) -> bool:
    """Whether F_S gives the same gradient twice next to x. At x itself the noise of dropout can vanish."""
    f = objective.sample(samples, generator, ledger=ledger)
    y = vectors.random_direction(x, generator).mul_(found.radius).add_(x)
    once = f.grad(y).clone()
    return vectors.norm(f.grad(y) - once) <= REPEATS * found.noise
