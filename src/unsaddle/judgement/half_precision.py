"""Checks of a verdict by values, and by gradients farther out: half precision inside of F, and where F ends."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.curvature.result import Curvature
from unsaddle.judgement.judge import Kind
from unsaddle.measure import batches
from unsaddle.measure.noise import GRADIENT_ROUNDINGS, LOW_PRECISION_RADIUS, gradient_noise
from unsaddle.measure.values import VALUE_ROUNDING, follow_gradients
from unsaddle.objective import SampledFunction

BARRIER_LENGTHS = {torch.float64: 5, torch.float32: 2}
"""Distances, each a quarter of the last, at which values are to bear out a saddle that was seen from far off. Nearer to
x, a function in the next lower precision is flat."""

INNER_ROUNDING = {torch.float64: 4.0 * torch.finfo(torch.float32).eps, torch.float32: 0.0}
"""The rounding of a second difference of values that float32 computes behind float64, as a share of the value. That of
bfloat16 would hide every fall."""

PAIRS = 8
"""Pairs of gradients whose mean is taken where rounding hides whether the gradient is small."""

STAIRCASE = (
    "Gradients next to x and farther away contradict each other: a part of F is computed in a lower precision than x, "
    "or F changes within the distance that was probed. Switch autocast off, or compute all of F in float64, and pass x "
    "again."
)


def contradicts(
    f: SampledFunction, x: Tensor, found: Curvature, kind: Kind, excess: float, generator: torch.Generator
) -> bool:
    """Whether a look from the distance that bfloat16 resolves, or values next to x, contradict the verdict.

    A saddle that was seen from far off must be one by values nearer to x; one that was seen next to x must be one from
    far off. "Not stationary" must not be explained by rounding, `excess` being how far ‖∇F(x)‖ is above ε. Nothing is
    evaluated where nothing is suspicious.
    """
    around = found.survey
    if around is None or kind is Kind.UNDECIDED or found.piece > 0.0:  # There, values follow gradients.
        return False
    if kind is Kind.SADDLE and around.nearest > 0.0:
        assert found.direction is not None
        noise = found.noise * (vectors.norm(x) or 1.0)  # of a value, in the precision that the gradient shows
        noise += INNER_ROUNDING[x.dtype] * abs(float(f.value(x)))
        return has_barrier(f, x, found.direction, found.measurements[0].radius, BARRIER_LENGTHS[x.dtype], noise)
    if not around.suspicious:
        return False
    far = LOW_PRECISION_RADIUS * (vectors.norm(x) or 1.0)
    if kind is Kind.SADDLE:
        assert found.direction is not None
        rise = f.grad(torch.add(x, found.direction, alpha=far)).clone()
        rise.sub_(f.grad(torch.sub(x, found.direction, alpha=far)))
        return not vectors.dots((found.direction, rise))[0] < 0.0
    if kind is Kind.NOT_STATIONARY:
        if x.dtype == torch.float64 and not around.broken:  # Products agree, so nothing coarser than float32 is inside.
            return GRADIENT_ROUNDINGS * around.noise >= excess
        beyond = gradient_noise(f.grad, x, vectors.norm(x), f.grad(x).clone(), generator, LOW_PRECISION_RADIUS)
        return GRADIENT_ROUNDINGS * beyond.noise >= excess
    return False


def steps_next_to_x(f: SampledFunction, x: Tensor, found: Curvature, generator: torch.Generator) -> bool:
    """Whether "nothing" was found within a step of a staircase: products farther out differ, and values next to x do
    not follow gradients. Nothing is evaluated where products agree."""
    around = found.survey
    if around is None or around.steady or around.drowned or around.nearest > 0.0 or around.has_memory:
        return False
    if found.piece > 0.0 or around.jumps:  # These are kinks.
        return False
    return not follow_gradients(f, x, vectors.norm(x), generator, found.radius)


def averaged_gradient(f: SampledFunction, x: Tensor, generator: torch.Generator) -> batches.SampledGradient:
    """∇f(x) as the mean over pairs of points x ± u, u random and so long that half precision rounds afresh.

    The linear part cancels in each pair. What the pairs differ by is the error. Cost: two gradients a pair.
    """

    def pairs() -> Iterator[tuple[int, Tensor]]:
        for _ in range(PAIRS):
            u = vectors.normal(x, generator).mul_(x).mul_(LOW_PRECISION_RADIUS)
            yield 1, f.grad(x + u).clone().add_(f.grad(x - u)).div_(2.0)

    return batches.mean_gradient(pairs())


def ends_within(f: SampledFunction, x: Tensor, found: Curvature) -> bool:
    """Whether F is not finite where the curvature was measured, and is at x. Gradients may be finite there: that of a
    logarithm is, beyond 0. Up to three values."""
    assert found.direction is not None
    points = [torch.add(x, found.direction, alpha=sign * found.measurements[0].radius) for sign in (1.0, -1.0)]
    # A solver inside that diverged once may be NaN everywhere.
    return not all(math.isfinite(float(f.value(point))) for point in points) and math.isfinite(float(f.value(x)))


def values_rise(f: SampledFunction, x: Tensor, found: Curvature) -> bool:
    """Whether values rise along the direction at the shortest length where they ought to be seen to fall."""
    assert found.direction is not None
    rounding = VALUE_ROUNDING * torch.finfo(x.dtype).eps * abs(float(f.value(x)))
    length = max(4.0 * found.radius, math.sqrt(8.0 * rounding / abs(found.curvature)))
    return has_barrier(f, x, found.direction, length, 1)


def has_barrier(f: SampledFunction, x: Tensor, v: Tensor, radius: float, lengths: int, noise: float = 0.0) -> bool:
    """Whether f(x + sv) + f(x − sv) > 2f(x) at some s ≤ radius, beyond rounding and noise: no saddle along v then.

    Gradients from the radius on cannot tell a staircase from structure that is narrower. Values within it can.
    """
    here = float(f.value(x))
    for k in range(lengths):
        above, below = (float(f.value(torch.add(x, v, alpha=sign * radius / 4.0**k))) for sign in (1.0, -1.0))
        rounding = VALUE_ROUNDING * torch.finfo(x.dtype).eps * (abs(here) + abs(above) + abs(below))
        if not above + below - 2.0 * here <= rounding + noise:  # NaN is beyond the end of f.
            return True
    return False
