"""One search, and the verdict on what it found: the evidence is collected, judged, and contested."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch

from unsaddle.cost import Ledger
from unsaddle.curvature.extract import answer_posed
from unsaddle.curvature.posed import Posed
from unsaddle.curvature.result import Curvature, Status
from unsaddle.judgement.contested import contested
from unsaddle.judgement.drop import NO_DIRECTION, Drop, drop_along
from unsaddle.judgement.enough_samples import RAREST, missed_share, more_samples
from unsaddle.judgement.gradient_promise import gradient_promise
from unsaddle.judgement.judge import Judgement, Kind, judge, negative_too
from unsaddle.judgement.measured_gradient import Gradient, measured_gradient
from unsaddle.judgement.sampling_error import NOTHING_SAMPLED, HessianError, hessian_error, look_again
from unsaddle.judgement.verdict import Verdict, assembled
from unsaddle.measure import batches
from unsaddle.objective import SampledFunction

CLEARLY_LESS = 0.25
"""The gradient does not explain a soft negative curvature if it promises less than this share of the fall along it."""

GRADIENT_IN_METRIC = "The gradient, and what counts as stationary, are those of F(Sz), in the metric."


def verdict_of_search(asked: Posed, eps: float | None, delta: float) -> Verdict:
    """Collects the evidence, and has it judged. An ε that was given is for ∇F in the user's own variables."""
    asked, found = answer_posed(asked, Ledger())
    objective, x, question = asked.objective, asked.x, asked.question
    samples, n = question.sample_size(objective), objective.num_samples
    drawn = samples if n is None or (samples is not None and samples < n) else None
    missed = 0.0 if drawn is None else missed_share(batches.checking_samples(objective, drawn), delta)
    ledger, generator = Ledger(), torch.Generator().manual_seed(question.seed + 1)
    f = objective.sample(samples, generator, ledger=ledger)
    seen = measured_gradient(asked, found, f, eps, drawn, delta, generator, ledger)
    if drawn is not None:
        may_be_minimum = found.status is Status.NOTHING_FOUND and missed <= RAREST and seen.most <= seen.eps
        if may_be_minimum:
            found = look_again(objective, x, found, question, drawn, delta / 2.0, generator)
        else:
            found = replace(found, bound=math.inf)  # One sample excludes nothing.
    drop, explained = NO_DIRECTION, None
    if found.direction is not None:
        how: dict[str, Any] = {"samples": samples, "delta": delta, "generator": generator, "ledger": ledger}
        drop = drop_along(objective, x, found.direction, curvature=found.curvature, radius=found.radius, **how)
        if drop.length < 0.0:  # The direction is to lead down.
            found, drop = replace(found, direction=found.direction.neg()), drop._replace(length=-drop.length)
        if _may_be_explained(asked, found, f, seen, drop, sampled=drawn is not None):
            explained = found, drop
            found, drop = _explained(found, drawn is not None), NO_DIRECTION
    hessian = NOTHING_SAMPLED
    if drawn is not None and found.status is Status.NOTHING_FOUND:
        hessian = hessian_error(objective, x, found, drawn, delta / 2.0, generator, ledger)
    elif found.measurements and found.measurements[-1].fresh:
        hessian = hessian._replace(deviation=found.measurements[-1].deviation)

    advice = more_samples(found, samples=drawn, n=n, delta=delta, **seen.known)
    own, stretch = asked.own(found), asked.stretch(found)
    scaled = replace(own, smoothness=own.smoothness / seen.unit**2)
    judgement = judge(scaled, **seen.known, missed=missed, more_samples=advice, fall=drop.value)
    known = {"sampled": drawn is not None, "full_precision": question.full_precision}
    judgement, seen, falls = contested(judgement, seen, found, f, x, drop, generator, **known)
    if falls is not None:
        found = replace(found, deciding=(falls.direction, *found.deciding[1:]))
        own, falls = asked.own(found), falls._replace(length=asked.stretch(found) * falls.length)
        judgement = Judgement(Kind.UNDECIDED, falls.reason)
    if explained is not None and judgement.kind is Kind.NOT_STATIONARY:  # It is told all the same.
        found, drop = explained
        own, stretch = asked.own(found), asked.stretch(found)
        judgement = judgement._replace(reason=f"{judgement.reason} {negative_too(own, drop.value)}")
    if asked.scaling is not None and seen.in_metric:
        judgement = judgement._replace(reason=f"{judgement.reason} {GRADIENT_IN_METRIC}")
    leads_down = judgement.kind in (Kind.SADDLE, Kind.NOT_STATIONARY)
    return assembled(
        asked.own_objective,
        asked.own_x,
        own,
        judgement,
        **seen.known,
        delta=delta,
        gradient_variance=seen.variance,
        hessian=HessianError(hessian.slack / stretch**2, hessian.deviation / stretch**2),
        drop=drop._replace(length=stretch * drop.length) if leads_down else NO_DIRECTION,
        cost=found.cost + ledger.cost,
    )


def _may_be_explained(
    asked: Posed, found: Curvature, f: SampledFunction, seen: Gradient, drop: Drop, *, sampled: bool
) -> bool:
    """Whether soft negative curvature may come from x being a little off a minimum: the gradient promises as much."""
    known = sampled or found.bound <= found.gamma or found.curvature > -found.gamma / 2.0  # The budget ended it there.
    soft = found.curvature > -found.gamma and seen.least <= seen.eps and known
    promised = seen.most**2 / (2.0 * abs(found.curvature))
    promised *= 1.0 if seen.in_metric else asked.stretch(found) ** 2
    if soft and found.piece > 0.0 == drop.value:  # Beyond the kinks next to x nothing is left of it.
        return True
    if not soft or not 0.0 < drop.value <= promised:
        return False
    enough = CLEARLY_LESS * drop.value
    how = {"softest": abs(found.curvature), "radius": found.radius, "enough": enough}
    return sampled or gradient_promise(f, asked.x, **how) >= enough


def _explained(found: Curvature, sampled: bool) -> Curvature:
    """The result without its direction: so soft a curvature may come from x being a little off a minimum, as the
    gradient promises as much. On samples the gradient is not known so well."""
    assert found.direction is not None
    nothing = Status.NOTHING_FOUND if found.bound <= found.gamma else Status.BUDGET_SPENT
    status, seen = (Status.SAMPLE_ONLY, found.measurements) if sampled else (nothing, ())
    return replace(found, status=status, direction=None, deciding=(found.direction,), measurements=seen)
