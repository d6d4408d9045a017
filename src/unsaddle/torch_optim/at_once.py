"""A verdict at once, from an objective that draws its own fresh samples."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.optim import Optimizer

from unsaddle.cost import Ledger
from unsaddle.curvature.question import Question
from unsaddle.curvature.result import Curvature, Status
from unsaddle.judgement.judge import Kind, judge
from unsaddle.objective import BaseObjective, Objective, Observed, as_objective, point_of, with_its_ranks
from unsaddle.torch_optim import policy
from unsaddle.torch_optim.batch import Maximized, trained_part
from unsaddle.torch_optim.events import Event
from unsaddle.torch_optim.evidence import Evidence, Fields, of_the_negative
from unsaddle.torch_optim.flatness import ALL_ZERO, Flatness
from unsaddle.torch_optim.in_moments import answered
from unsaddle.torch_optim.rules import Rules
from unsaddle.torch_optim.state import State
from unsaddle.torch_optim.step_length import length_along, scattered


@with_its_ranks
def decide(
    objective: Objective,
    base: Optimizer,
    state: State,
    rules: Rules,
    samples: int | None,
    sign: float = 1.0,
) -> Event:
    """Finds a direction on one sample, confirms it on fresh ones, tries the step on others, and takes it.

    `objective` needs `parameters`, `point` and `assign`, as a `ModelObjective` has them; `base` is the optimizer
    that trains them; `samples` is |S|, None for everything; `sign` is −1 where the loss is maximized. The cost and the
    verdict are written into `state`.
    """
    over = as_objective(objective if sign > 0.0 else Maximized(objective))
    flat = trained_part(objective, [p for group in base.param_groups for p in group["params"]])
    flatness, ledger = Flatness(flat), Ledger()
    try:
        x = point_of(over, None)
        state.probes += 1
        question = rules.question(state.probes, samples=samples)
        found, seen_at = answered(Observed(over, flatness.note), x, question, base)
        (kind, reason), flat_sentence = judge(found), flatness.sentence(found, seen_at)
        at = found.measurements[-1] if found.measurements else None
        sentence = ALL_ZERO if found.hessian_vanishes else reason
        fields: Fields = {"curvature": found.lowest, "verdict": "undecided", "sentence": sentence}
        if at is not None:
            fields |= {"curvature": at.curvature, "error": at.error}
            evidence = Evidence(at.curvature, at.error, " on fresh samples" if at.fresh else "")
        if flat_sentence is not None:
            fields |= {"verdict": "flat", "sentence": flat_sentence}
        elif kind is Kind.MINIMUM:
            fields |= {"verdict": "none", "sentence": f"No curvature below {-found.gamma:.3g}."}
        elif kind is Kind.SADDLE and rules.escape and found.direction is not None:
            fields |= _escape(
                over,
                x,
                found,
                scattered(flatness.used(found.direction), flat, question.seed),
                evidence,
                question,
                ledger,
            )
        elif kind is Kind.SADDLE:
            fields |= evidence.not_left()
        elif found.status is Status.SAMPLE_ONLY:
            fields |= evidence.noise(found.measurements[0].curvature, "sample")
    finally:
        flat.forget()
    spent = found.cost.gradients + ledger.gradients + ledger.values
    state.spent += spent
    event = Event(step=state.steps, gradients=spent, **(fields if sign > 0.0 else of_the_negative(fields)))
    policy.end(state, rules, event.row(), escaped=event.escaped)
    return event


def _escape(
    objective: BaseObjective,
    x: Tensor,
    found: Curvature,
    v: Tensor,
    evidence: Evidence,
    question: Question,
    ledger: Ledger,
) -> Fields:
    """Finds the length on one fresh sample, tries it on others, and takes the step if the loss falls."""
    generator = torch.Generator().manual_seed(question.seed)
    f = objective.sample(question.samples, generator, ledger=ledger)
    everything = objective.num_samples is not None and f.size >= objective.num_samples
    length = length_along(f, x, v, radius=found.radius)
    if length == 0.0:
        return evidence.no_step()
    changes: list[float] = []
    opposite: list[float] = []
    answer = "more"
    while answer == "more":
        g = f if everything else objective.sample(question.samples, generator, ledger=ledger)
        value = float(g.value(x))
        changes.append(float(g.value(torch.add(x, v, alpha=length))) - value)
        opposite.append(float(g.value(torch.sub(x, v, alpha=length))) - value)
        if everything:
            answer = "better" if min(changes[0], opposite[0]) < 0.0 else "failed"
        else:
            answer = policy.trial(changes, opposite)
    length, changes = policy.lower_side(length, changes, opposite)
    mean, error = (changes[0], 0.0) if everything else policy.interval(changes)
    taken = answer == "better"
    if taken:
        objective.assign(torch.add(x, v, alpha=length))
    return evidence.tried(length, mean, error, taken=taken)
