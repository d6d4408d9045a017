"""The careful search: the gradients around x are surveyed, radii follow the noise, and "nothing" is checked."""

from __future__ import annotations

import math
from dataclasses import replace

from unsaddle.curvature.krylov.attempts import Attempt, Attempts, opened
from unsaddle.curvature.krylov.certificate import KrylovCandidate
from unsaddle.curvature.krylov.next_to_x import NextToX, look_next_to_x, out_of_budget
from unsaddle.curvature.krylov.over_kinks import search_over_kinks
from unsaddle.curvature.krylov.piece import search_in_piece
from unsaddle.curvature.krylov.quadratic import CHECK_GRADIENTS, checked
from unsaddle.curvature.krylov.runs import (
    gradient_error,
    measured_along,
    measured_between_kinks,
    run,
    values_bend_down,
    with_what_is_seen,
)
from unsaddle.curvature.krylov.steep import REST_GRADIENTS, error_among_kinks, leads_down, leads_far
from unsaddle.curvature.krylov.surroundings import SURVEY_GRADIENTS, surveyed
from unsaddle.curvature.result import Candidate, Status
from unsaddle.curvature.search import Inconclusive, Search
from unsaddle.measure import noise
from unsaddle.measure.survey import Survey

SAME_SIZE = 1.25
"""L1 over kinks and between them differ by this factor at most, if both are that of the function."""

ROUNDINGS = 3.0
"""What gradients differ by along a direction is noise up to so many σ."""

REPEATS = 10.0
"""If two gradients at the same point differ by more than this many σ, the function is not deterministic."""


def careful_search(search: Search) -> Candidate:
    """Searches, and checks that f is quadratic before it reports that nothing was found.

    The first radius follows from the precision of x alone. What is found there is measured, and needs no more. Else the
    gradients around x are surveyed, and attempts are made one after the other (`Attempts`). Each one that fails says
    why, and changes what is left: the next is nearer to x, from both sides, or as far out as the jumps that it met ask
    for. A direction that was measured over kinks is kept, and returned if none is found between them.
    """
    if not search.affords(SURVEY_GRADIENTS + CHECK_GRADIENTS):
        raise Inconclusive(Status.BUDGET_SPENT)
    radius_is_open = search.question.smallest_radius is None and gradient_error(search.f_hat) == 0.0
    around = surveyed(search) if search.question.survey_first or not radius_is_open else None
    near = look_next_to_x(search, around) if radius_is_open else NextToX()
    if near.answer is not None:
        return near.answer
    first, kept = near.left, None
    around = surveyed(search) if around is None else around
    if around.again is not None:  # The first gradient is that of a solver that had not moved.
        search.f_hat.renew(around.again)

    attempts, failed = Attempts(search, around, radius_is_open=radius_is_open), None
    if first is not None and first.is_confirmed:
        kept, first = replace(first, survey=around).with_jump(), None
        attempts.keep_between_kinks()
    if first is not None and first.vector is not None:  # It was measured already, and was not confirmed.
        failed, first = replace(first, survey=around).with_jump(), None
        attempts.learn(failed)
    # Where half precision may be inside, gradients alone do not make a point not stationary: the searches tell.
    may_end = search.question.ends_where_steep and not search.sampled
    may_end &= search.question.full_precision or not around.suspicious
    seen = kept or failed
    if may_end and seen is not None and leads_down(search, seen.scale.smoothness):
        return kept or _undecided(search, seen, attempts)
    only_first = search.question.first_attempt_only and not around.has_memory
    if only_first and seen is not None:
        return kept or _undecided(search, seen, attempts)
    may_lead_far = may_end and not around.has_memory
    if near.nothing is not None:
        found = _among_kinks(search, replace(near.nothing, survey=around), around, may_lead_far=may_lead_far)
        if found is not None:
            return found
        may_lead_far = False
    while attempts.left:
        if may_lead_far and failed is not None and failed.claimed is None and not attempts.are_between_kinks:
            may_lead_far, small = False, _small_gradient(search, around)
            if small < math.inf:
                return replace(failed, vector=None, status=Status.NOT_CONFIRMED, small_gradient=small)
        attempt = opened(search, attempts.left.pop(0))
        if attempt is None:
            continue
        reused, first = first if first is not None and attempts.allow(first) else None, None
        candidate = reused or run(search, attempt.settings, CHECK_GRADIENTS, search.question.keep_history)
        candidate = replace(candidate, scale=attempt.scale(candidate.scale), survey=around)
        if candidate.exhausted and not attempt.only_finds:
            if failed is not None:  # It has more to say, but excludes nothing.
                return replace(failed, vector=None, status=Status.BUDGET_SPENT, bound=math.inf)
            return out_of_budget(search, candidate, attempt.settings.central)
        if candidate.exhausted or candidate.status not in (Status.FOUND, Status.NOTHING_FOUND):
            if failed is None and not attempt.only_finds:
                return candidate
            continue  # Half precision is flat next to x.
        candidate, decided = _decided(search, candidate, attempt)
        if decided and not candidate.over_kinks and (kept is None or _same_size(kept, candidate)):
            return candidate
        if decided and kept is None:
            kept = candidate.with_jump()
            attempts.keep_between_kinks()
        elif not attempt.only_finds:
            failed = candidate.with_jump()
            attempts.learn(failed)
        if may_end and leads_down(search, (kept or candidate).scale.smoothness):
            return kept or _undecided(search, candidate, attempts)
        if only_first and (kept or failed) is not None:
            break
    if kept is not None:
        return kept
    assert failed is not None
    radius_is_open &= not only_first
    found = search_in_piece(search, failed, around) if radius_is_open else None
    if found is None and radius_is_open and search.question.seen_counts and not search.sampled:
        found = search_over_kinks(search, failed, around)
    return _undecided(search, failed, attempts) if found is None else found


def _small_gradient(search: Search, around: Survey) -> float:
    """The norm from which on the gradient leads far, if ∇f(x) is longer (`leads_far`); else inf."""
    exact = search.question.full_precision
    error = error_among_kinks(search.f_hat, replace(around, jumps=True) if exact else around)
    return leads_far(search.f_hat, error) if search.affords(REST_GRADIENTS) else math.inf


def _among_kinks(
    search: Search, nothing: KrylovCandidate, around: Survey, *, may_lead_far: bool
) -> KrylovCandidate | None:
    """The answer where nothing is below −γ next to x, between kinks: the gradient leads far, or how f bends over them.

    None where values do not bear that out: kinks are few, and large.
    """
    small = _small_gradient(search, around) if may_lead_far else math.inf
    if small < math.inf:
        return replace(nothing, status=Status.NOT_CONFIRMED, small_gradient=small)
    return search_over_kinks(search, nothing, around) if search.question.seen_counts else None


def _same_size(kept: KrylovCandidate, candidate: KrylovCandidate) -> bool:
    """Whether a search next to x and one over kinks see the same L1: if not, next to x there is noise, or a staircase.

    Kinks change the lowest curvature most. In a network, L1 is that of the Gauss-Newton term, on both sides of a kink.
    """
    sizes = kept.scale.smoothness, candidate.scale.smoothness
    return max(sizes) <= SAME_SIZE * min(sizes)


def _decided(search: Search, candidate: KrylovCandidate, attempt: Attempt) -> tuple[KrylovCandidate, bool]:
    """The candidate with what checks tell, and whether they bear it out: a direction is measured, "nothing" asks that
    f is quadratic."""
    f_hat, central, gap = search.f_hat, attempt.settings.central, attempt.settings.gap
    if attempt.only_finds and candidate.vector is None:
        return candidate, False
    if gap is not None:
        candidate = measured_between_kinks(f_hat, candidate, gap, doubtful=attempt.doubtful)
        return candidate, candidate.is_confirmed
    if candidate.vector is not None:
        candidate = measured_along(f_hat, candidate, to_the_ground=central and not attempt.narrow)
        # What bends values down is no noise of gradients.
        is_real = values_bend_down(f_hat, candidate) if attempt.narrow else not _is_noise(search, candidate)
        confirmed = candidate.is_confirmed and is_real
        return (replace(candidate, jump=attempt.met), True) if confirmed else (candidate, False)
    candidate, quadratic = checked(f_hat, candidate, central)
    if quadratic:
        return with_what_is_seen(search, candidate), True
    return replace(candidate, status=Status.NOT_QUADRATIC), False


def _is_noise(search: Search, candidate: KrylovCandidate) -> bool:
    """Whether the noise that the survey met explains the curvature, as that of a solver does next to x. That of kinks
    is none."""
    around, seen = candidate.survey, candidate.measured
    if around is None or seen is None or around.jumps or search.question.full_precision:
        return False
    return abs(seen.curvature) * seen.radius <= ROUNDINGS * around.noise


def _undecided(search: Search, failed: KrylovCandidate, attempts: Attempts) -> KrylovCandidate:
    """What the last attempt left, with the cause if it is not the function's shape."""
    f, x, radius = search.f_hat.f, search.x, failed.scale.radius
    if search.affords(2) and not noise.repeats(f, x, radius, REPEATS * attempts.noise, search.generator):
        return replace(failed, vector=None, status=Status.NOT_DETERMINISTIC)
    if attempts.too_coarse(failed.scale.gamma):
        known = failed.deciding if failed.vector is None else (failed.vector,)
        return replace(failed, vector=None, status=Status.PRECISION_TOO_LOW, deciding=known)
    return failed
