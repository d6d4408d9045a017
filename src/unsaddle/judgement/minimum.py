"""`is_minimum`: the verdict on a point. It measures every constant that it needs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from unsaddle import checks
from unsaddle.cost import Ledger
from unsaddle.curvature.extract import NO_ANSWER, answer_posed
from unsaddle.curvature.krylov.certificate import SURE
from unsaddle.curvature.posed import Posed, posed
from unsaddle.curvature.question import CLOSE, Question
from unsaddle.curvature.result import Curvature, Status
from unsaddle.judgement.drop import NO_DIRECTION, Drop, drop_along
from unsaddle.judgement.enough_samples import RAREST, missed_share, more_samples
from unsaddle.judgement.flat_direction import NO_MINIMUM, FlatFall, flat_fall
from unsaddle.judgement.gradient_promise import BETTER_WAY, fall_along_gradient, gradient_promise
from unsaddle.judgement.half_precision import STAIRCASE, contradicts, ends_within, steps_next_to_x, values_rise
from unsaddle.judgement.judge import Judgement, Kind, judge, negative_too
from unsaddle.judgement.measured_gradient import Gradient, measured_gradient
from unsaddle.judgement.reasons import DOWN_AMONG_KINKS, F_ENDS, FAR_FROM_REST, KINKS_TURN_UP, VALUES_DO_NOT_FALL
from unsaddle.judgement.sampling_error import NOTHING_SAMPLED, HessianError, hessian_error, look_again
from unsaddle.judgement.verdict import Verdict, assembled
from unsaddle.judgement.watch import watched
from unsaddle.judgement.zero_hessian import SHAPES, without_hessian
from unsaddle.measure import batches
from unsaddle.measure.rest import small_gradient
from unsaddle.metric.equilibrated import GRADIENTS, equilibrated
from unsaddle.objective import Objective, SampledFunction, point_of, with_its_ranks

START_DELTA = 1e-4
"""The largest part of δ that the random start may use. The steps grow only with log(1/δ), so a safe start is cheap."""

SAMPLE_MARGIN = 0.5
"""The share of γ that is kept for the difference between F_S and F, if F is sampled."""

CHECKS = 40
"""Gradients of a budget that the survey and the checks take. Half of the others may look for softer curvature than −γ;
the other half is for second looks."""

MEASURED_SIZES = "The variables are of very different sizes; the search ran in sizes S that were measured."

CLEARLY_LESS = 0.25
"""The gradient does not explain a soft negative curvature if it promises less than this share of the fall along it."""

SYMMETRIC, ROUNDINGS = 0.05, 3.0
"""Where values show no fall, products have to be symmetric up to this share of the curvature that they claim, or up to
so many times their rounding."""

MAY_BE_BETTER = 0.25
"""The gradient may be the better way down if it promises this share of the fall along the direction."""

GRADIENT_IN_METRIC = "The gradient, and what counts as stationary, are those of F(Sz), in the metric."


@checks.in_range
@with_its_ranks
def is_minimum(
    objective: Objective,
    x: Tensor | None = None,
    *,
    eps: float | None = None,
    gamma: float | None = None,
    delta: float = 0.05,
    samples: int | None = None,
    max_gradients: int | None = None,
    metric: Any = None,
    seed: int = 0,
    progress: bool = False,
) -> Verdict:
    """Decide whether x is a minimum of F, a saddle, or not stationary; or say what would decide it.

    Args:
        objective: F.
        x: the point. It may be left out for an objective that has a `point` of its own.
        eps: gradients up to this norm count as zero. By default 1e-3·L1·max(1, ‖x‖); less if following the
            gradient leads farther than max(1, ‖x‖)/10, or than a tenth of that and down by 1 % of F, as on the floor of
            a soft valley. Where kinks hide the curvature, a fall of F by 1 % along its gradient is enough.
        gamma: γ; a minimum may have curvatures down to −γ. By default a hundredth of L1.
        delta: δ, the probability of a wrong verdict.
        samples: |S|. None means all samples, or 1024 of a stream.
        max_gradients: a bound on the gradients that search for a direction, 33 of which are kept to measure one: a
            smaller number finds nothing. The checks of the result need some more. If γ is left out and F is not
            sampled, up to half of them are spent on curvature softer than that, down to 1e-4·L1: the more, the smaller
            `bound`.
        metric: S of x = Sz, in which the search runs: a positive vector (sizes of the variables, as SciPy's `x_scale`),
            a torch optimizer (Adam, AdamW, RMSprop, Adagrad), an inverse Hessian (SciPy's `hess_inv`), or an object
            with `apply` and `transpose`, z ↦ Sz and g ↦ Sᵀg. The verdict means what it means without: γ, `bound`,
            direction, curvature and drop are in your own variables. Only the gradient, if eps is left out, is S∇F(x),
            and ε follows L1 of F(Sz). A small γ is sought by more gradients, the more the sizes differ.
        seed: of the samples and the random start.
        progress: show on a terminal how many gradients were taken. Needs rich, of the extra `progress`.

    Returns:
        - *saddle*: the curvature c along a direction was measured again, and its interval is below zero. If F was
          sampled, the samples of that measurement are fresh. `drop` says how far F falls along it; for −γ < c < 0 that
          has to be more than what following the gradient promises, as it may at a point a little off a minimum.
        - *minimum*: the gradient is small and no eigenvalue is below −γ. The confidence 1 − δ covers the random start
          and the samples, of which eight independent ones have to show nothing.
        - *not stationary*: the gradient is not small; or, where eps is left out, it leads farther down than the
          negative curvature does. Negative curvature that was seen is told as well.
        - *undecided*: the reason says what to do.

    On samples the confidence covers every part of the data down to a share of 0.3 %; a part that is rarer, and that
    no sample contains, may change the verdict. So at least 250 samples are needed at δ = 0.05, or an eighth of all. A
    search takes `samples` a gradient, and a minimum takes eight searches. The gradient, the curvature along a direction
    and the fall along it are checked on 4·`samples`, by one, two and two evaluations; or on everything, if that is at
    most 8·`samples`.

    >>> from unsaddle import Function
    >>> f = Function(lambda x: x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4)
    >>> is_minimum(f, torch.tensor([0.0, 0.0])).kind
    'saddle'
    >>> is_minimum(f, torch.tensor([0.0, 2.0]).sqrt()).kind
    'minimum'
    """
    x = point_of(objective, x)
    eps = None if eps is None else checks.positive(eps, "eps", "leave it out to have it follow L1")
    delta = checks.probability(delta, "delta")
    question = Question(
        gamma=gamma,
        sample_margin=SAMPLE_MARGIN,
        seen_counts=True,
        survey_first=True,
        ends_where_steep=eps is None,
        accuracy=CLOSE,
        samples=samples,
        delta=min(delta / 2.0, START_DELTA),
        max_gradients=max_gradients,
        seed=seed,
        keep_history=True,
    )
    if max_gradients is not None and gamma is None and question.sample_size(objective) is None:
        question = replace(question, farther=max(0, max_gradients - CHECKS) // 2)
    with watched(objective, max_gradients, progress) as seen:
        verdict = _verdict(posed(seen, x, question, metric), eps, delta)
        is_open = verdict.kind is Kind.UNDECIDED and NO_MINIMUM not in verdict.reason
        unanswered = verdict.evidence.status in NO_ANSWER or verdict.evidence.piece > 0.0
        if metric is None and is_open and unanswered:
            verdict = _in_measured_sizes(seen, x, question, eps, delta, verdict)
    return replace(verdict, _objective=objective)


def _in_measured_sizes(
    objective: Objective, x: Tensor, question: Question, eps: float | None, delta: float, undecided: Verdict
) -> Verdict:
    """The verdict by a search in sizes of the variables that are measured; the first one if that does not decide."""
    spent, budget = undecided.cost.gradients, question.max_gradients
    if budget is not None and budget <= spent + GRADIENTS:
        return undecided
    ledger, generator = Ledger(), torch.Generator().manual_seed(question.seed)
    sizes = equilibrated(objective.sample(question.sample_size(objective), generator, ledger=ledger), x, generator)
    if sizes is None:
        return replace(undecided, cost=undecided.cost + ledger.cost)
    again = _verdict(posed(objective, x, question, sizes).after(spent + ledger.gradients), eps, delta)
    cost = undecided.cost + ledger.cost + again.cost
    if again.kind is Kind.UNDECIDED:
        return replace(undecided, cost=cost)
    return replace(again, cost=cost, reason=f"{again.reason} {MEASURED_SIZES}")


def _verdict(asked: Posed, eps: float | None, delta: float) -> Verdict:
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
    judgement, seen, falls = _contested(judgement, seen, found, f, x, drop, generator, sampled=drawn is not None)
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


def _contested(
    judgement: Judgement,
    seen: Gradient,
    found: Curvature,
    f: SampledFunction,
    x: Tensor,
    drop: Drop,
    generator: torch.Generator,
    *,
    sampled: bool,
) -> tuple[Judgement, Gradient, FlatFall | None]:
    """The judgement after whoever may contest it: values, gradients farther out, and F along its gradient.

    Where that last one objects, as the better way down or for being so soft, ε is what it takes for small.
    """
    if judgement.kind is Kind.UNDECIDED and found.small_gradient < seen.norm:
        # What was measured as noise are jumps at kinks. The rounding of the gradient is below this (`leads_far`).
        small, error = found.small_gradient, min(seen.error, seen.norm - found.small_gradient)
        return Judgement(Kind.NOT_STATIONARY, DOWN_AMONG_KINKS), seen._replace(eps=small, error=error), None
    if judgement.kind is Kind.UNDECIDED and found.status in SHAPES and not sampled:
        reason, falls = without_hessian(judgement.reason, found, f, x, generator)
        return Judgement(Kind.UNDECIDED, reason), seen, falls
    if judgement.kind is Kind.SADDLE and drop.value == 0.0 and (not _is_sure(found) or values_rise(f, x, found)):
        return Judgement(Kind.UNDECIDED, KINKS_TURN_UP if found.piece > 0.0 else VALUES_DO_NOT_FALL), seen, None
    if judgement.kind is Kind.SADDLE and not drop.both_ways and ends_within(f, x, found):
        return Judgement(Kind.UNDECIDED, F_ENDS.format(radius=found.measurements[0].radius)), seen, None
    if contradicts(f, x, found, judgement.kind, seen.unit * (seen.least - seen.eps), generator):
        return Judgement(Kind.UNDECIDED, STAIRCASE), seen, None
    # The gradient is asked only if it may promise more: at a saddle it is zero, and this costs nothing.
    may_be_better = seen.follows_l1 and seen.least * abs(drop.length) > MAY_BE_BETTER * drop.value > 0.0
    if judgement.kind is Kind.SADDLE and not sampled and may_be_better:
        fall = fall_along_gradient(f, x, abs(drop.length))
        if fall >= drop.value:
            ways = {"along_gradient": fall, "along_direction": drop.value, "curvature": found.curvature}
            small = MAY_BE_BETTER * seen.least * drop.value / fall
            return Judgement(Kind.NOT_STATIONARY, BETTER_WAY.format(**ways)), seen._replace(eps=small), None
    if judgement.kind is not Kind.MINIMUM or sampled:
        return judgement, seen, None
    if steps_next_to_x(f, x, found, generator):
        return Judgement(Kind.UNDECIDED, STAIRCASE), seen, None
    falls = flat_fall(f, x, found)
    if falls is not None:
        return judgement, seen, falls
    if seen.follows_l1 and seen.norm > seen.error:
        small = small_gradient(f, x, radius=found.radius, eps=seen.eps, error=seen.error)
        if seen.least > small:
            return Judgement(Kind.NOT_STATIONARY, FAR_FROM_REST), seen._replace(eps=small), None
    return judgement, seen, None


def _is_sure(found: Curvature) -> bool:
    """Whether gradients are sure of a saddle where values show no fall, and may be too coarse: products near x and
    farther out agree, and they are symmetric. Those of a gradient that lacks a part by rounding are not."""
    steady = found.survey is not None and found.survey.steady
    rounding = math.sqrt(2.0) * found.noise / found.radius
    expected = max(SYMMETRIC * abs(found.curvature), ROUNDINGS * rounding)
    return steady and found.asymmetry <= min(expected, SURE * abs(found.curvature))


def _explained(found: Curvature, sampled: bool) -> Curvature:
    """The result without its direction: so soft a curvature may come from x being a little off a minimum, as the
    gradient promises as much. On samples the gradient is not known so well."""
    assert found.direction is not None
    nothing = Status.NOTHING_FOUND if found.bound <= found.gamma else Status.BUDGET_SPENT
    status, seen = (Status.SAMPLE_ONLY, found.measurements) if sampled else (nothing, ())
    return replace(found, status=status, direction=None, deciding=(found.direction,), measurements=seen)
