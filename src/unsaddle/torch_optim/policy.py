"""When to look, when to believe it, when to jump: the rules of `Neon`, and the state they keep.

    idle     plateau, waited long enough, budget left → an extraction on the batch at hand
    confirm  the curvature along the direction on each of the next batches, until its interval decides
    trial    the loss at both ends of the step on each of the next batches; if it falls: jump

No statistic that is free tells a saddle from a healthy plateau under mini-batch noise, so the budget and the back-off
carry the policy, and the plateau test only keeps out of the first fall. A direction found on one batch is mostly that
batch's noise, so nothing is believed before fresh batches say so.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import torch
from torch import Tensor

from unsaddle import ranks
from unsaddle.curvature.question import Question
from unsaddle.measure import student

IDLE, CONFIRM, TRIAL = "idle", "confirm", "trial"

DELTA = 0.05
"""The probability that an unlucky random start hides a curvature below −γ."""

WINDOW = 100
"""Losses that the plateau test looks at, or `every` if that is less."""

SHORTEST_WINDOW = 8

PLATEAU = 1e-3
"""A fall of the mean loss by less than this share of it, from one half of the window to the other, is a plateau, and"""

STANDARD_ERRORS = 2.0
"""so is one by less than so many standard errors."""

EXTRACTION = 48
"""Gradients that an extraction may take, with the measurement of what it finds."""

CONFIRMATIONS = (3, 4, 8)
"""Fresh batches before a candidate may be dropped, before it may be believed, and in all; two gradients each."""

LENGTHS = 17
"""Evaluations of the search for the length of the step: at x, and both ways for each length."""

TRIALS = (4, 8)
"""Fresh batches that a step is tried on, at least and at most, three gradients each: the loss at x and a step to either
side, for each of which a closure calls backward."""

WORST_CASE = 1 + EXTRACTION + 2 * CONFIRMATIONS[2] + LENGTHS + 3 * TRIALS[1]
"""Gradients that a probe takes at most; one is for whether the closure answers the same twice."""

CONFIDENCE = 0.95
"""Of the one-sided t-intervals over fresh batches."""

LONGEST_WAIT = 32
"""The wait doubles with every verdict that is not an escape, up to so many times `every`."""


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What the user chose."""

    gamma: float | None
    every: int
    max_overhead: float
    escape: bool
    seed: int

    @property
    def window(self) -> int:
        return max(SHORTEST_WINDOW, min(WINDOW, self.every))

    def question(self, probe: int, **more: Any) -> Question:
        """What a probe asks; each draws another random start."""
        return Question(gamma=self.gamma, delta=DELTA, seed=self.seed + probe, **more)


@dataclass(kw_only=True)
class State:
    """All that `Neon` remembers: numbers, words and one vector, so that it fits into a checkpoint."""

    phase: str = IDLE
    steps: int = 0
    """Training steps."""
    trained: int = 0
    """Gradients spent on training,"""
    spent: int = 0
    """and on probing."""
    probes: int = 0
    """Extractions begun; the seed of the next one."""
    wait: int = 0
    """Steps to wait after the last verdict."""
    since: int = 0
    """When that was."""
    losses: list[float | Tensor] = field(default_factory=list)
    """The window; 0-dimensional tensors until somebody looks, since reading one waits for the device."""
    direction: Tensor | None = None
    """Of the candidate, a unit vector over all parameters that require gradients."""
    radius: float = math.nan
    """Probe radius of the candidate."""
    gamma: float = math.nan
    """What was looked for when it was found."""
    found: float = math.nan
    """Its curvature on the batch that it was found on."""
    curvatures: list[float] = field(default_factory=list)
    """The same on fresh batches."""
    length: float = math.nan
    """Of the step on trial."""
    changes: list[float] = field(default_factory=list)
    """Of the loss by that step, on fresh batches,"""
    opposite: list[float] = field(default_factory=list)
    """and by the opposite one."""
    gradients: int = 0
    """Spent on the probe that is under way."""
    events: list[dict[str, Any]] = field(default_factory=list)
    """Rows."""

    def to_dict(self) -> dict[str, Any]:
        """For a checkpoint: plain numbers, words, lists, and the direction."""
        return {f.name: _copy(getattr(self, f.name)) for f in fields(self)} | {
            "losses": [float(x) for x in self.losses]
        }

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> State:
        known = {f.name for f in fields(cls)}
        if unknown := set(saved) - known:
            raise ValueError(
                f"the checkpoint's state of Neon has {', '.join(sorted(unknown))}, which this version does not know; "
                "load it with the version that wrote it, or delete its entry 'neon' to start afresh"
            )
        return cls(**{name: _copy(value) for name, value in saved.items()})


def _copy(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, list):
        return [dict(item) if isinstance(item, dict) else item for item in value]
    return value


def record(state: State, rules: Rules, loss: Any, gradients: int) -> None:
    """Write down a training step that returned `loss`."""
    state.steps += 1
    state.trained += gradients
    if loss is None:
        return
    if isinstance(loss, Tensor):
        loss = loss.detach().reshape(()).clone() if loss.numel() == 1 else math.nan  # The caller may reuse its memory.
    team = ranks.current()
    if team is not None:  # Each has the loss of its own batch, and all must decide alike.
        loss = team.mean(torch.as_tensor(loss, dtype=torch.float64 if isinstance(loss, float) else None))
    state.losses.append(loss)
    del state.losses[: -rules.window]


def due(state: State, rules: Rules) -> bool:
    """Whether to look now."""
    return waited(state, rules) and affordable(state, rules) and plateau(state, rules)


def waited(state: State, rules: Rules) -> bool:
    """Whether the last verdict was long enough ago, and none is under way."""
    return state.phase == IDLE and state.steps - state.since >= max(rules.every, state.wait)


def affordable(state: State, rules: Rules) -> bool:
    """Whether a probe that goes on to its end stays within the budget. Up to the first verdict, one is on credit."""
    if rules.max_overhead == 0.0:
        return False
    on_credit = not state.events and state.spent < WORST_CASE
    return on_credit or state.spent + WORST_CASE <= rules.max_overhead * state.trained


def plateau(state: State, rules: Rules) -> bool:
    """Whether the loss has stopped falling, as far as a full window tells. A loss that is not finite is no plateau."""
    if len(state.losses) < rules.window:
        return False
    losses = [float(loss) for loss in state.losses]
    state.losses = [*losses]
    if not all(math.isfinite(loss) for loss in losses):
        return False
    half = rules.window // 2
    older, newer = losses[:half], losses[half:]
    fall = statistics.fmean(older) - statistics.fmean(newer)
    error = math.sqrt(statistics.variance(older) / len(older) + statistics.variance(newer) / len(newer))
    return fall <= max(STANDARD_ERRORS * error, PLATEAU * abs(statistics.fmean(losses)))


def interval(numbers: Sequence[float]) -> tuple[float, float]:
    """Mean, and the half-width of a one-sided t-interval for it; nan from fewer than two."""
    mean = statistics.fmean(numbers) if numbers else math.nan
    if len(numbers) < 2:
        return mean, math.nan
    spread = statistics.stdev(numbers) if math.isfinite(mean) else math.nan
    return mean, student.quantile(CONFIDENCE, len(numbers) - 1) * spread / math.sqrt(len(numbers))


def confirmation(state: State) -> str:
    """What fresh batches say of the candidate so far: "more", "batch only", "confirmed" or "undecided"."""
    to_drop, to_believe, most = CONFIRMATIONS
    n = len(state.curvatures)
    mean, error = interval(state.curvatures)
    if n >= to_drop and mean - error > -state.gamma / 2.0:
        return "batch only"
    if n >= to_believe and mean + error < -state.gamma / 2.0:
        return "confirmed"
    return "undecided" if n >= most or not math.isfinite(mean) else "more"


def trial(changes: Sequence[float], opposite: Sequence[float]) -> str:
    """What fresh batches say of the step and its opposite so far: "more", "better" or "failed".

    Half the sum of both changes is what curvature does to the loss. The slopes of single batches, which are most of the
    noise, cancel in it; which way to go, they only tell on average.
    """
    least, most = TRIALS
    n = len(changes)
    even, error = interval([(a + b) / 2.0 for a, b in zip(changes, opposite, strict=True)])
    if n < least and math.isfinite(even):
        return "more"
    if even + error < 0.0 and min(statistics.fmean(changes), statistics.fmean(opposite)) < 0.0:
        return "better"
    return "failed" if n >= most or not even - error < 0.0 else "more"


def batches(numbers: Sequence[float]) -> str:
    """What `numbers` come from, in words. Where they are all the same, nothing tells that the batches were fresh."""
    repeated = len(numbers) > 1 and len(set(numbers)) == 1
    return f"{len(numbers)} batches, the same on each" if repeated else f"{len(numbers)} fresh batches"


def awaited(state: State) -> str:
    """What a candidate waits for, in words."""
    if state.phase == TRIAL:
        least, most = TRIALS
        return f"A step along it is tried on fresh batches: {len(state.changes)} so far, {least} to {most} decide."
    least, _, most = CONFIRMATIONS
    if not state.curvatures:
        return f"Negative curvature on one batch: {least} to {most} fresh batches will tell."
    return f"Negative curvature on one batch; on fresh ones: {len(state.curvatures)} so far, {least} to {most} decide."


def begin(state: State, direction: Tensor, *, radius: float, gamma: float, curvature: float) -> None:
    """A candidate was found: wait for fresh batches."""
    state.phase, state.direction = CONFIRM, direction
    state.radius, state.gamma, state.found = radius, gamma, curvature
    state.curvatures, state.changes, state.opposite, state.length = [], [], [], math.nan


def end(state: State, rules: Rules, event: dict[str, Any], *, escaped: bool) -> None:
    """A verdict: write it down, forget the candidate, and wait, twice as long unless it was an escape."""
    state.events.append(event)
    state.phase, state.direction, state.gradients = IDLE, None, 0
    state.since = state.steps
    state.wait = rules.every if escaped else min(2 * max(state.wait, rules.every), LONGEST_WAIT * rules.every)
    if escaped:
        state.losses.clear()
