"""The work of `Neon` on one batch: an extraction, a confirmation or a trial. `policy` says when, and what it proves."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.curvature.extract import answer
from unsaddle.curvature.result import Curvature, Status
from unsaddle.judgement.judge import Kind, judge
from unsaddle.objective import Observed
from unsaddle.torch_optim import online, policy
from unsaddle.torch_optim.batch import DrawnBatch
from unsaddle.torch_optim.closure import ClosureObjective
from unsaddle.torch_optim.events import CANDIDATE, Event
from unsaddle.torch_optim.evidence import Evidence, Fields, of_step, of_the_negative
from unsaddle.torch_optim.flatness import ALL_ZERO, SOFT_LOSS, Flatness, hessian_vanishes
from unsaddle.torch_optim.rules import Rules
from unsaddle.torch_optim.state import COLLECT, IDLE, TRIAL, State
from unsaddle.torch_optim.step_length import at, length_along, scattered

ROUGH = 4.0
"""Where the radii disagree, fresh batches are probed at this multiple of the probe radius."""

Batch = ClosureObjective | DrawnBatch
"""One frozen batch, from a closure or drawn by an objective."""

CHANGED = {"verdict": "undecided", "sentence": "The parameters changed before the candidate was confirmed."}

SPENT = "Up to {} gradients on one batch did not tell. Pass a larger gamma, or larger batches."

NOT_FINITE = "The loss or its gradient was not finite on a fresh batch; look for NaN and Inf there."


class Prober:
    """Goes from phase to phase, one batch at a time. Everything it has to remember is in `state`."""

    def __init__(self, rules: Rules, state: State) -> None:
        self.rules, self.state = rules, state
        self._seen: tuple[float, ...] = ()
        """Losses, and slopes or the gradient's norm, of the last batch."""
        self._fresh = False
        """Whether the same numbers once more are an error."""

    def forget(self) -> None:
        """Drops the candidate that waits for fresh batches, if there is one."""
        if self.state.phase != IDLE:
            self._verdict(CHANGED)

    def advance(self, batch: Batch, *, at_x: Tensor | None = None, fresh: bool = False) -> Event:
        """Does the next piece of work on one batch.

        Args:
            batch: the batch as an objective over the trained parameters.
            at_x: its gradient at the current parameters, if that is known.
            fresh: whether the batch of the last call is an error.
        """
        state = self.state
        self._fresh = fresh
        act = self._extract if state.phase == IDLE else self._try
        if state.phase != IDLE and (state.direction is None or state.direction.numel() != batch.parameters.dimension):
            return self._verdict(CHANGED)
        before = batch.evaluations
        try:
            fields = self._collect(batch, at_x) if state.phase == COLLECT else act(batch)
        finally:  # Evaluations before an exception count, too.
            state.spent += batch.evaluations - before
            state.gradients += batch.evaluations - before
            batch.parameters.forget()
        if fields is None:
            return self._event({"verdict": CANDIDATE, "sentence": policy.awaited(state)})
        return self._verdict(of_the_negative(fields) if batch.sign < 0.0 else fields)

    def _extract(self, objective: Batch) -> Fields | None:
        """Seeks a direction on one batch. Returns None if it found a candidate."""
        state, rules = self.state, self.rules
        objective.check()
        x, flatness = objective.point, Flatness(objective.parameters)
        question = policy.extraction(state, rules)
        found = answer(Observed(objective, flatness.note), x, question)
        kind, reason = judge(found)
        seen = found.measurements[-1].curvature if found.measurements else found.lowest
        flat = flatness.sentence(found, x)
        if flat is not None:
            return {"verdict": "flat", "sentence": flat, "curvature": seen}
        if kind is Kind.SADDLE and found.direction is not None:
            self._begin(found, flatness.used(found.direction), found.radius, found.curvature)
            return None
        # Fresh batches decide two more cases. Radii that disagree, as at kinks, average out over batches and distance.
        # And curvature that the budget did not resolve may be negative all the same.
        rough, spent = found.status is Status.NOT_CONFIRMED, found.status is Status.BUDGET_SPENT
        if (rough or spent) and found.deciding and seen < -found.gamma / 2.0:
            radius = (ROUGH if rough else 1.0) * found.radius
            self._begin(found, flatness.used(found.deciding[0]), radius, seen)
            return None
        if spent and found.lowest <= -found.gamma / 2.0:
            soft = flatness.all_flat(found, x, SOFT_LOSS)
            zero = soft and hessian_vanishes(objective.sample(), x, found.radius, question.seed)
            sentence = ALL_ZERO if zero else SPENT.format(question.max_gradients)
            return {"verdict": "undecided", "sentence": sentence, "curvature": seen}
        if kind is not Kind.MINIMUM and not spent:
            sentence = ALL_ZERO if found.hessian_vanishes else reason
            return {"verdict": "undecided", "sentence": sentence, "curvature": seen}
        proved = f", as far as {question.max_gradients} gradients tell" if spent else ""
        sentence = f"No curvature below {-found.gamma:.3g} on this batch{proved}."
        return {"verdict": "none", "sentence": sentence, "curvature": seen}

    def _begin(self, found: Curvature, direction: Tensor, radius: float, curvature: float) -> None:
        gamma = found.gamma if curvature <= -found.gamma / 2.0 else -curvature / 2.0  # It may be softer than asked for.
        known = {"radius": radius, "gamma": gamma, "curvature": curvature, "smoothness": found.smoothness}
        policy.begin(self.state, direction, **known)

    def _collect(self, objective: Batch, at_x: Tensor | None) -> Fields | None:
        """Measures the direction on one more batch, and turns it. Once it is confirmed, finds a length for the step."""
        state, r, u = self.state, self.state.radius, self.state.direction
        assert u is not None
        f, x = objective.sample(), objective.point
        if at_x is None:
            value, at_x = f.value_and_grad(x)
            self._check_fresh(float(value), vectors.norm(at_x))
        seen = online.look(u, at_x, f.grad_at_sum(x, u, r), r)
        state.curvatures.append(seen.curvature)
        interval = policy.collected(state)
        answer, evidence = policy.confirmation(state, interval), Evidence.of(state)
        if answer == "more":
            state.smoothness = max(state.smoothness, seen.size)
            state.direction = online.turn(
                u, seen.product, smoothness=state.smoothness, number=len(state.curvatures) - 1
            )
            return None
        if answer == "undecided":
            finite = math.isfinite(seen.curvature)
            return {"verdict": "undecided", "sentence": policy.undecided(state) if finite else NOT_FINITE}
        if answer == "batch only":
            return evidence.noise(state.found, "batch")
        if not self.rules.escape:
            return evidence.not_left()
        v = scattered(u, objective.parameters, self.rules.seed + state.probes)
        length = length_along(f, x, v, radius=r)
        if length == 0.0:
            return evidence.no_step()
        state.phase, state.length, state.direction = TRIAL, length, v
        return None

    def tell(self) -> Event | None:
        """An event at the end of a burst that has not decided, once. The candidate stays, and goes on collecting."""
        state = self.state
        over = state.phase == COLLECT and not state.told and not policy.in_burst(state, self.rules)
        if not over:
            return None
        state.told = True
        event = self._event({"verdict": "undecided", "sentence": policy.undecided(state)})
        state.events.append(event.row())
        state.gradients = 0
        return event

    def _try(self, objective: Batch) -> Fields | None:
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
        return Evidence.of(state).tried(state.length, *policy.interval(state.changes), on, taken=taken)

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
        if state.curvatures and state.phase != IDLE:
            seen = policy.collected(state)
            known["curvature"], known["error"] = seen.mean, policy.one_sided(state, seen)
        if state.changes and state.phase != IDLE:
            known |= of_step(state.length, *policy.interval(state.changes))
        return Event(step=state.steps, gradients=state.gradients, **(known | fields))

    def _verdict(self, fields: Fields) -> Event:
        event = self._event(fields)
        policy.end(self.state, self.rules, event.row(), escaped=event.escaped)
        return event
