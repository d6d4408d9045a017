"""`is_minimum`: the verdict on a point. It measures every constant that it needs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from unsaddle import checks
from unsaddle.cost import Ledger
from unsaddle.curvature.in_double import may_be_asked_again, may_double, posed_in_double, searched_again, told_in
from unsaddle.curvature.posed import Posed, posed
from unsaddle.curvature.question import CLOSE, Question
from unsaddle.curvature.result import IN_FLOAT64, NO_ANSWER
from unsaddle.judgement.beyond_kinks import lower_beyond
from unsaddle.judgement.evidence import verdict_of_search
from unsaddle.judgement.flat_direction import NO_MINIMUM
from unsaddle.judgement.judge import Kind
from unsaddle.judgement.reasons import VALUES_DO_NOT_FALL
from unsaddle.judgement.verdict import Verdict
from unsaddle.judgement.watch import watched
from unsaddle.metric.equilibrated import GRADIENTS, equilibrated
from unsaddle.objective import Objective, point_of, with_its_ranks

START_DELTA = 1e-4
"""The largest part of δ that the random start may use. The steps grow only with log(1/δ), so a safe start is cheap."""

SAMPLE_MARGIN = 0.5
"""The share of γ that is kept for the difference between F_S and F, if F is sampled."""

CHECKS = 40
"""Gradients of a budget that the survey and the checks take. Half of the others may look for softer curvature than −γ;
the other half is for second looks."""

MEASURED_SIZES = "The variables are of very different sizes; the search ran in sizes S that were measured."


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

    Where float32, autocast, or kinks such as those of ReLU hide the curvature, F is asked again in float64: on a copy
    of the function, the model and the data. The reason says so. That needs memory for 24 float64 vectors of the size of
    x, an F that torch computes, all samples, and no `metric`. Nothing of the copy stays.

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
        if metric is None and may_double(seen, x, samples):
            verdict = _in_either_precision(seen, x, question, eps, delta)
        else:
            verdict = _in_either_metric(posed(seen, x, question, metric), eps, delta)
    return replace(verdict, _objective=objective, _x=x)


def _in_either_precision(
    objective: Objective, x: Tensor, question: Question, eps: float | None, delta: float
) -> Verdict:
    """The verdict in float32; or in float64, on a copy of F, where rounding or kinks hide the curvature.

    A budget may not do for both, so with one, float32 is asked in full.
    """
    short = replace(question, first_attempt_only=question.max_gradients is None)
    first = verdict_of_search(posed(objective, x, short, None), eps, delta)
    found = first.evidence
    is_exact = x.dtype is torch.float64 or found.survey is None or not found.survey.suspicious
    answered = found.status not in NO_ANSWER and not found.over_kinks and is_exact
    settled = NO_MINIMUM in first.reason if first.kind is Kind.UNDECIDED else answered
    if settled or not may_be_asked_again(found, x, question):
        return first
    ledger = Ledger()
    asked = posed_in_double(objective, x, question, found, ledger)
    cost = first.cost + ledger.cost

    def search(asked: Posed) -> Verdict:
        verdict = _in_either_metric(asked, eps, delta)
        is_open = verdict.kind is Kind.UNDECIDED and NO_MINIMUM not in verdict.reason
        return lower_beyond(asked.objective, verdict) if is_open and asked.question.full_precision else verdict

    asked, again = searched_again(objective, x, asked.after(cost.gradients), search)
    cost += again.cost
    if asked.objective is not objective:
        again = _of_a_gradient(again)
        if again.kind is Kind.UNDECIDED and first.kind is not Kind.UNDECIDED:
            return replace(first, cost=cost)
        direction = None if again.direction is None else again.direction.to(x.dtype)
        reason = again.reason if again.kind is Kind.UNDECIDED else f"{again.reason} {IN_FLOAT64}"
        again = replace(again, direction=direction, evidence=told_in(objective, x, again.evidence), reason=reason)
    return replace(again, cost=cost)


def _of_a_gradient(verdict: Verdict) -> Verdict:
    """The verdict in float64, with an interval as wide as products are asymmetric: that is not rounding there, but the
    gradient is not that of F. Where the interval then reaches zero, nothing is decided."""
    (low, high), off = verdict.interval, verdict.evidence.asymmetry
    if verdict.direction is None:
        return replace(verdict, interval=(low, max(high, verdict.evidence.lowest + off)))
    if verdict.curvature + off >= 0.0 and not verdict.drop > 0.0:
        unknown = (math.nan, math.nan)
        verdict = replace(verdict, kind=Kind.UNDECIDED, reason=VALUES_DO_NOT_FALL, direction=None, interval=unknown)
        return replace(verdict, drop=math.nan, drop_interval=unknown, length=math.nan)
    return replace(verdict, interval=(min(low, verdict.curvature - off), max(high, verdict.curvature + off)))


def _in_either_metric(asked: Posed, eps: float | None, delta: float) -> Verdict:
    """The verdict in the metric that was given, or else in the user's own variables; or in sizes of the variables that
    are measured, where that does not decide."""
    verdict = verdict_of_search(asked, eps, delta)
    is_open = verdict.kind is Kind.UNDECIDED and NO_MINIMUM not in verdict.reason
    unanswered = verdict.evidence.status in NO_ANSWER or verdict.evidence.piece > 0.0
    if asked.scaling is None and is_open and unanswered:
        return _in_measured_sizes(asked.objective, asked.x, asked.question, eps, delta, verdict)
    return verdict


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
    again = verdict_of_search(posed(objective, x, question, sizes).after(spent + ledger.gradients), eps, delta)
    cost = undecided.cost + ledger.cost + again.cost
    if again.kind is Kind.UNDECIDED:
        return replace(undecided, cost=cost)
    return replace(again, cost=cost, reason=f"{again.reason} {MEASURED_SIZES}")
