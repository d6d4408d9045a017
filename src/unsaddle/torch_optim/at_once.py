"""A verdict at once, from an objective that draws its own fresh samples."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from unsaddle.cost import Ledger
from unsaddle.curvature.extract import answer
from unsaddle.curvature.result import Curvature, Status
from unsaddle.judgement.judge import Kind, judge
from unsaddle.objective import BaseObjective, Objective, Observed, as_objective, point_of, with_its_ranks
from unsaddle.objectives.model.parameters import FlatParameters
from unsaddle.torch_optim import acts, policy
from unsaddle.torch_optim.events import Event
from unsaddle.torch_optim.flatness import Flatness


@with_its_ranks
def decide(
    objective: Objective, trained: list[Tensor], state: policy.State, rules: policy.Rules, samples: int | None
) -> Event:
    """Extract on one sample, confirm on fresh ones, try the step on others, and take it.

    Args:
        objective: a `ModelObjective`, or an objective with its `parameters`, `point` and `assign`.
        trained: the optimizer's parameters.
        state: what it costs and the verdict are written here.
        rules: γ, the seed, and whether to escape.
        samples: |S|; None for everything.
    """
    over = as_objective(objective)
    flat = over.parameters
    if not isinstance(flat, FlatParameters):
        raise TypeError(
            f"probe needs an objective over the parameters that are trained, as ModelObjective(model, loss, data), got "
            f"{over.name}"
        )
    known = {id(p) for p in trained}
    strange = [name for name, p in zip(flat.names, flat.tensors, strict=True) if id(p) not in known]
    if strange:
        raise ValueError(
            f"the objective varies {strange[0]!r}, which the optimizer does not train; probe the same model, and leave "
            "such parameters out with ModelObjective(..., parameters=...)"
        )
    try:
        return _decide(over, flat, state, rules, samples)
    finally:
        flat.forget()


def _decide(
    objective: BaseObjective, flat: FlatParameters, state: policy.State, rules: policy.Rules, samples: int | None
) -> Event:
    x, flatness = point_of(objective, None), Flatness(flat)
    state.probes += 1
    question = rules.question(state.probes, samples=samples)
    found = answer(Observed(objective, flatness.note), x, question)
    ledger = Ledger()
    at = found.measurements[-1] if found.measurements else None
    fields: dict[str, Any] = {"curvature": found.lowest if at is None else at.curvature}
    if at is not None:
        fields["error"] = at.error
    verdict, sentence = _verdict(found, flatness, x)
    if verdict == "saddle" and rules.escape and found.direction is not None:
        verdict, more = _escape(objective, x, found, samples, rules.seed + state.probes, ledger)
        sentence, fields = f"{sentence[:-1]}{more.pop('sentence')}", fields | more
    elif verdict == "saddle":
        sentence += " Not left, since escape=False."
    spent = found.cost.gradients + ledger.gradients + ledger.values
    state.spent += spent
    event = Event(step=state.steps, verdict=verdict, sentence=sentence, gradients=spent, **fields)
    policy.end(state, rules, event.row(), escaped=event.escaped)
    return event


def _verdict(found: Curvature, flatness: Flatness, x: Tensor) -> tuple[str, str]:
    flat, (kind, reason) = flatness.sentence(found, x), judge(found)
    if flat is not None and (found.direction is None or flatness.all_flat(found, x)):
        return "flat", flat
    if kind is Kind.MINIMUM:
        return "none", f"No curvature below {-found.gamma:.3g}."
    at = found.measurements[-1] if found.measurements else None
    if kind is Kind.SADDLE and at is not None:
        fresh = " on fresh samples" if at.fresh else ""
        return "saddle", f"Curvature {at.curvature:.3g} ± {at.error:.2g}{fresh}."
    if found.status is Status.SAMPLE_ONLY and at is not None:
        own = found.measurements[0].curvature
        return "batch only", (
            f"Curvature {own:.3g} on the sample it was found on, {at.curvature:.3g} ± {at.error:.2g} on fresh ones: "
            "noise of one sample, the normal answer in mid-training."
        )
    return "undecided", reason


def _escape(
    objective: BaseObjective, x: Tensor, found: Curvature, samples: int | None, seed: int, ledger: Ledger
) -> tuple[str, dict[str, Any]]:
    """Find the length on one fresh sample, try it on others, and take the step if the loss falls."""
    assert found.direction is not None
    v, generator = found.direction, torch.Generator().manual_seed(seed)
    f = objective.sample(samples, generator, ledger=ledger)
    everything = objective.num_samples is not None and f.size >= objective.num_samples
    step = acts.length_along(f, x, v, radius=found.radius)
    if step == 0.0:
        return "trial failed", {"sentence": ", but no step along the direction lowers the loss."}
    changes: list[float] = []
    opposite: list[float] = []
    answer = "more"
    while answer == "more":
        g = f if everything else objective.sample(samples, generator, ledger=ledger)
        value = float(g.value(x))
        changes.append(float(g.value(torch.add(x, v, alpha=step))) - value)
        opposite.append(float(g.value(torch.sub(x, v, alpha=step))) - value)
        if everything:
            answer = "better" if min(changes[0], opposite[0]) < 0.0 else "failed"
        else:
            answer = policy.trial(changes, opposite)
    if sum(opposite) < sum(changes):
        changes, step = opposite, -step
    mean, error = (changes[0], 0.0) if everything else policy.interval(changes)
    fields = {"decrease": -mean, "decrease_error": error, "length": abs(step)}
    tried = f"a step of length {abs(step):.3g} changes the loss by {mean:.3g} ± {error:.2g}"
    if answer == "failed":
        return "trial failed", fields | {"sentence": f", but {tried}. Not taken."}
    objective.assign(torch.add(x, v, alpha=step))
    return "saddle", fields | {"sentence": f"; {tried}. Taken.", "escaped": True}
