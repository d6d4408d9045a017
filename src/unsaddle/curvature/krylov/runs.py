"""Runs of the Krylov search, and measurements of what they found: what the quick and the careful search share."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.curvature.displaced import DisplacedFunction
from unsaddle.curvature.krylov.certificate import SURE, KrylovCandidate, KrylovSettings, krylov
from unsaddle.curvature.question import RELATIVE_GAMMA
from unsaddle.curvature.search import Search
from unsaddle.measure.between_kinks import Gap, excludes_stairs, holds_far_out, measured
from unsaddle.measure.direction import on_same_sample

FEW_DIMENSIONS = 10
"""In so few dimensions a search goes on until every eigenvalue is known."""

FINE = 1e-2
"""A search that may go farther ends once curvature below −`FINE`·γ is excluded: by default 1e-4·L1."""

OPEN = 1e-7
"""In few dimensions a lowest curvature whose sign is within the error of the products is measured, if that error is
above this share of L1, which rounding does not explain in float64."""

BETWEEN_KINKS = 4
"""Gradients of a product between kinks: two, and two more where it has to come nearer to x, which is every other time
at most."""


def settings_for(search: Search, **how: Any) -> KrylovSettings:
    """Settings for the γ that is looked for in F_S."""
    share, gamma = search.sample_share, search.question.gamma
    gamma = None if gamma is None else share * gamma
    few = search.question.seen_counts and search.dimension <= min(FEW_DIMENSIONS, search.basis)
    relative = share * RELATIVE_GAMMA
    farther, fine = (search.dimension, 0.0) if few else (search.question.farther, FINE)
    how = how | {"basis": search.basis, "farther": farther, "fine": fine, "accuracy": search.question.accuracy}
    return KrylovSettings(delta=search.delta, gamma=gamma, relative_gamma=relative, **how)


def run(
    search: Search, settings: KrylovSettings, extra_calls: int, keep_history: bool, start: Tensor | None = None
) -> KrylovCandidate:
    """Searches once, within the budget; `extra_calls` gradients are kept for the checks that follow."""
    candidate = search.within_budget(
        settings,
        lambda s: krylov(search.f_hat, s, search.generator, keep_history=keep_history, start=start),
        calls_a_step=BETWEEN_KINKS if settings.gap or settings.between else 1 + settings.central,
        extra_calls=extra_calls,
    )
    assert isinstance(candidate, KrylovCandidate)
    return candidate


def measured_along(
    f_hat: DisplacedFunction,
    candidate: KrylovCandidate,
    one_sided: bool = False,
    claims: bool = True,
    to_the_ground: bool = False,
) -> KrylovCandidate:
    """The candidate, with the curvature along its vector measured; its Ritz value may claim one."""
    assert candidate.vector is not None
    v = candidate.vector.div_(vectors.norm(candidate.vector))
    claimed = candidate.claimed if claims else None
    how = {"one_sided": one_sided, "to_the_ground": to_the_ground}
    seen = on_same_sample(f_hat.f, f_hat.x, v, candidate.scale, f_hat.grad0, claimed=claimed, **how)
    return replace(candidate, vector=v, measured=seen)


def measured_between_kinks(
    f_hat: DisplacedFunction, candidate: KrylovCandidate, gap: Gap, *, doubtful: bool
) -> KrylovCandidate:
    """The candidate, with the curvature along its vector measured between the kinks next to x.

    A doubtful one, which may be that of a staircase, has to be there farther out, too, unless the search excludes that.
    None counts whose products were as asymmetric as they are large: these are of noise, not of a Hessian.
    """
    assert candidate.vector is not None
    f, x, v = f_hat.f, f_hat.x, candidate.vector.div_(vectors.norm(candidate.vector))
    seen = measured(f, x, v, f_hat.grad0, gap, claimed=candidate.claimed, smoothness=candidate.scale.smoothness)
    doubtful = doubtful and not excludes_stairs(x, gap, candidate.scale.radius, candidate.steps)
    noise = candidate.asymmetry > SURE * candidate.scale.smoothness
    if noise or (doubtful and seen.is_negative and not holds_far_out(f, x, v, seen.curvature)):
        seen = replace(seen, consistent=False)
    return replace(candidate, vector=v, measured=seen)


def values_bend_down(f_hat: DisplacedFunction, candidate: KrylovCandidate) -> bool:
    """Whether values, too, bend down along the vector: half as much at least as gradients say. Two values.

    They are taken as near to x as their rounding allows.
    """
    assert candidate.vector is not None
    assert candidate.measured is not None
    f, x, v, c = f_hat.f, f_hat.x, candidate.vector, candidate.measured.curvature
    length = max(candidate.measured.radius, math.sqrt(32.0 * f_hat.value_rounding / abs(c)))
    above, below = (float(f.value(torch.add(x, v, alpha=sign * length))) for sign in (1.0, -1.0))
    return above + below - 2.0 * f_hat.value0 <= c * length * length / 2.0


def with_what_is_seen(search: Search, candidate: KrylovCandidate) -> KrylovCandidate:
    """The candidate, with its lowest direction measured if that may count, though it is above −γ."""
    error = candidate.steps * candidate.asymmetry
    is_open = search.dimension <= FEW_DIMENSIONS and error > OPEN * candidate.scale.smoothness
    wanted = search.question.seen_counts and candidate.lowest < (error if is_open else -candidate.asymmetry)
    if not wanted:
        return candidate
    seen = measured_along(search.f_hat, replace(candidate, vector=candidate.deciding[0].clone()))
    return seen if seen.measured is not None and seen.measured.is_negative else candidate


def gradient_error(f_hat: DisplacedFunction) -> float:
    """The error of gradients beyond rounding, as far as the oracle knows it."""
    return f_hat.f.gradient_error(f_hat.value0, f_hat.grad_norm)
