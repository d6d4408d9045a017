"""`is_minimum`: the verdict on a point. It measures every constant that it needs."""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from unsaddle import checks, vectors
from unsaddle.cost import Ledger
from unsaddle.curvature.extract import NO_ANSWER, answer_posed
from unsaddle.curvature.posed import Posed, posed
from unsaddle.curvature.question import Question
from unsaddle.curvature.result import Curvature, Status
from unsaddle.judgement.drop import NO_DIRECTION, drop_along
from unsaddle.judgement.enough_samples import RAREST, missed_share, more_samples
from unsaddle.judgement.flat_direction import SOFT, falls_along
from unsaddle.judgement.gradient_promise import FAR_FROM_REST, gradient_promise, small_along_itself
from unsaddle.judgement.half_precision import STAIRCASE, averaged_gradient, contradicts, values_rise
from unsaddle.judgement.judge import Judgement, Kind, judge
from unsaddle.judgement.reasons import VALUES_DO_NOT_FALL
from unsaddle.judgement.sampling_error import NOTHING_SAMPLED, HessianError, hessian_error, look_again
from unsaddle.judgement.verdict import Verdict, assembled
from unsaddle.judgement.watch import shown
from unsaddle.measure import batches
from unsaddle.measure.noise import GRADIENT_ROUNDINGS
from unsaddle.metric.equilibrated import GRADIENTS, equilibrated
from unsaddle.objective import Objective, point_of, with_its_ranks
from unsaddle.theory.quadratics import stationary_gradient

START_DELTA = 1e-4
"""The largest part of δ that the random start may use. The steps grow only with log(1/δ), so a safe start is cheap."""

SAMPLE_MARGIN = 0.5
"""The share of γ that is kept for the difference between F_S and F, if F is sampled."""

MEASURED_SIZES = "The variables are of very different sizes; the search ran in sizes S that were measured."

CLEARLY_LESS = 0.25
"""The gradient does not explain a soft negative curvature if it promises less than this share of the fall along it."""

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
        eps: gradients up to this norm count as zero. By default 1e-3·L1·max(1, ‖x‖); less if F is so soft along the
            gradient that its lowest point is farther away than max(1, ‖x‖)/10.
        gamma: γ; a minimum may have curvatures down to −γ. By default a hundredth of L1.
        delta: δ, the probability of a wrong verdict.
        samples: |S|. None means all samples, or 1024 of a stream.
        max_gradients: a bound on the gradients that search for a direction. The checks of the result need some more.
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
        - *not stationary*: the gradient is not small. Negative curvature that was seen is told as well.
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
        samples=samples,
        delta=min(delta / 2.0, START_DELTA),
        max_gradients=max_gradients,
        seed=seed,
        keep_history=True,
    )
    with shown(objective, max_gradients) if progress else nullcontext(objective) as watched:
        verdict = _verdict(posed(watched, x, question, metric), eps, delta)
        if metric is None and verdict.kind is Kind.UNDECIDED and verdict.evidence.status in NO_ANSWER:
            verdict = _in_measured_sizes(watched, x, question, eps, delta, verdict)
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
    follows_l1 = eps is None
    there, at = (objective, x) if follows_l1 else (asked.own_objective, asked.own_x)
    samples, n = question.sample_size(objective), objective.num_samples
    sampled = n is None or (samples is not None and samples < n)
    drawn = samples if sampled else None
    missed = 0.0 if drawn is None else missed_share(batches.checking_samples(objective, drawn), delta)
    ledger, generator = Ledger(), torch.Generator().manual_seed(question.seed + 1)
    f = f_there = objective.sample(samples, generator, ledger=ledger)
    if eps is None:
        eps = stationary_gradient(smoothness=found.smoothness, x_norm=vectors.norm(x))
    norm, error, variance, unit = found.gradient_norm, 0.0, 0.0, 1.0
    if there is not objective:
        f_there, unit = there.sample(samples, generator, ledger=ledger), asked.smallest
        norm = vectors.norm(f_there.grad(at))
    if math.isfinite(found.noise):
        if drawn is not None:
            norm, error, variance = batches.gradient_norm(there, at, drawn, delta / 2.0, generator, ledger)
        error += GRADIENT_ROUNDINGS * _rounding(found, x) / unit
        if drawn is None and _rounds(found, x) and norm - error <= eps < norm + error:
            mean = averaged_gradient(f_there, at, generator)
            if mean.norm + mean.error(delta / 2.0) <= eps:  # If it is not small, that may be truncation.
                norm, error = mean.norm, mean.error(delta / 2.0)
    if drawn is not None:
        may_be_minimum = found.status is Status.NOTHING_FOUND and missed <= RAREST and norm + error <= eps
        if may_be_minimum:
            found = look_again(objective, x, found, question, drawn, delta / 2.0, generator)
        else:
            found = replace(found, bound=math.inf)  # One sample excludes nothing.
    drop = NO_DIRECTION
    if found.direction is not None:
        how: dict[str, Any] = {"samples": samples, "delta": delta, "generator": generator, "ledger": ledger}
        drop = drop_along(objective, x, found.direction, curvature=found.curvature, radius=found.radius, **how)
        if drop.length < 0.0:  # The direction is to lead down.
            found, drop = replace(found, direction=found.direction.neg()), drop._replace(length=-drop.length)
        soft = found.curvature > -found.gamma and norm - error <= eps and (sampled or found.bound <= found.gamma)
        promised = (norm + error) ** 2 / (2.0 * abs(found.curvature))
        promised *= 1.0 if there is objective else asked.stretch(found) ** 2
        may_explain = soft and 0.0 < drop.value <= promised
        if may_explain and not sampled:
            how = {"softest": abs(found.curvature), "radius": found.radius, "enough": CLEARLY_LESS * drop.value}
            may_explain = gradient_promise(f, x, **how) >= CLEARLY_LESS * drop.value
        if may_explain:
            found, drop = _explained(found, sampled), NO_DIRECTION
    hessian = NOTHING_SAMPLED
    if drawn is not None and found.status is Status.NOTHING_FOUND:
        hessian = hessian_error(objective, x, found, drawn, delta / 2.0, generator, ledger)
    elif found.measurements and found.measurements[-1].fresh:
        hessian = hessian._replace(deviation=found.measurements[-1].deviation)

    gradient = {"gradient_norm": norm, "gradient_error": error, "eps": eps}
    advice = more_samples(found, samples=drawn, n=n, delta=delta, **gradient)
    own, stretch = asked.own(found, generator, ledger), asked.stretch(found)
    judgement = judge(
        replace(own, smoothness=own.smoothness / unit**2),
        **gradient,
        missed=missed,
        more_samples=advice,
        fall=drop.value,
    )
    # If products near x and farther out agree, the gradient is sure, and values may be too coarse.
    steady = found.survey is not None and found.survey.steady
    no_fall = judgement.kind is Kind.SADDLE and drop.value == 0.0
    if no_fall and (not steady or values_rise(f, x, found)):
        judgement = Judgement(Kind.UNDECIDED, VALUES_DO_NOT_FALL)
    elif contradicts(f, x, found, judgement.kind, unit * (norm - error - eps), generator):
        judgement = Judgement(Kind.UNDECIDED, STAIRCASE)
    if (
        judgement.kind is Kind.MINIMUM
        and not sampled
        and found.deciding
        and abs(found.lowest) <= SOFT * found.smoothness
    ):
        falls = falls_along(f, x, found.deciding[0])
        judgement = judgement if falls is None else Judgement(Kind.UNDECIDED, falls)
    if judgement.kind is Kind.MINIMUM and follows_l1 and not sampled and norm > error:
        small = small_along_itself(f, x, found.radius)
        if norm - error > small:
            judgement, gradient["eps"] = Judgement(Kind.NOT_STATIONARY, FAR_FROM_REST), small
    if asked.scaling is not None and there is objective:
        judgement = judgement._replace(reason=f"{judgement.reason} {GRADIENT_IN_METRIC}")
    drop = (
        drop._replace(length=stretch * drop.length)
        if judgement.kind in (Kind.SADDLE, Kind.NOT_STATIONARY)
        else NO_DIRECTION
    )
    return assembled(
        asked.own_objective,
        asked.own_x,
        own,
        judgement,
        **gradient,
        delta=delta,
        gradient_variance=variance,
        hessian=HessianError(hessian.slack / stretch**2, hessian.deviation / stretch**2),
        drop=drop,
        cost=found.cost + ledger.cost,
    )


def _rounds(found: Curvature, x: Tensor) -> bool:
    """Whether the noise of the far rung counts as rounding: in float32, and where a lower precision is inside. Else it
    is mostly truncation."""
    return found.survey is not None and (x.dtype == torch.float32 or found.survey.nearest > 0.0)


def _rounding(found: Curvature, x: Tensor) -> float:
    """σ of the gradient at x."""
    far = found.survey.far_noise if found.survey is not None and _rounds(found, x) else 0.0
    return max(found.noise, far)


def _explained(found: Curvature, sampled: bool) -> Curvature:
    """The result without its direction: so soft a curvature may come from x being a little off a minimum, as the
    gradient promises as much. On samples the gradient is not known so well."""
    assert found.direction is not None
    status, seen = (Status.SAMPLE_ONLY, found.measurements) if sampled else (Status.NOTHING_FOUND, ())
    return replace(found, status=status, direction=None, deciding=(found.direction,), measurements=seen)
