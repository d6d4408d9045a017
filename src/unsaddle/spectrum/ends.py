"""The ends of a spectrum: one run of the Krylov process in a space, until what is wanted there is known.

A run from one random start sees one vector of each eigenspace. What has converged is locked, and another run looks at
the rest of the space, from another start: it sees further copies of a degenerate eigenvalue, and proves at which level
there is nothing more (`Projection.log_missed_at`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

import numpy as np
import torch

from unsaddle.curvature.krylov.process import KrylovProcess
from unsaddle.spectrum.hessian import ASKEW, Hessian, Inexact
from unsaddle.spectrum.space import Space
from unsaddle.theory.start import log_unlucky
from unsaddle.vectors import Array

FLOOR = 1e-3
"""Eigenvalues below this share of the largest one have to be as accurate as one of that size."""

SOLVED, SOLVED_EARLY, FAR = 16, 6, 8.0
"""Ritz pairs are computed each time the basis has grown by a sixteenth; by a sixth, while some wanted value is off by
so many times of what is allowed, or none is wanted. Those of a large basis take longer than a gradient of a small
network."""

BLIND = 0.5
"""The share of its tolerance around a Ritz value in which an eigenvalue that is not seen would change nothing."""


BEYOND = 0.1
"""A Ritz value beyond a level counts as known if its residual is at most this share of its distance from the level.
Otherwise what is left of its vector in the rest of the space may be beyond the level, too."""

INVARIANT = 1e-10
"""A space counts as invariant if a product leaves it by at most this share of the largest eigenvalue: what is left is
no direction any more, and the Ritz values are eigenvalues to that share."""


FEW_DIMENSIONS = 64
"""In so few dimensions a run goes on until every eigenvalue is known."""

START_DELTA = 1e-4
"""The largest part of δ that a run uses. The steps grow only with log(1/δ), so a safe start is cheap."""


Interval = tuple[float, float]

NO_OTHERS = math.inf, -math.inf
"""The interval of no eigenvalue."""


class Stop(Enum):
    """Why a run ended."""

    DONE = "what was wanted is known"
    STEPS = "its steps were taken"
    EVERYTHING = "the space is exhausted, and every Ritz value is an eigenvalue"
    NOT_FINITE = "a gradient was not finite"


@dataclass(frozen=True, kw_only=True)
class Goal:
    """What is wanted of a run: some values at each end, and whatever is beyond two levels."""

    lowest: int = 0
    highest: int = 0
    below: float = -math.inf
    above: float = math.inf
    tolerance: float = 1e-2
    """A Ritz value counts as known if its error is at most this share of it."""
    delta: float = 0.05
    """The probability that the random start hides an eigenvector."""
    alone: float = 0.0
    """The same for a run that sees nothing beyond its levels, if it is larger than `delta`."""
    num_steps: int = 10_000
    patience: int = 10_000
    """A run that sees nothing beyond its levels in so many steps ends."""
    rounding: float = 0.0
    """The rounding of a product: no residual can be asked to be smaller."""

    def wanted(self, values: Array, room: int) -> tuple[int, int]:
        """How many Ritz values at each end are wanted; of those beyond a level, as many as there is room for at once.

        >>> Goal(below=0.0).wanted(np.array([-3.0, -2.0, -1.0, 1.0]), room=2)
        (2, 0)
        """
        low = max(self.lowest, min(room, int((values < self.below).sum())))
        high = max(self.highest, min(room - min(low, room), int((values > self.above).sum())))
        return min(low, values.size), min(high, values.size - min(low, values.size))


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """A run that ended."""

    process: KrylovProcess
    stop: Stop
    low: int
    """Ritz values that are wanted at the lower end."""
    high: int
    steps: int
    dimension: int
    """d of its space."""

    @property
    def indices(self) -> list[int]:
        """Of the Ritz vectors to lock: those wanted; all, if the space is exhausted."""
        size = self.process.projection.size
        if self.stop is Stop.EVERYTHING:
            return list(range(size))
        return [*range(self.low), *range(size - self.high, size)]

    @property
    def others(self) -> Interval:
        """Where the other Ritz values lie."""
        rest = np.delete(self.process.projection.values, self.indices)
        return (float(rest[0]), float(rest[-1])) if rest.size else NO_OTHERS


def around(one: Interval, other: Interval) -> Interval:
    """The smallest interval around two of them.

    >>> around((-1.0, 2.0), NO_OTHERS)
    (-1.0, 2.0)
    """
    return min(one[0], other[0]), max(one[1], other[1])


def errors(values: Array, residuals: Array, others: Interval = NO_OTHERS) -> Array:
    """How far each Ritz value is from an eigenvalue: its residual ρ, or ρ²/gap, with the gap to other Ritz values.

    The first is a theorem. The second is Temple's and Kato's, as far as the gap is seen. `others` is where eigenvalues
    lie that are not among the values.

    >>> errors(np.array([0.0, 1.0, 1.01]), np.array([0.1, 0.1, 0.1])).round(3).tolist()
    [0.011, 0.1, 0.1]
    >>> errors(np.array([0.0]), np.array([0.1]), (0.5, 3.0)).round(3).tolist()
    [0.02]
    """
    apart = np.abs(values[:, None] - values[None, :]) - residuals[None, :]
    np.fill_diagonal(apart, math.inf)
    gap = apart.min(axis=1, initial=math.inf)
    if others[0] <= others[1]:
        gap = np.minimum(gap, np.maximum(others[0] - values, values - others[1]))
    with np.errstate(divide="ignore", invalid="ignore"):
        better: Array = np.where(gap > residuals, residuals**2 / gap, residuals)
    return better


def explore(
    hessian: Hessian, space: Space, goal: Goal, capacity: int, generator: torch.Generator, largest: float = 0.0
) -> Run:
    """Lets the process grow in the space, until the goal is reached.

    Wanted values have to be known to the tolerance. Among the lowest and the highest ones that are asked for by number,
    no eigenvalue may be hidden by the start, at confidence 1 − δ. If only levels are asked for, and nothing is seen
    beyond them, the same has to be proven at the levels.

    Cost: one gradient a step, two where products are central. Memory: capacity + 1 vectors.
    """
    d = space.dimension
    allowed, alone = log_unlucky(d, goal.delta), log_unlucky(d, max(goal.delta, goal.alone))
    capacity = max(1, min(capacity, d))
    process: KrylovProcess

    def multiply(q: torch.Tensor, out: torch.Tensor) -> None:
        hessian.multiply(q, out, max(largest, process.largest))

    process = KrylovProcess(space.restricted(multiply), space.random(generator), capacity, space.project)
    seen = process.projection
    low = high = steps = 0
    due = goal.lowest + goal.highest

    def end(stop: Stop) -> Run:
        return Run(process=process, stop=stop, low=low, high=high, steps=steps, dimension=d)

    while steps < goal.num_steps:
        full = seen.size + 1 >= capacity
        solve = full or seen.size >= due or steps + 1 in (goal.num_steps, goal.patience)
        if not process.expand(solve):
            return end(Stop.NOT_FINITE)
        steps += 1
        if hessian.wary and seen.skew > ASKEW * max(largest, process.largest):
            raise Inexact
        exhausted = seen.size >= d or process.exhausted or seen.next_norm <= INVARIANT * max(largest, process.largest)
        if not (solve or exhausted):
            continue
        if not solve:
            process.solve()
        low, high = goal.wanted(seen.values, capacity // 2)
        if exhausted:
            return end(Stop.EVERYTHING)
        lacking = _lacking(process, goal, low, high, allowed if low or high else alone)
        if lacking == 0.0:
            return end(Stop.DONE)
        waiting = low == high == 0 and goal.patience < goal.num_steps
        if waiting and steps >= goal.patience:
            break
        early = waiting or lacking > FAR
        due = seen.size + seen.size // (SOLVED_EARLY if early else SOLVED)
        if full and steps < goal.num_steps:
            process.restart(*_kept(capacity, low, high))
            due = seen.size + (capacity - seen.size) // (2 if early else 3)
    return end(Stop.STEPS)


def _kept(capacity: int, low: int, high: int) -> tuple[int, int]:
    """Ritz vectors that a restart keeps of each end: those wanted, and two thirds of half of the rest below."""
    low = min(low, capacity - 2 - min(high, capacity // 4))
    high = min(high, capacity - 2 - low)
    spare = max(0, capacity - 1 - low - high) // 2
    return max(1, low + 2 * spare // 3), high + spare // 3


def _lacking(process: KrylovProcess, goal: Goal, low: int, high: int, allowed: float) -> float:
    """0 if the goal is reached; else how far off a wanted value is, in shares of what is allowed, or 1 if none is."""
    seen, size = process.projection, process.projection.size
    if size < goal.lowest + goal.highest + 1:
        return math.inf
    off = errors(seen.values, seen.residuals)
    room = goal.tolerance * np.maximum(np.abs(seen.values), FLOOR * process.largest)
    ends = np.r_[:low, size - high : size]
    worst = float((off[ends] / room[ends]).max(initial=0.0)) if process.largest > 0.0 else 0.0
    if worst > 1.0:
        return worst
    apart = np.minimum(np.abs(seen.values - goal.below), np.abs(seen.values - goal.above))
    least = goal.rounding + INVARIANT * process.largest
    if (seen.residuals > np.maximum(BEYOND * apart, least))[ends].any():
        return 1.0
    hidden = [*_unseen(seen.values, room, low)] if goal.lowest else []
    hidden += [-level for level in _unseen(-seen.values[::-1], room[::-1], high)] if goal.highest else []
    hidden += [goal.below] if math.isfinite(goal.below) and low == 0 else []
    hidden += [goal.above] if math.isfinite(goal.above) and high == 0 else []
    return 0.0 if all(seen.log_missed_at(level) <= allowed for level in hidden) else 1.0


def _unseen(values: Array, room: Array, count: int) -> list[float]:
    """Levels, up to that of the last wanted Ritz value, at which an eigenvalue that is not seen would matter."""
    levels = [float(values[0] - BLIND * room[0])]
    for i in range(count - 1):
        near, far = values[i] + BLIND * room[i], values[i + 1] - BLIND * room[i + 1]
        levels += [float(near), float(far)] if near < far else []
    return levels
