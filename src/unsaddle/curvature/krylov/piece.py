"""The search in the piece of f that x lies in, for functions with kinks: where no other search decides."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.curvature.along_kinks import along_kinks, nearest_along, rounding_level
from unsaddle.curvature.displaced import DisplacedFunction
from unsaddle.curvature.kinks import MOST_GRADIENTS, BetweenKinks, KinkMet, between_kinks, may_have_kinks
from unsaddle.curvature.krylov.attempts import FARTHEST
from unsaddle.curvature.krylov.certificate import KrylovCandidate
from unsaddle.curvature.krylov.quadratic import STEADY
from unsaddle.curvature.krylov.runs import run, settings_for
from unsaddle.curvature.result import Status
from unsaddle.curvature.search import Search
from unsaddle.measure.between_kinks import measured
from unsaddle.measure.direction import Measurement, symmetric_difference
from unsaddle.measure.jumps import MOST, Kinks, kinks_at, smallest_gradient, take_in
from unsaddle.measure.noise import FIRST_RADIUS, LOW_PRECISION_RADIUS, off_grid
from unsaddle.measure.survey import Survey
from unsaddle.measure.values import VALUE_ROUNDING, follow_gradients
from unsaddle.objective import SampledFunction

STEPS = 300
"""The most steps of the search."""

LENGTHS = (1.0, 0.25, 0.0625)
"""Shares of the radius of an earlier search at which values are asked for along its lowest direction."""

RAISED, LEVEL, ROUNDING = 3, 1.5, 3.0
"""Where no jump explains that two sides of x differ, so often at most such differences are let pass up to so many times
this one. Those above so many roundings are compared with γ in the end: the Hessian may jump there."""

KINK_GRADIENTS = 300
"""The most gradients that kinks through x take to be told apart, and 128 for what follows."""

RESTARTS = 16
"""A search along kinks begins again so often, each time with a kink more."""

CLEAR, STEEPER = 100.0, 1.5
"""Across a kink, f is looked at where its fall is so many roundings of a value. At half that distance its curvature is
twice as negative; by this factor at least."""

CHECKS = 8
"""Gradients that are kept for the checks of the result."""


def search_in_piece(search: Search, failed: KrylovCandidate, around: Survey) -> KrylovCandidate | None:
    """Searches the Hessian of the piece that x lies in; None if kinks leave no room, or that would not decide.

    A direction that is found is measured there. "Nothing" counts if products are symmetric and the same at another
    radius, and values do not fall along the lowest direction of the earlier search, which saw f beyond the kinks.

    Where x lies on kinks across which the gradient jumps, the search runs along them (`_along_kinks`). Where only the
    Hessian jumps, the pieces on both sides are searched, and "nothing" does not count.

    A function that computes in less than the precision of x looks like one with kinks: between two of its steps it
    lacks a part. Its values do not follow its gradients there. In float32 values are too coarse to tell, but half
    precision jumps by few units of its last digit. None is searched that may be such a function.
    """
    f_hat, x = search.f_hat, search.x
    if not search.affords(2 * MOST_GRADIENTS) or not may_have_kinks(f_hat, around):
        return None
    q = f_hat.product(vectors.random_direction(x, search.generator), FIRST_RADIUS[x.dtype] * (f_hat.x_norm or 1.0))
    length = vectors.norm(q)
    if not 0.0 < length < math.inf:
        return None
    jumps, low = _jumps(search, around), x.dtype == torch.float32
    if not jumps and (
        (low and around.nearest > 0.0) or not follow_gradients(f_hat.f, x, f_hat.x_norm, search.generator)
    ):
        return None
    q = q.div_(length)
    found = _along_kinks(search, q, failed, around, always=jumps or not low)
    if found is not None or around.narrow > 0.0:
        return found
    between = between_kinks(f_hat, q, search.generator)
    found = None if between is None else _searched(search, between, failed, around)
    if found is None and between is not None and between.side and search.affords(2 * MOST_GRADIENTS):
        other = between_kinks(f_hat, q, search.generator, sides=(-between.side,))
        found = None if other is None else _searched(search, other, failed, around)
    return found


def _jumps(search: Search, around: Survey) -> bool:
    """Whether gradients of float32 jump as at kinks, and not as in half precision. Two gradients, if the survey did not
    tell."""
    f_hat, x, size = search.f_hat, search.x, search.f_hat.x_norm or 1.0
    if around.jumps or x.dtype != torch.float32:
        return around.jumps
    v, radius = vectors.random_direction(x, search.generator), LOW_PRECISION_RADIUS * size
    above, below = (f_hat.f.grad_at_sum(x, v, sign * radius) - f_hat.grad0 for sign in (1.0, -1.0))
    return off_grid(above + below, vectors.norm(above - below) / (2.0 * radius) * size)


def _along_kinks(
    search: Search, q: Tensor, failed: KrylovCandidate, around: Survey, *, always: bool
) -> KrylovCandidate | None:
    """The search along the kinks that x lies on, if there are any, and between all others; None without answer.

    A kink across which f bends up is a valley: f rises on both sides of it, in proportion to the distance, and only
    what f does along it is left to decide (the U-Hessian of Lemaréchal, Oustry and Sagastizábal 2000). Not `always`:
    only if there are kinks through x.
    """
    f_hat, x, most = search.f_hat, search.x, min(MOST, search.dimension // 2, search.basis // 2)
    if not search.affords(KINK_GRADIENTS):
        return None
    rounding, radius = rounding_level(f_hat, search.generator), nearest_along(f_hat)
    level = rounding
    kinks, raised = kinks_at(f_hat.f, x, radius, level, search.generator, most), list[float]()
    for _ in range(RESTARTS if always or len(kinks) > 0 else 0):
        level = max(level, kinks.inexact)
        if any(kinks.down):
            return _down_across(search, kinks, failed, around)
        if len(kinks) > most or not search.affords(2 * MOST_GRADIENTS):
            return None
        v = kinks.along(q.clone())
        start = kinks.along(vectors.random_direction(x, search.generator))
        try:
            between = along_kinks(f_hat, v.div_(vectors.norm(v)), search.generator, level, kinks)
            found = _searched(search, between, failed, around, start.div_(vectors.norm(start)))
        except KinkMet as met:
            ways = [v * (2.0 * met.radius) for v in met.along]
            new = [way for way in ways if take_in(kinks, f_hat.f, x, way / -2.0, way, level)]
            if not new and (met.even == math.inf or len(raised) == RAISED):
                return None
            if not new:  # No jump: the Hessian may be another one beyond the kink.
                raised.append(met.even / (2.0 * met.radius) if met.even > ROUNDING * rounding else 0.0)
                level = LEVEL * met.even
            continue
        if found is not None and max(raised, default=0.0) > found.scale.gamma:
            return None
        if found is not None and len(kinks) > 0:
            least = smallest_gradient(f_hat.f, x, f_hat.grad0, kinks, radius)
            if math.isnan(least):
                return None
            scale = replace(found.scale, radius=min(radius, found.scale.radius))
            found = replace(found, kinks=len(kinks), gradient_norm=least, piece=radius, scale=scale)
        return found
    return None


def _down_across(search: Search, kinks: Kinks, failed: KrylovCandidate, around: Survey) -> KrylovCandidate | None:
    """The direction across a kink at x where f bends down: it falls there in proportion to the distance. None if
    gradients do not bend down over the shortest distance at which values can show the fall.

    The curvature told is how f bends over that distance. Nearer to x there is more of it.
    """
    f_hat = search.f_hat
    sizes = [vectors.norm(jump) if down else 0.0 for jump, down in zip(kinks.jumps, kinks.down, strict=True)]
    v, size = kinks.across(sizes.index(max(sizes))), f_hat.x_norm or 1.0
    rounding = VALUE_ROUNDING * torch.finfo(v.dtype).eps * abs(f_hat.value0)
    r = max(nearest_along(f_hat), CLEAR * rounding / max(sizes))
    if r > FARTHEST * size:
        return None
    near, far = (symmetric_difference(f_hat.f, f_hat.x, v, share * r) for share in (1.0, 2.0))
    if not far < 0.0 or not near < STEEPER * far:
        return None
    seen = Measurement(
        curvature=far, error=abs(far) / 2.0, radius=2.0 * r, samples=search.f.size, fresh=False, uneven=max(sizes)
    )
    found = replace(failed, vector=v, status=Status.FOUND, measured=seen, survey=around, jump=max(sizes))
    return replace(found, scale=replace(failed.scale, radius=2.0 * r), bound=math.inf)


def _searched(
    search: Search, between: BetweenKinks, failed: KrylovCandidate, around: Survey, start: Tensor | None = None
) -> KrylovCandidate | None:
    """What the search of one piece found; None if that would not decide."""
    if between.side == 0.0:
        return None
    settings = settings_for(
        search, num_steps=STEPS, noise=between.within.noise, smallest_radius=between.radius, between=between
    )
    found = run(search, settings, CHECKS, search.question.keep_history, start)
    found = replace(found, survey=around, piece=between.radius, jump=failed.jump)
    if found.exhausted or found.status not in (Status.FOUND, Status.NOTHING_FOUND):
        return None
    if between.side is not None and _gradient_jumps(search.f_hat, between.f_hat, found.scale.smoothness):
        return None
    if found.status is Status.FOUND:
        found = _measured(found, between)
        if not found.is_confirmed and found.vector is not None and between.within.kinks is not None:
            raise KinkMet((found.vector,), between.within.radius)
        return found if found.is_confirmed else None
    if between.side is not None:
        return None
    if not _is_hessian(found, between):
        if between.within.kinks is not None:
            raise KinkMet(found.deciding, between.within.radius)
        return None
    if _falls_beyond(search.f_hat, failed):
        return None
    wanted = search.question.seen_counts and found.lowest < -found.asymmetry - between.rounding
    seen = _measured(replace(found, vector=found.deciding[0].clone()), between) if wanted else found
    return seen if seen.is_confirmed else found


def _gradient_jumps(at: DisplacedFunction, beside: DisplacedFunction, smoothness: float) -> bool:
    """Whether the gradient jumps across the kink that x lies on, by more than curvature explains. Then f rises or falls
    there in proportion to the distance, and curvature does not decide. One gradient."""
    way = beside.x - at.x
    even = at.f.grad_at_sum(at.x, way, -1.0) + beside.grad0 - 2.0 * at.grad0
    return vectors.norm(even) > 4.0 * smoothness * vectors.norm(way)


def _measured(found: KrylovCandidate, between: BetweenKinks) -> KrylovCandidate:
    """The candidate, with the curvature along its vector measured between the kinks."""
    assert found.vector is not None
    v = found.vector.div_(vectors.norm(found.vector))
    at, smoothness = between.f_hat, found.scale.smoothness
    seen = measured(at.f, at.x, v, at.grad0, between.within, claimed=found.claimed, smoothness=smoothness)
    return replace(found, vector=v, measured=seen)


def _is_hessian(found: KrylovCandidate, between: BetweenKinks) -> bool:
    """Whether products were symmetric, and are the same at another radius along the lowest and the highest direction:
    up to γ/2 along the lowest one, up to a share of L1 along the highest."""
    scale = found.scale
    if found.asymmetry + between.jump > scale.gamma / 2.0:
        return False
    for v, claimed, allowed in (
        (found.deciding[0], found.lowest, scale.gamma / 2.0),
        (found.deciding[-1], scale.smoothness, STEADY * scale.smoothness),
    ):
        (seen,) = vectors.dots((v, between.again(v)))
        if not abs(abs(seen) - abs(claimed)) <= allowed:
            return False
    return True


def _falls_beyond(f_hat: DisplacedFunction, earlier: KrylovCandidate) -> bool:
    """Whether f bends down along the lowest direction of an earlier search, by values within its radius."""
    v = earlier.vector if earlier.vector is not None else next(iter(earlier.deciding), None)
    if v is None:
        return False
    v = v / vectors.norm(v)
    for share in LENGTHS:
        above, below = (_value(f_hat.f, f_hat.x, v, sign * share * earlier.scale.radius) for sign in (1.0, -1.0))
        rounding = VALUE_ROUNDING * torch.finfo(v.dtype).eps * (abs(above) + abs(below) + abs(f_hat.value0))
        if not above + below - 2.0 * f_hat.value0 >= -rounding:
            return True
    return False


def _value(f: SampledFunction, x: Tensor, v: Tensor, alpha: float) -> float:
    return float(f.value(torch.add(x, v, alpha=alpha)))
