"""The search over kinks: how f bends over a distance that holds many of them. The last resort of a verdict.

In a network with ReLU or max-pooling that has come to rest, kinks lie nearer to x than its rounding. No Hessian can be
seen there. Over a thousandth of ‖x‖ they average out, products are nearly symmetric, and values tell whether f rises.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from unsaddle import vectors
from unsaddle.curvature.displaced import DisplacedFunction
from unsaddle.curvature.krylov.attempts import STEPS_BETWEEN_KINKS
from unsaddle.curvature.krylov.certificate import KrylovCandidate
from unsaddle.curvature.krylov.runs import run, settings_for
from unsaddle.curvature.krylov.steep import OVER_KINKS
from unsaddle.curvature.result import Status
from unsaddle.curvature.search import Search
from unsaddle.measure.direction import Measurement, symmetric_difference
from unsaddle.measure.survey import Survey

STEPS = 2 * STEPS_BETWEEN_KINKS
"""The most steps of the search, of two gradients each."""

CHECKS = 10
"""Gradients that check the result."""

RADII, LENGTHS = (0.5, 1.0, 2.0), (1.0, 2.0, 4.0)
"""Radii, in those of the search, at which the lowest direction is measured again, and lengths at which values are."""

NEARER = 0.1
"""At this share of the radius the highest curvature is the same if there are kinks; it is less than this share of it if
the Hessian is zero at x."""

EVEN = 0.1
"""Products may be asymmetric up to this share of L1. More of it is a few kinks, not the mean of many."""


def search_over_kinks(search: Search, failed: KrylovCandidate, around: Survey) -> KrylovCandidate | None:
    """What a search with products from both sides, over `OVER_KINKS` of ‖x‖, says; None if that is not borne out.

    A direction counts if the curvature along it is negative at half and twice the radius, too, and a value is lower.
    "Nothing" counts if along the lowest direction f bends up, at the radius and at twice that, and every value is
    higher. Only where gradients jump as at kinks: in half precision values cannot tell.
    """
    f_hat, x = search.f_hat, search.x
    are_kinks = around.jumps or search.question.full_precision
    if not are_kinks or around.has_memory or not search.affords(2 * STEPS + CHECKS):
        return None
    radius = OVER_KINKS * (f_hat.x_norm or 1.0)
    how = {"smallest_radius": radius, "largest_radius": radius, "central": True}
    found = run(search, settings_for(search, num_steps=STEPS, **how), CHECKS, search.question.keep_history)
    known = found.vector is not None or found.deciding
    if found.exhausted or not known or found.asymmetry > EVEN * found.scale.smoothness or _vanishes(f_hat, found):
        return None
    v = found.vector if found.vector is not None else found.deciding[0]
    v = v / vectors.norm(v)
    near, at, far = (symmetric_difference(f_hat.f, x, v, share * radius) for share in RADII)
    rises = _rises(f_hat, v, radius)
    found = replace(found, survey=replace(around, jumps=True), jump=max(failed.jump, found.asymmetry * radius))
    if found.status is Status.NOTHING_FOUND:
        bends_up = min(at, far) > -found.scale.gamma / 2.0
        return replace(found, upper=max(at, far)) if bends_up and all(rise > 0.0 for rise in rises) else None
    seen = Measurement(
        curvature=at,
        error=max(abs(near - at), abs(far - at)),
        radius=radius,
        samples=search.f.size,
        fresh=False,
        uneven=found.jump,
    )
    falls = any(rise < 0.0 for rise in rises) and max(near, at, far) < 0.0
    return replace(found, vector=v, measured=seen, bound=math.inf) if falls and seen.is_negative else None


def _vanishes(f_hat: DisplacedFunction, found: KrylovCandidate) -> bool:
    """Whether the highest curvature vanishes towards x: the Hessian is zero there, and these are no kinks. Four
    gradients."""
    v = found.deciding[-1] if found.deciding else found.vector
    assert v is not None
    near, far = (symmetric_difference(f_hat.f, f_hat.x, v, share * found.scale.radius) for share in (NEARER, 1.0))
    return abs(near) < NEARER * abs(far)


def _rises(f_hat: DisplacedFunction, v: torch.Tensor, radius: float) -> list[float]:
    """How far f rises to both sides along v; what is within the rounding of values is 0. Six values."""
    points = (torch.add(f_hat.x, v, alpha=sign * length * radius) for length in LENGTHS for sign in (1.0, -1.0))
    rises = [float(f_hat.f.value(point)) - f_hat.value0 for point in points]
    return [0.0 if abs(rise) <= f_hat.value_rounding else rise for rise in rises]
