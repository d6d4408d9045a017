"""The look next to x: a search at the first radius, which follows from the precision of x alone."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import torch

from unsaddle.curvature.krylov.attempts import STEPS
from unsaddle.curvature.krylov.certificate import KrylovCandidate
from unsaddle.curvature.krylov.quadratic import CHECK_GRADIENTS, checked
from unsaddle.curvature.krylov.runs import measured_along, run, settings_for, with_what_is_seen
from unsaddle.curvature.krylov.surroundings import allows
from unsaddle.curvature.result import Status
from unsaddle.curvature.search import Search
from unsaddle.measure.noise import FIRST_RADIUS
from unsaddle.measure.survey import Survey

BETWEEN_KINKS = 1e-2
"""Where there are kinks within the first radius, this share of it may lie between them. float64 has room for it."""


class NextToX(NamedTuple):
    """What the look next to x has shown."""

    answer: KrylovCandidate | None = None
    """A direction that was measured, or the end of the budget: nothing is left to do."""
    left: KrylovCandidate | None = None
    """Else the search that may be of use: it found nothing, or what it found was not confirmed, or is over kinks."""
    nothing: KrylovCandidate | None = None
    """The same if it found nothing where F is quadratic, between kinks."""


def look_next_to_x(search: Search, around: Survey | None) -> NextToX:
    """Searches next to x, if the survey allows it. What is found there is measured, and needs no more.

    Where F computes in the precision of x all through, the survey does not count: whatever the gradients do farther
    out, they do at kinks. Then a search nearer to x, between these, may follow.
    """
    exact, left = search.question.full_precision, None
    allowed = around is None or allows(around, search, FIRST_RADIUS[search.x.dtype])
    for share in (1.0, BETWEEN_KINKS) if exact else (1.0,) if allowed else ():
        left = _at_first_radius(search, share)
        if left is None:
            break
        if left.status is Status.BUDGET_SPENT:
            return NextToX(answer=replace(out_of_budget(search, left, central=False), survey=around))
        if left.vector is None and (allowed or not search.affords(CHECK_GRADIENTS)):
            break
        if left.vector is None:
            left, quadratic = checked(search.f_hat, left, central=False)
            if quadratic:
                return NextToX(left=left, nothing=left)
        elif not left.over_kinks:
            if left.is_confirmed and (allowed or left.claimed is not None):
                piece = 0.0 if allowed and share == 1.0 else left.scale.radius
                return NextToX(answer=replace(left, survey=around, piece=piece))
            break
    # Products that are not symmetric are not of a Hessian, nor of the gradient of F.
    useful = left is not None and (allowed or left.claimed is not None)
    return NextToX(left=left if useful else None)


def _at_first_radius(search: Search, share: float) -> KrylovCandidate | None:
    """The search at this share of the first radius, with what it found measured; None without answer."""
    f_hat, eps = search.f_hat, torch.finfo(search.x.dtype).eps
    radius = share * (FIRST_RADIUS[search.x.dtype] * f_hat.x_norm if f_hat.x_norm > 0.0 else math.sqrt(eps))
    settings = settings_for(search, num_steps=STEPS, smallest_radius=radius)
    candidate = run(search, settings, CHECK_GRADIENTS, search.question.keep_history)
    if candidate.status is Status.BUDGET_SPENT:
        return candidate
    if candidate.exhausted or candidate.status not in (Status.FOUND, Status.NOTHING_FOUND):
        return None
    rounding = eps * (f_hat.grad_norm + candidate.scale.smoothness * f_hat.x_norm)
    candidate = replace(candidate, scale=replace(candidate.scale, noise=rounding))
    return candidate if candidate.vector is None else measured_along(f_hat, candidate, not search.question.survey_first)


def out_of_budget(search: Search, candidate: KrylovCandidate, central: bool) -> KrylovCandidate:
    """A search that the budget ended. What it has seen and excluded so far counts if f is quadratic."""
    quadratic = False
    if candidate.deciding:
        candidate, quadratic = checked(search.f_hat, candidate, central)
    if not quadratic:
        return replace(candidate, status=Status.BUDGET_SPENT, bound=math.inf)
    seen = with_what_is_seen(search, candidate)
    return replace(seen, status=Status.BUDGET_SPENT if seen.vector is None else Status.FOUND)
