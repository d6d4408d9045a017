"""The rules of `Neon`, and the state they keep: when to probe, when to believe a direction, when to jump.

    idle     on a plateau, after the wait and within the budget: an extraction on the current batch
    collect  each of the next batches measures the direction and turns it (`online`), until the interval decides
    trial    the loss at both ends of the step on each of the next batches; if it falls: jump

No free statistic tells a saddle from a healthy plateau under mini-batch noise. So the budget and the growing wait carry
the policy, and the plateau test only skips the first fall. A direction found on one batch is mostly that batch's noise:
the batches after it turn it, and tell.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from unsaddle import ranks
from unsaddle.curvature.question import Question
from unsaddle.measure import confidence_sequence, student
from unsaddle.measure.confidence_sequence import Interval

PHASES = IDLE, COLLECT, TRIAL = "idle", "collect", "trial"

DELTA, CONFIDENCE = 0.05, 0.95
"""The probability that an unlucky random start hides a curvature below −γ, and that a curvature's interval is wrong at
any time, on either side; and the confidence of the one-sided t-intervals of a trial."""

WINDOW, SHORTEST_WINDOW = 100, 8
"""Losses that the plateau test uses: `every`, but at most and at least these."""

PLATEAU, STANDARD_ERRORS = 1e-3, 2.0
"""On a plateau the mean loss falls, between the halves of the window, by less than this share or standard errors."""

EXTRACTION, LENGTHS = 60, 17
"""Gradients that an extraction may take, including the measurement along the direction; and evaluations in the search
for the step length, one at x and two for each length."""

BURST, MOST = 48, 256
"""Batches in a row that may measure a direction, one gradient each, and batches in all. The burst goes on while
half the interval is below zero and the loss does not fall; then batches measure as often as `max_overhead` allows."""

TRIALS = (4, 16)
"""Fresh batches that a step is tried on, at least and at most. Each takes three gradients: at x and at both ends."""

WORST_CASE = 1 + EXTRACTION + BURST + LENGTHS + 3 * TRIALS[1]
"""Gradients that a probe takes at most, unless the burst goes on. One of them checks that the closure answers the same
twice."""

LONGEST_WAIT = 32
"""The wait doubles with every verdict that is not an escape, up to this multiple of `every`."""


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The settings of a `Neon`."""

    gamma: float | None
    every: int
    max_overhead: float
    escape: bool
    seed: int

    @property
    def window(self) -> int:
        return max(SHORTEST_WINDOW, min(WINDOW, self.every))

    def question(self, probe: int, **more: Any) -> Question:
        """The question of a probe. Each probe has another random start."""
        return Question(gamma=self.gamma, delta=DELTA, seed=self.seed + probe, **more)


@dataclass(kw_only=True)
class State:
    """Everything that `Neon` remembers and a checkpoint has to hold: numbers, strings and one vector."""

    phase: str = IDLE
    steps: int = 0
    trained: int = 0
    """Gradients spent on training."""
    spent: int = 0
    """Gradients spent on probing."""
    probes: int = 0
    """Extractions begun. Each has another seed."""
    wait: int = 0
    """Steps to wait after the last verdict."""
    since: int = 0
    """The step of the last verdict."""
    losses: list[float | Tensor] = field(default_factory=list)
    """The window. Tensors stay tensors until the plateau test, since reading one waits for the device."""
    values: list[float] = field(default_factory=list)
    """The loss of one sample of the objective, at the end of each of the last two windows; without a closure."""
    direction: Tensor | None = None
    """The candidate: a unit vector over all parameters that require gradients."""
    radius: float = math.nan
    """Probe radius of the candidate."""
    gamma: float = math.nan
    """γ of the extraction that found the candidate."""
    found: float = math.nan
    """Curvature of the candidate on the batch it was found on."""
    smoothness: float = 0.0
    """L1: the largest curvature seen by the extraction, or ‖h‖ by the batches after it."""
    curvatures: list[float] = field(default_factory=list)
    """Curvature on each fresh batch, along the direction as it was then."""
    told: bool = False
    """Whether the end of the burst was reported."""
    length: float = math.nan
    """Length of the step on trial."""
    changes: list[float] = field(default_factory=list)
    """Change of the loss by the step, on each fresh batch."""
    opposite: list[float] = field(default_factory=list)
    """Change of the loss by the opposite step, on each fresh batch."""
    gradients: int = 0
    """Gradients spent on the current probe."""
    events: list[dict[str, Any]] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """A copy for a checkpoint, with losses as plain numbers."""
        copied = {f.name: _copy(getattr(self, f.name)) for f in fields(self)}
        return copied | {"losses": [float(loss) for loss in self.losses]}

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> State:
        expected = "Neon's entry of a state_dict must be what state_dict() made"
        if not isinstance(saved, dict):
            raise TypeError(f"{expected}, got {type(saved).__name__}; delete its entry 'neon' to start afresh")
        if unknown := set(saved) - {f.name for f in fields(cls)}:
            raise ValueError(
                f"the checkpoint's state of Neon has {', '.join(sorted(unknown))}, which this version does not know; "
                "load it with the version that wrote it, or delete its entry 'neon' to start afresh"
            )
        for name, value in saved.items():
            if not _fits(value, getattr(cls(), name)) or (name == "phase" and value not in PHASES):
                raise ValueError(f"{expected}, got {name}={value!r}; delete its entry 'neon' to start afresh")
        return cls(**{name: _copy(value) for name, value in saved.items()})


def _fits(value: Any, default: Any) -> bool:
    """Whether a value has the type of a field with this default. The default None is of a tensor."""
    if default is None:
        return value is None or isinstance(value, Tensor)
    if isinstance(default, float):
        return isinstance(value, (int, float))
    return isinstance(value, type(default))


def _copy(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, list):
        return [dict(item) if isinstance(item, dict) else item for item in value]
    return value


def record(state: State, rules: Rules, loss: Any, gradients: int) -> None:
    """Records a training step that returned `loss`."""
    state.steps += 1
    state.trained += gradients
    if loss is None:
        return
    if isinstance(loss, Tensor):
        loss = loss.detach().reshape(()).clone() if loss.numel() == 1 else math.nan  # The caller may reuse its memory.
    team = ranks.current()
    if team is not None:  # Each rank has the loss of its own batch, and all must decide alike.
        loss = team.mean(torch.as_tensor(loss, dtype=torch.float64 if isinstance(loss, float) else None))
    state.losses.append(loss)
    del state.losses[: -rules.window]


def record_value(state: State, value: float, cost: int) -> None:
    """Records the loss of the objective's sample at the end of a window, and what it cost."""
    state.values = [*state.values[-1:], value]
    state.spent += cost


def due(state: State, rules: Rules) -> bool:
    """Whether to probe now."""
    return waited(state, rules) and affordable(state, rules) and plateau(state, rules)


def waited(state: State, rules: Rules) -> bool:
    """Whether the last verdict was long enough ago, and no probe is under way."""
    return state.phase == IDLE and state.steps - state.since >= max(rules.every, state.wait)


def affordable(state: State, rules: Rules) -> bool:
    """Whether a whole probe stays within the budget. The first probe is on credit."""
    if rules.max_overhead == 0.0:
        return False
    on_credit = not state.events and state.spent < WORST_CASE
    return on_credit or state.spent + WORST_CASE <= rules.max_overhead * state.trained


def plateau(state: State, rules: Rules) -> bool:
    """Whether the loss has stopped falling over a full window. A loss that is not finite is no plateau."""
    if len(state.values) == 2 and not state.losses:
        then, now = state.values
        return math.isfinite(then + now) and then - now <= PLATEAU * abs(now)
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
    """The mean and the half-width of its one-sided t-interval, which is nan for fewer than two numbers."""
    mean = statistics.fmean(numbers) if numbers else math.nan
    if len(numbers) < 2:
        return mean, math.nan
    spread = statistics.stdev(numbers) if math.isfinite(mean) else math.nan
    return mean, student.quantile(CONFIDENCE, len(numbers) - 1) * spread / math.sqrt(len(numbers))


def collected(state: State) -> Interval:
    """The interval of the candidate's curvature, which holds whenever it is looked at."""
    return _interval(tuple(state.curvatures))


@lru_cache(maxsize=2)
def _interval(curvatures: tuple[float, ...]) -> Interval:
    """Cached: in one step the policy, the verdict and its sentence ask for the same."""
    return confidence_sequence.interval(curvatures, DELTA)


def confirmation(state: State, seen: Interval) -> str:
    """What fresh batches say about the candidate so far: "more", "batch only", "confirmed" or "undecided"."""
    if not all(map(math.isfinite, state.curvatures)):
        return "undecided"
    if seen.upper < 0.0:
        return "confirmed"
    if seen.lower > -state.gamma:
        return "batch only"
    return "undecided" if len(state.curvatures) >= MOST else "more"


def in_burst(state: State, rules: Rules) -> bool:
    """Whether every batch measures the candidate: for some tens of them, and on while it is half proved a saddle."""
    if len(state.curvatures) < BURST:
        return True
    seen = collected(state)
    return seen.mean + seen.error / 2.0 < 0.0 and plateau(state, rules)


def measures(state: State, rules: Rules, cost: int = 1) -> bool:
    """Whether to measure the candidate on this batch, for `cost` gradients."""
    within = state.spent + cost <= rules.max_overhead * state.trained
    return state.phase == COLLECT and (within or in_burst(state, rules))


def trial(changes: Sequence[float], opposite: Sequence[float]) -> str:
    """What fresh batches say about the step and its opposite so far: "more", "better" or "failed".

    The mean of both changes is the effect of curvature. The slopes of single batches are most of the noise, and cancel
    in it. Their average tells which way to go.
    """
    least, most = TRIALS
    n = len(changes)
    even, error = interval([(a + b) / 2.0 for a, b in zip(changes, opposite, strict=True)])
    if n < least and math.isfinite(even):
        return "more"
    if even + error < 0.0 and min(statistics.fmean(changes), statistics.fmean(opposite)) < 0.0:
        return "better"
    return "failed" if n >= most or not even - error < 0.0 else "more"


def lower_side(length: float, changes: list[float], opposite: list[float]) -> tuple[float, list[float]]:
    """The step or its opposite, as a signed length, with its changes of the loss: whichever lowers it more."""
    return (-length, opposite) if sum(opposite) < sum(changes) else (length, changes)


def awaited(state: State) -> str:
    """A sentence on what the candidate waits for."""
    if state.phase == TRIAL:
        least, most = TRIALS
        return f"A step along it is tried on fresh batches: {len(state.changes)} so far, {least} to {most} decide."
    return undecided(state)


def undecided(state: State) -> str:
    """A sentence on what is known of the candidate's curvature."""
    seen, n = collected(state), len(state.curvatures)
    if not math.isfinite(seen.error):
        return f"Undecided so far: negative curvature on one batch, and {n} fresh ones are too few to tell."
    return f"Undecided so far: {seen.mean:.3g} ± {seen.error:.2g} after {n} steps."


def begin(state: State, direction: Tensor, *, radius: float, gamma: float, curvature: float, smoothness: float) -> None:
    """Starts to wait for fresh batches, after a candidate was found."""
    state.phase, state.direction, state.told = COLLECT, direction, False
    state.smoothness = smoothness if math.isfinite(smoothness) else 0.0
    state.radius, state.gamma, state.found = radius, gamma, curvature
    state.curvatures, state.changes, state.opposite, state.length = [], [], [], math.nan


def end(state: State, rules: Rules, event: dict[str, Any], *, escaped: bool) -> None:
    """Records a verdict, forgets the candidate and starts the wait: twice the last one, unless it was an escape."""
    state.events.append(event)
    state.phase, state.direction, state.gradients = IDLE, None, 0
    state.since = state.steps
    state.wait = rules.every if escaped else min(2 * max(state.wait, rules.every), LONGEST_WAIT * rules.every)
    if escaped:
        state.losses.clear()
        state.values.clear()
