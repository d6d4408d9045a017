"""The policy of `Neon`: when to probe, when to believe a direction, when to jump.

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
from functools import lru_cache
from typing import Any

from torch import Tensor

from unsaddle.curvature.question import Question
from unsaddle.measure import confidence_sequence, student
from unsaddle.measure.confidence_sequence import Interval
from unsaddle.told import counted, measured
from unsaddle.torch_optim.plateau import plateau, quiet, speed
from unsaddle.torch_optim.rules import DELTA, Rules
from unsaddle.torch_optim.state import COLLECT, IDLE, TRIAL, State

CONFIDENCE = 0.95
"""Of the one-sided t-intervals of a trial."""

EXTRACTION, LENGTHS = 60, 17
"""Gradients that an extraction may take, including the measurement along the direction; and evaluations in the search
for the step length, one at x and two for each length."""

SOFT_EXTRACTION = 2 * EXTRACTION
"""Gradients that an extraction may take on a quiet plateau, to see curvature above −γ, too."""

BURST, MOST = 48, 256
"""Batches in a row that may measure a direction, one gradient each, and batches in all. The burst goes on while
half the interval is below zero and the loss does not fall; then batches measure as often as `max_overhead` allows."""

TRIALS = (4, 16)
"""Fresh batches that a step is tried on, at least and at most. Each takes three gradients: at x and at both ends."""

WORST_CASE = 1 + EXTRACTION + BURST + LENGTHS + 3 * TRIALS[1]
"""Gradients that a probe takes at most, unless the plateau is quiet or the burst goes on. One of them checks that the
closure answers the same twice."""

LONGEST_WAIT = 32
"""The wait doubles with every verdict that is not an escape, up to this multiple of `every`."""


def due(state: State, rules: Rules) -> bool:
    """Whether to probe now."""
    return waited(state, rules) and affordable(state, rules) and plateau(state, rules)


def waited(state: State, rules: Rules) -> bool:
    """Whether the last verdict was long enough ago, and no probe is under way."""
    return state.phase == IDLE and state.steps - state.since >= max(rules.every, state.wait)


def affordable(state: State, rules: Rules) -> bool:
    """Whether a whole probe stays within the budget. The first one is on credit, and one after another that paid."""
    if rules.max_overhead == 0.0:
        return False
    on_credit = state.credit_since >= 0 and state.spent - state.credit_since < WORST_CASE
    return on_credit or state.spent + WORST_CASE <= rules.max_overhead * state.trained


def extraction(state: State, rules: Rules) -> Question:
    """The question of the next extraction. Where batches have no noise, soft negative curvature counts, too.

    With noise it would not: every batch has soft negative curvature of its own.
    """
    state.probes += 1
    if rules.gamma is None and quiet(state):
        soft = {"seen_counts": True, "farther": SOFT_EXTRACTION, "max_gradients": SOFT_EXTRACTION}
        return rules.question(state.probes, extractor="krylov", **soft)
    return rules.question(state.probes, extractor="krylov", max_gradients=EXTRACTION)


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


def one_sided(state: State, seen: Interval) -> float:
    """The error of what is claimed: the half above the mean for "negative", the one below for "not below −γ"."""
    if seen.upper < 0.0:
        return seen.upper - seen.mean
    return seen.mean - seen.lower if seen.lower > -state.gamma else seen.error


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
    told = f"negative curvature on one batch, and {n} fresh ones are too few to tell"
    if math.isfinite(seen.error):
        told = f"curvature {measured(seen.mean, seen.error)} on {counted(n, 'fresh batch', 'es')}"
    return f"Undecided so far whether it is a saddle: {told}."


def begin(state: State, direction: Tensor, *, radius: float, gamma: float, curvature: float, smoothness: float) -> None:
    """Starts to wait for fresh batches, after a candidate was found."""
    state.phase, state.direction, state.told = COLLECT, direction, False
    state.smoothness = smoothness if math.isfinite(smoothness) else 0.0
    state.radius, state.gamma, state.found = radius, gamma, curvature
    state.curvatures, state.changes, state.opposite, state.length = [], [], [], math.nan


def end(state: State, rules: Rules, event: dict[str, Any], *, escaped: bool) -> None:
    """Records a verdict, forgets the candidate and starts the wait: twice the last one, unless it was an escape.

    One saddle often follows another. So the next probe is on credit if this one paid: if the step lowers the loss by
    more than as many steps of training would have done, at the speed of the last window. Another direction may have a
    step where this one had none, so after a first trial that failed there is a second probe, as soon and on credit.
    """
    verdicts = [row.get("verdict") for row in (*state.events[-1:], event)]
    again = verdicts[-1] == "trial failed" and verdicts.count("trial failed") == 1
    state.events.append(event)
    state.phase, state.direction, state.gradients = IDLE, None, 0
    state.since = state.steps
    paid = escaped and event["decrease"] > event["gradients"] * speed(state, rules)
    state.credit_since = state.spent if paid or again else -1
    soon = escaped or again
    state.wait = rules.every if soon else min(2 * max(state.wait, rules.every), LONGEST_WAIT * rules.every)
    if escaped:
        state.losses.clear()
        state.values.clear()
