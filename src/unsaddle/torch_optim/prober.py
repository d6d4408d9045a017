"""The acts of `Neon`: an extraction, a confirmation, a trial. `policy` says when each is due and what it proves."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from unsaddle.curvature.extract import answer
from unsaddle.curvature.result import Status
from unsaddle.judgement.judge import Kind, judge
from unsaddle.objective import Observed
from unsaddle.objectives.model.parameters import FlatParameters
from unsaddle.torch_optim import acts, policy
from unsaddle.torch_optim.closure import Closure, ClosureObjective
from unsaddle.torch_optim.events import CANDIDATE, Event
from unsaddle.torch_optim.flatness import Flatness

Outcome = Callable[[], Event]
"""What an act leads to; made into an event when all that the act cost is known."""

ROUGH = 4.0
"""Where the radii disagree, fresh batches are asked at so many times the probe radius."""

CHANGED = "The parameters changed before the candidate was confirmed."

NOT_FINITE = "The loss or its gradient was not finite on a fresh batch; look for NaN and Inf there."


class Prober:
    """Goes from one phase to the next, one batch at a time, and writes all it knows into `state`."""

    def __init__(self, rules: policy.Rules, state: policy.State) -> None:
        self.rules, self.state = rules, state
        self._seen: tuple[float, ...] = ()
        """Losses and slopes that the last batch gave."""
        self._fresh = False
        """Whether it is an error if they come again: set by each `advance`."""

    def forget(self) -> None:
        """Drop the candidate that waits for fresh batches, if there is one."""
        if self.state.phase != policy.IDLE:
            self._verdict("undecided", CHANGED)

    def advance(self, closure: Closure, flat: FlatParameters, *, fresh: bool = False) -> Event:
        """The next act, on the closure's batch. One verdict takes several.

        Args:
            closure: for one batch.
            flat: the parameters.
            fresh: whether the same batch as in the last act is an error; in training it may be all there is.
        """
        state, objective = self.state, ClosureObjective(closure, flat)
        self._fresh = fresh
        act = {policy.IDLE: self._extract, policy.CONFIRM: self._confirm, policy.TRIAL: self._try}[state.phase]
        if state.phase != policy.IDLE and (state.direction is None or state.direction.numel() != flat.dimension):
            return self._verdict("undecided", CHANGED)
        try:
            outcome = act(objective)
        finally:  # Also what was evaluated before an exception has been spent.
            state.spent += objective.evaluations
            state.gradients += objective.evaluations
            flat.forget()
        return outcome()

    def _extract(self, objective: ClosureObjective) -> Outcome:
        """Seek a direction on one batch."""
        state, rules = self.state, self.rules
        objective.check()
        state.probes += 1
        x, flatness = objective.point, Flatness(objective.parameters)
        question = rules.question(state.probes, extractor="krylov", max_gradients=policy.EXTRACTION)
        found = answer(Observed(objective, flatness.note), x, question)
        kind, reason = judge(found)
        seen = found.measurements[-1].curvature if found.measurements else found.lowest
        flat = flatness.sentence(found, x)
        if flat is not None and (found.direction is None or flatness.all_flat(found, x)):
            return partial(self._verdict, "flat", flat, curvature=seen)
        if kind is Kind.SADDLE and found.direction is not None:
            policy.begin(state, found.direction, radius=found.radius, gamma=found.gamma, curvature=found.curvature)
            return self._pending
        # Radii that disagree, as kinks make them, average out over batches and distance; and what the budget did not
        # suffice to resolve may be negative all the same: let fresh batches decide.
        rough = found.status is Status.NOT_CONFIRMED
        if (rough or found.status is Status.BUDGET_SPENT) and found.deciding and seen < -found.gamma / 2.0:
            radius = (ROUGH if rough else 1.0) * found.radius
            policy.begin(state, found.deciding[0], radius=radius, gamma=found.gamma, curvature=seen)
            return self._pending
        spent = found.status is Status.BUDGET_SPENT and found.lowest > -found.gamma / 2.0
        if kind is Kind.MINIMUM or spent:
            proved = f", as far as {policy.EXTRACTION} gradients tell" if spent else ""
            return partial(
                self._verdict, "none", f"No curvature below {-found.gamma:.3g} on this batch{proved}.", curvature=seen
            )
        return partial(self._verdict, "undecided", reason, curvature=seen)

    def _confirm(self, objective: ClosureObjective) -> Outcome:
        """The curvature along the candidate on one more batch; when it is believed, the length of the step."""
        state, r, v = self.state, self.state.radius, self.state.direction
        assert v is not None
        f, x = objective.sample(), objective.point
        ends = acts.at(f, x, v, r), acts.at(f, x, v, -r)
        self._check_fresh(*ends[0], *ends[1])
        state.curvatures.append((ends[0][1] - ends[1][1]) / (2.0 * r))
        answer = policy.confirmation(state)
        mean, error = policy.interval(state.curvatures)
        if answer == "more":
            return self._pending
        if not math.isfinite(mean):
            return partial(self._verdict, "undecided", NOT_FINITE)
        if answer == "batch only":
            return partial(
                self._verdict,
                "batch only",
                f"Curvature {state.found:.3g} on the batch it was found on, {mean:.3g} ± {error:.2g} on "
                f"{policy.batches(state.curvatures)}: noise of one batch, the normal answer in mid-training.",
            )
        if answer == "undecided":
            return partial(
                self._verdict,
                "undecided",
                f"Curvature {mean:.3g} ± {error:.2g} on {policy.batches(state.curvatures)}: larger batches would "
                "decide.",
            )
        if not self.rules.escape:
            return partial(
                self._verdict,
                "saddle",
                f"Curvature {mean:.3g} ± {error:.2g} on {policy.batches(state.curvatures)}. Not left, since "
                "escape=False.",
            )
        step = acts.length_along(f, x, v, radius=r)
        if step == 0.0:
            return partial(
                self._verdict,
                "trial failed",
                f"Curvature {mean:.3g} ± {error:.2g} on {policy.batches(state.curvatures)}, but no step along the "
                "direction lowers the loss of a batch.",
            )
        state.phase, state.length = policy.TRIAL, step
        return self._pending

    def _try(self, objective: ClosureObjective) -> Outcome:
        """The step on one more batch; on the last, the jump."""
        state, v = self.state, self.state.direction
        assert v is not None
        f, x = objective.sample(), objective.point
        value = float(f.value(x))
        ends = acts.at(f, x, v, state.length), acts.at(f, x, v, -state.length)
        self._check_fresh(*ends[0], *ends[1])
        state.changes.append(ends[0][0] - value)
        state.opposite.append(ends[1][0] - value)
        answer = policy.trial(state.changes, state.opposite)
        if answer == "more":
            return self._pending
        if not math.isfinite(sum(state.changes) + sum(state.opposite)):
            return partial(self._verdict, "trial failed", NOT_FINITE)
        if sum(state.opposite) < sum(state.changes):
            state.changes, state.length = state.opposite, -state.length
        mean, error = policy.interval(state.changes)
        curvature, curvature_error = policy.interval(state.curvatures)
        confirmed = f"Curvature {curvature:.3g} ± {curvature_error:.2g} on {policy.batches(state.curvatures)}"
        tried = f"a step of length {abs(state.length):.3g} changes the loss by {mean:.3g} ± {error:.2g}"
        on = f"on {len(state.changes)} more"
        if answer == "failed":
            return partial(self._verdict, "trial failed", f"{confirmed}, but {tried} {on}. Not taken.")
        objective.assign(torch.add(x, v, alpha=state.length))
        return partial(self._verdict, "saddle", f"{confirmed}; {tried} {on}. Taken.", escaped=True)

    def _check_fresh(self, *numbers: float) -> None:
        if self._fresh and self._seen == numbers:
            raise ValueError(
                "the closure computes the same as the last one, bit for bit, and a candidate is believed on fresh "
                "batches only: pass a closure of other rows; if these are all there are, go on with step(closure), or "
                "probe ModelObjective(model, loss, data)"
            )
        self._seen = numbers

    def _pending(self) -> Event:
        return self._event(CANDIDATE, policy.awaited(self.state))

    def _event(self, verdict: str, sentence: str, **more: Any) -> Event:
        state = self.state
        known: dict[str, Any] = {"curvature": state.found}
        if state.curvatures and state.phase != policy.IDLE:
            known["curvature"], known["error"] = policy.interval(state.curvatures)
        if state.changes and state.phase != policy.IDLE:
            change, known["decrease_error"] = policy.interval(state.changes)
            known |= {"decrease": -change, "length": abs(state.length)}
        return Event(step=state.steps, verdict=verdict, gradients=state.gradients, sentence=sentence, **(known | more))

    def _verdict(self, verdict: str, sentence: str, *, escaped: bool = False, **more: Any) -> Event:
        event = self._event(verdict, sentence, escaped=escaped, **more)
        policy.end(self.state, self.rules, event.row(), escaped=escaped)
        return event
