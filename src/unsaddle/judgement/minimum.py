"""`is_minimum`: the verdict on a point, with everything that it needs measured."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from unsaddle import checks, vectors
from unsaddle.cost import Ledger
from unsaddle.curvature.extract import answer
from unsaddle.curvature.question import Question
from unsaddle.curvature.result import Status
from unsaddle.judgement.judge import Judgement, Kind, judge, sentence
from unsaddle.judgement.sampling_error import NOTHING_SAMPLED, hessian_error
from unsaddle.judgement.second_look import ROUNDINGS, STAIRCASE, coarse_noise, is_staircase, repeats
from unsaddle.judgement.verdict import Verdict, assembled
from unsaddle.measure import batches
from unsaddle.measure.noise import GradientNoise
from unsaddle.objective import Objective, point_of, with_its_ranks
from unsaddle.theory.quadratics import stationary_gradient

START_DELTA = 1e-4
"""δ spent on the random start by default, if δ/2 is more: a verdict should not be spoiled by an unlucky start, and the
steps grow only with log(1/δ). The confidence stated stays 1 − δ."""

SAMPLE_MARGIN = 0.5
"""On a sample, this share of γ is kept for the difference between F_S and F."""


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
    start_delta: float | None = None,
    seed: int = 0,
) -> Verdict:
    """Decide whether x is a minimum of F, a saddle, or not stationary; or say what would decide it.

    Args:
        objective: what to look at.
        x: where; may be left out for an objective that has a `point` of its own.
        eps: gradients up to this norm count as zero. By default 1e-3·L1·max(1, ‖x‖).
        gamma: curvatures down to −γ are let pass. By default a hundredth of L1.
        delta: the probability of a wrong verdict.
        samples: |S|; None for everything, or for 1024 where samples never run out.
        max_gradients: a bound on the gradients that look for a direction. What is found is then checked with some more.
        start_delta: the part of δ that is spent on the random start: more of it for fewer gradients. By default 1e-4,
            or δ/2 if that is less; where nothing is sampled all of δ may be.
        seed: of the samples and the random start.

    Returns:
        - *saddle*: a direction whose curvature, measured again (on fresh samples, where F was sampled), has its
          interval below zero;
        - *minimum*: the gradient is small, and no eigenvalue is below −γ, at confidence 1 − δ over the random start and
          the Hessian's sampling error, which is estimated;
        - *not stationary*: the gradient is not small;
        - *undecided*: with the reason and what to do.

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
        samples=samples,
        delta=min(delta / 2.0, START_DELTA) if start_delta is None else checks.probability(start_delta, "start_delta"),
        max_gradients=max_gradients,
        seed=seed,
        keep_history=True,
    )
    samples, n = question.sample_size(objective), objective.num_samples
    sampled = n is None or (samples is not None and samples < n)
    found = answer(objective, x, question)

    ledger = Ledger()
    generator = torch.Generator().manual_seed(seed + 1)
    norm, error, variance = found.gradient_norm, 0.0, 0.0
    coarse: GradientNoise | None = None
    if math.isfinite(found.noise):
        if sampled:
            seen = batches.gradient(
                objective, x, samples=samples or batches.BATCHES, generator=generator, ledger=ledger
            )
            norm, error, variance = seen.norm, seen.error(delta / 2.0), seen.variance
        if x.dtype == torch.float32:
            coarse = coarse_noise(objective, x, samples, generator, ledger)
        error += ROUNDINGS * max(found.noise, 0.0 if coarse is None else coarse.noise)
    if eps is None:
        eps = stationary_gradient(smoothness=found.smoothness, x_norm=vectors.norm(x))
    hessian = NOTHING_SAMPLED
    if sampled and found.status is Status.NOTHING_FOUND:
        hessian = hessian_error(objective, x, found, samples or batches.BATCHES, delta / 2.0, generator, ledger)
    elif found.measurements and found.measurements[-1].fresh:
        hessian = hessian._replace(deviation=found.measurements[-1].deviation)

    judgement = judge(
        found,
        gradient_norm=norm,
        gradient_error=error,
        eps=eps,
        slack=hessian.slack,
        more_samples=_more_samples(hessian.slack, found.gamma - found.sought, samples, n),
    )
    if coarse is not None and judgement.kind is not Kind.UNDECIDED:
        f = objective.sample(samples, generator, ledger=ledger)
        if is_staircase(f, x, found, coarse, judgement.kind, norm - error - eps, generator):
            judgement = Judgement(Kind.UNDECIDED, STAIRCASE)
    rough = found.status in (Status.NOT_CONFIRMED, Status.NOT_QUADRATIC)
    if judgement.kind is Kind.UNDECIDED and rough and not repeats(objective, x, found, samples, generator, ledger):
        judgement = Judgement(Kind.UNDECIDED, sentence(Status.NOT_DETERMINISTIC))
    return assembled(
        objective,
        x,
        found,
        judgement,
        gradient_norm=norm,
        gradient_error=error,
        eps=eps,
        delta=delta,
        gradient_variance=variance,
        hessian=hessian,
        cost=found.cost + ledger.cost,
    )


def _more_samples(slack: float, margin: float, samples: int | None, n: int | None) -> str:
    """How many samples would decide: the error falls with their square root."""
    factor = (slack / margin) ** 2 if margin > 0.0 else math.inf
    if n is not None and samples is not None and not factor * samples < n:
        return "look at everything: leave samples out"
    return f"draw {math.ceil(factor)} times as many samples" if math.isfinite(factor) else "draw more samples"
