"""What sampling leaves of "nothing was found": the same search on independent samples."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from unsaddle.cost import Ledger
from unsaddle.curvature.extract import answer
from unsaddle.curvature.question import Question
from unsaddle.curvature.result import Curvature, Status
from unsaddle.measure import batches
from unsaddle.objective import Objective

HIDDEN = 0.6
"""The largest probability with which one sample's curvature along a fixed direction is above the truth. One half for
symmetric noise. Skewed noise whose tail the samples contain stays below this."""


class HessianError(NamedTuple):
    """The effect of sampling on the lowest curvature."""

    slack: float
    """How far λ_min(F) may lie above the lowest curvature seen, at the confidence asked for; inf if unknown."""
    deviation: float
    """The standard deviation of one sample's curvature along the lowest direction."""


NOTHING_SAMPLED = HessianError(0.0, 0.0)


def looks(delta: float) -> int:
    """How many independent samples have to show nothing, so that together they are wrong with probability δ at most.

    >>> looks(0.025), looks(1e-3)
    (8, 14)
    """
    return math.ceil(math.log(max(delta, 1e-300)) / math.log(HIDDEN))


def look_again(
    objective: Objective,
    x: Tensor,
    found: Curvature,
    question: Question,
    samples: int,
    delta: float,
    generator: torch.Generator,
    ledger: Ledger | None = None,
) -> Curvature:
    """Search independent samples, until one contradicts that nothing was found, or until δ is reached.

    Let v be the lowest eigenvector of ∇²F(x), and −b its eigenvalue. It does not depend on any sample. If a search of
    F_S excludes curvature below −b, then vᵀ∇²F_S(x)v ≥ λ_min(∇²F_S(x)) is above the truth: an event of probability one
    half for symmetric noise, however large the noise is and whatever the dimension. The bounds of `looks(δ)`
    independent samples are all too high with probability δ at most. So this is a sign test, and it needs no variance.

    Returns `found` with the largest bound and the lowest curvature of all samples; or the first result that is not
    "nothing found". Of a finite sum that has no more samples than these searches would take, everything is searched
    instead, once. The extractor is "auto", whichever was asked first: krylov, the cheapest that excludes. So the cost
    is that of `looks(δ)` − 1 of its searches, without the gradients that measure the noise.
    """
    ledger, n, count = Ledger() if ledger is None else ledger, objective.num_samples, looks(delta) - 1
    everything = n is not None and count * samples >= n
    before, lowest, bound = ledger.cost, found.lowest, found.bound
    for _ in range(1 if everything else count):
        spent = found.cost + ledger.cost - before
        budget = question.max_gradients
        asked = replace(
            question,
            extractor="auto",
            gamma=found.gamma,
            sample_margin=0.0 if everything else question.sample_margin,
            samples=None if everything else samples,
            probe_radius=found.radius,
            max_gradients=None if budget is None else max(1, budget - spent.gradients),
            keep_history=False,
            seed=int(torch.randint(2**31, (), generator=generator)),
        )
        again = answer(objective, x, asked, ledger)
        if again.status is not Status.NOTHING_FOUND:
            return replace(again, cost=found.cost + ledger.cost - before, bound=math.inf, history=found.history)
        lowest, bound = min(lowest, again.lowest), max(bound, again.bound)
        if everything:
            lowest, bound = again.lowest, again.bound
    return replace(found, lowest=lowest, bound=bound, cost=found.cost + ledger.cost - before)


def hessian_error(
    objective: Objective,
    x: Tensor,
    found: Curvature,
    samples: int,
    delta: float,
    generator: torch.Generator,
    ledger: Ledger | None = None,
) -> HessianError:
    """How far λ_min(F) may lie above what was seen, from fresh batches along the lowest direction.

    λ_min(F) ≤ vᵀ∇²F(x)v for every v. Two gradients of `samples` samples. Unknown if the extractor names no direction.
    """
    if not found.deciding:
        return HessianError(math.inf, math.nan)
    v = found.deciding[0]
    along = batches.curvature(objective, x, v, radius=found.radius, samples=samples, generator=generator, ledger=ledger)
    return HessianError(abs(along.mean - found.lowest) + along.error(delta), along.deviation)
