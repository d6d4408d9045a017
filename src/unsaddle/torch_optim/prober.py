"""The work of `Neon` on one batch: an extraction, a confirmation or a trial. `policy` says when, and what it proves."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.optim import Optimizer

from unsaddle.curvature.result import Status
from unsaddle.judgement.judge import Kind, judge
from unsaddle.objective import Observed
from unsaddle.objectives.model.parameters import FlatParameters
from unsaddle.torch_optim import policy
from unsaddle.torch_optim.closure import Closure, ClosureObjective
from unsaddle.torch_optim.events import CANDIDATE, Event
from unsaddle.torch_optim.evidence import Evidence, Fields, of_step
from unsaddle.torch_optim.flatness import Flatness
from unsaddle.torch_optim.in_moments import answered
from unsaddle.torch_optim.step_length import at, length_along

ROUGH = 4.0
"""Where the radii disagree, fresh batches are probed at this multiple of the probe radius."""

CHANGED = {"verdict": "undecided", "sentence": "The parameters changed before the candidate was confirmed."}

NOT_FINITE = "The loss or its gradient was not finite on a fresh batch; look for NaN and Inf there."


class Prober:
    """Goes from phase to phase, one batch at a time. Everything it has to remember is in `state`."""

    def __init__(self, rules: policy.Rules, state: policy.State, base: Optimizer) -> None:
        self.rules, self.state, self.base = rules, state, base
        self._seen: tuple[float, ...] = ()
        """Losses and slopes of the last batch."""
        self._fresh = False
        """Whether the same losses and slopes once more are an error."""

    def forget(self) -> None:
        """Drops the candidate that waits for fresh batches, if there is one."""
        if self.state.phase != policy.IDLE:
            self._verdict(CHANGED)

    def advance(self, closure: Closure, flat: FlatParameters, *, fresh: bool = False) -> Event:
        """Does the next piece of work on the closure's batch. With `fresh`, the batch of the last call is an error."""
        state, objective = self.state, ClosureObjective(closure, flat)
        self._fresh = fresh
        act = {policy.IDLE: self._extract, policy.CONFIRM: self._confirm, policy.TRIAL: self._try}[state.phase]
        if state.phase != policy.IDLE and (state.direction is None or state.direction.numel() != flat.dimension):
            return self._verdict(CHANGED)
        try:
            fields = act(objective)
        finally:  # Evaluations before an exception count, too.
            state.spent += objective.evaluations
            state.gradients += objective.evaluations
            flat.forget()
        if fields is None:
            return self._event({"verdict": CANDIDATE, "sentence": policy.awaited(state)})
        return self._verdict(fields)

    def _extract(self, objective: ClosureObjective) -> Fields | None:
        """Seeks a direction on one batch. Returns None if it found a candidate."""
        state, rules = self.state, self.rules
        objective.check()
        state.probes += 1
        x, flatness = objective.point, Flatness(objective.parameters)
        question = rules.question(state.probes, extractor="krylov", max_gradients=policy.EXTRACTION)
        found, seen_at = answered(Observed(objective, flatness.note), x, question, self.base)
        kind, reason = judge(found)
        seen = found.measurements[-1].curvature if found.measurements else found.lowest
        flat = flatness.sentence(found, seen_at)
        if flat is not None:
            return {"verdict": "flat", "sentence": flat, "curvature": seen}
        if kind is Kind.SADDLE and found.direction is not None:
            policy.begin(state, found.direction, radius=found.radius, gamma=found.gamma, curvature=found.curvature)
            return None
        # Fresh batches decide two more cases. Radii that disagree, as at kinks, average out over batches and distance.
        # And curvature that the budget did not resolve may be negative all the same.
        rough, spent = found.status is Status.NOT_CONFIRMED, found.status is Status.BUDGET_SPENT
        if (rough or spent) and found.deciding and seen < -found.gamma / 2.0:
            radius = (ROUGH if rough else 1.0) * found.radius
            policy.begin(state, found.deciding[0], radius=radius, gamma=found.gamma, curvature=seen)
            return None
        spent = spent and found.lowest > -found.gamma / 2.0
        if kind is not Kind.MINIMUM and not spent:
            return {"verdict": "undecided", "sentence": reason, "curvature": seen}
        proved = f", as far as {policy.EXTRACTION} gradients tell" if spent else ""
        sentence = f"No curvature below {-found.gamma:.3g} on this batch{proved}."
        return {"verdict": "none", "sentence": sentence, "curvature": seen}

    def _confirm(self, objective: ClosureObjective) -> Fields | None:
        """Measures the curvature on one more batch. Once it is confirmed, finds the length of the step."""
        state, r, v = self.state, self.state.radius, self.state.direction
        assert v is not None
        f, x = objective.sample(), objective.point
        ends = at(f, x, v, r), at(f, x, v, -r)
        self._check_fresh(*ends[0], *ends[1])
        state.curvatures.append((ends[0][1] - ends[1][1]) / (2.0 * r))
        answer, evidence = policy.confirmation(state), Evidence.of(state.curvatures)
        if answer == "more":
            return None
        if not math.isfinite(evidence.curvature):
            return {"verdict": "undecided", "sentence": NOT_FINITE}
        if answer == "batch only":
            return evidence.noise(state.found, "batch")
        if answer == "undecided":
            return {"verdict": "undecided", "sentence": f"{evidence}: larger batches would decide."}
        if not self.rules.escape:
            return evidence.not_left()
        length = length_along(f, x, v, radius=r)
        if length == 0.0:
            return evidence.no_step()
        state.phase, state.length = policy.TRIAL, length
        return None

    def _try(self, objective: ClosureObjective) -> Fields | None:
        """Tries the step on one more batch. On the last one, takes it if the loss falls."""
        state, v = self.state, self.state.direction
        assert v is not None
        f, x = objective.sample(), objective.point
        value = float(f.value(x))
        ends = at(f, x, v, state.length), at(f, x, v, -state.length)
        self._check_fresh(*ends[0], *ends[1])
        state.changes.append(ends[0][0] - value)
        state.opposite.append(ends[1][0] - value)
        answer = policy.trial(state.changes, state.opposite)
        if answer == "more":
            return None
        if not math.isfinite(sum(state.changes) + sum(state.opposite)):
            return {"verdict": "trial failed", "sentence": NOT_FINITE}
        state.length, state.changes = policy.lower_side(state.length, state.changes, state.opposite)
        taken, on = answer == "better", f" on {len(state.changes)} more"
        if taken:
            objective.assign(torch.add(x, v, alpha=state.length))
        return Evidence.of(state.curvatures).tried(state.length, *policy.interval(state.changes), on, taken=taken)

    def _check_fresh(self, *numbers: float) -> None:
        if self._fresh and self._seen == numbers:
            raise ValueError(
                "the closure computes the same as the last one, bit for bit, and a candidate is believed on fresh "
                "batches only: pass a closure of other rows; if these are all there are, go on with step(closure), or "
                "probe ModelObjective(model, loss, data)"
            )
        self._seen = numbers

    def _event(self, fields: Fields) -> Event:
        state = self.state
        known: dict[str, Any] = {"curvature": state.found}
        if state.curvatures and state.phase != policy.IDLE:
            known["curvature"], known["error"] = policy.interval(state.curvatures)
        if state.changes and state.phase != policy.IDLE:
            known |= of_step(state.length, *policy.interval(state.changes))
        return Event(step=state.steps, gradients=state.gradients, **(known | fields))

    def _verdict(self, fields: Fields) -> Event:
        event = self._event(fields)
        policy.end(self.state, self.rules, event.row(), escaped=event.escaped)
        return event
