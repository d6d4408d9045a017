"""`eigenpairs`: the lowest and highest eigenvalues of the Hessian with their vectors, with gradients only."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unsaddle import checks, vectors
from unsaddle.cost import Ledger
from unsaddle.curvature.auto import free_memory
from unsaddle.judgement.watch import watched
from unsaddle.metric.given import as_map
from unsaddle.metric.maps import Map
from unsaddle.metric.objective import MetricObjective
from unsaddle.objective import Objective, as_objective, point_of, with_its_ranks
from unsaddle.ranks import current
from unsaddle.spectrum.answer import EVERYWHERE, Found, answer, nothing
from unsaddle.spectrum.ends import FEW_DIMENSIONS, NO_OTHERS, START_DELTA, Goal, Run, Stop, around, explore
from unsaddle.spectrum.exclusion import excluded
from unsaddle.spectrum.hessian import Hessian, hessian_at
from unsaddle.spectrum.refined import refined
from unsaddle.spectrum.result import Eigenpairs, MorseIndex
from unsaddle.spectrum.second_look import looked_again
from unsaddle.spectrum.space import Space
from unsaddle.vectors import Array

PLENTIFUL_BYTES, LARGEST_BASIS = 256 << 20, 300
"""By default the basis of an index takes so many bytes, up to so many vectors. A choice."""

SMALL_BASIS, FOR_EACH_PAIR = 64, 4
"""By default a basis of pairs has so many vectors, and at least so many for each pair, if that many bytes hold them. A
larger one takes about as many gradients, and more time a step: it leaves the cache."""

LOOKS = 30
"""Looks for copies of degenerate eigenvalues, each from another start, go on while they find some. A look that finds
nothing ends with its proof at δ, or after as many steps as the first run: it then proves less. After a third of them,
it had missed copies in 11 of 144 spectra; after half of them, in one."""

NEAR = 0.3
"""A look takes out vectors with residuals up to this share of the tolerance: what is left of them beyond the level is
within it. Smaller ones may be out of reach for a small basis, in a crowd around the level."""

STEPS_A_DIMENSION = 100
"""Products for each dimension, after which a search gives up: a basis that holds everything would have needed one."""

SURVEY_GRADIENTS = 12
"""What the survey of gradients around x, and the one at x, take at most."""


@with_its_ranks
def eigenpairs(
    objective: Objective,
    x: Tensor | None = None,
    *,
    lowest: int = 1,
    highest: int = 0,
    tolerance: float = 1e-2,
    copies: bool = True,
    delta: float = 0.05,
    samples: int | None = None,
    basis: int | None = None,
    max_gradients: int | None = None,
    metric: Any = None,
    seed: int = 0,
    progress: bool = False,
) -> Eigenpairs:
    """The lowest and the highest eigenvalues of ∇²F(x), with vectors, measured errors, and a bound on all others.

    Args:
        objective: F.
        x: the point. It may be left out for an objective that has a `point` of its own, such as a model.
        lowest: how many eigenvalues from the lower end.
        highest: how many from the upper end.
        tolerance: a value is known if its error is at most this share of it, or of a thousandth of the largest one.
        copies: look again, from other starts, for copies of degenerate eigenvalues, and to know `bound`. Without it the
            search takes about a quarter of the gradients less, and `bound` is open.
        delta: the probability that an unlucky random start makes `bound` wrong.
        samples: |S|, drawn once; None for everything, or for 1024 samples of a stream.
        basis: vectors that the search may hold. By default as many as 256 MB hold, up to 64, or four for each pair; at
            least twice as many as are asked for. About three times as many are held beside them in the end.
        max_gradients: a bound on the gradients of the search. Measuring takes one or two more for each pair.
        metric: S of x = Sz, as for `is_minimum`. The values are then those of the generalised problem
            ∇²F(x)v = λ(SSᵀ)⁻¹v, that is of S∇²F(x)S, and not those of ∇²F(x); the vectors are in your own variables.
        seed: of the samples and the random starts.
        progress: show on a terminal how many gradients were taken. Needs rich, of the extra `progress`.

    A first run of the Krylov process, fully orthogonalised and restarted where the basis is full, goes on until all
    that is asked for is known to the tolerance. One start sees one vector of each eigenspace. So what was found is
    locked, and another run looks at the rest: for copies of degenerate eigenvalues, and for the proof that there is
    nothing more. All values are then measured again, on the other side of x and at another radius; on both sides where
    errors are larger than the tolerance.

    Cost: one gradient a step, usually some tens for each end; up to as many again for the second look; one or two for
    each pair. Twice that where noise asks for products from both sides.

    >>> from unsaddle import Function
    >>> sizes = torch.tensor([-1.0, -1.0, 0.5, 3.0, 7.0], dtype=torch.float64)
    >>> pairs = eigenpairs(Function(lambda x: 0.5 * (sizes * x * x).sum()), torch.ones(5).double(), lowest=2, highest=1)
    >>> pairs.values.round(4).tolist(), pairs.status.name
    ([-1.0, -1.0, 7.0], 'CONVERGED')
    """
    F = as_objective(objective)
    point = point_of(F, x)
    lowest = checks.count(lowest, "lowest", at_least=0)
    highest = checks.count(highest, "highest", at_least=0)
    if lowest + highest == 0:
        raise ValueError("lowest and highest are both 0, so there is nothing to look for; ask for at least one")
    tolerance, delta = checks.positive(tolerance, "tolerance"), checks.probability(delta, "delta")
    d = vectors.dimension(point)
    lowest, highest = min(lowest, d), min(highest, d - min(lowest, d))
    if basis is not None:
        checks.count(basis, "basis", at_least=min(d, lowest + highest + 2))
    if max_gradients is not None:
        checks.count(max_gradients, "max_gradients", at_least=SURVEY_GRADIENTS + lowest + highest + 1)
    looks = LOOKS if checks.flag(copies, "copies") else 0
    goal = Goal(lowest=lowest, highest=highest, tolerance=tolerance, delta=delta)
    with watched(F, max_gradients, progress) as seen:
        whole, at, scaling = as_objective(seen), point, None
        if metric is not None:
            scaling = as_map(metric, whole, point)
            inside = MetricObjective(whole, scaling, point)
            whole, at = inside, inside.point
        generator = torch.Generator().manual_seed(checks.seed(seed))
        hessian = hessian_at(whole, at, samples, generator, Ledger(), max_gradients)
        found, _ = looked_again(
            hessian,
            lambda h: pairs_of(h, goal, Space(h.x), basis, max_gradients, generator, looks),
            lambda pairs: worst(pairs) if max_gradients is None else None,
            generator,
            lambda h, pairs: refined(h, pairs, goal, generator),
        )
    return found if scaling is None else _in_own_variables(found, scaling)


def pairs_of(
    hessian: Hessian,
    goal: Goal,
    space: Space,
    basis: int | None,
    max_gradients: int | None,
    generator: torch.Generator,
    looks: int = LOOKS,
) -> Eigenpairs:
    """The pairs that the goal asks for by number, in a space."""
    if not hessian.is_finite:
        return nothing(hessian, goal, space.dimension)
    count, d = goal.lowest + goal.highest, space.dimension
    capacity = basis or basis_size(hessian.x, count, max(SMALL_BASIS, FOR_EACH_PAIR * count))
    first_goal = replace(
        goal,
        lowest=d - goal.highest if d <= min(FEW_DIMENSIONS, capacity) else goal.lowest,
        num_steps=int(min(goal.num_steps, STEPS_A_DIMENSION * d, hessian.steps_left(max_gradients, 0.0))),
    )
    run = explore(hessian, space, first_goal, capacity, generator)
    stop, steps, largest, others = run.stop, run.steps, run.process.largest, run.others
    values, bound, memory = _lock(space, run, np.empty(0)), EVERYWHERE, capacity + 2
    for _ in range(looks):
        left = hessian.steps_left(max_gradients, largest)
        if run.stop in (Stop.NOT_FINITE, Stop.STEPS) or space.dimension == 0 or left < 1:
            break
        del run  # The memory of its basis is that of the next one.
        below, above = _levels(values, goal)
        again = Goal(
            below=below,
            above=above,
            tolerance=goal.tolerance,
            delta=min(goal.delta, START_DELTA),
            alone=goal.delta,
            num_steps=int(min(goal.num_steps, left)),
            patience=steps if stop is Stop.DONE else goal.num_steps,
            rounding=hessian.rounding(largest) + NEAR * goal.tolerance * min(abs(below), abs(above)),
        )
        run = explore(hessian, space, again, capacity, generator, largest)
        memory, largest = max(memory, capacity + 2 + len(space.locked)), max(largest, run.process.largest)
        error = run.process.projection.skew + hessian.rounding(largest)
        bound, others = excluded(run, goal.delta, error, goal.lowest > 0, goal.highest > 0), around(others, run.others)
        if not (run.low or run.high or run.stop is Stop.EVERYTHING):
            break
        values = _lock(space, run, values)
    order = np.argsort(values)
    chosen = [*order[: goal.lowest], *order[max(goal.lowest, len(order) - goal.highest) :]]
    if space.dimension == 0:
        bound = NO_OTHERS
    if len(order) > len(chosen):  # More may have been locked than was asked for. It is known to the tolerance.
        low, high = (float(values[i]) for i in order[[goal.lowest, len(order) - goal.highest - 1]])
        bound = around(bound, (low - goal.tolerance * abs(low), high + goal.tolerance * abs(high)))
        others = around(others, (low, high))
    found = Found(
        vectors=[space.locked[int(i)] for i in chosen],
        values=values[chosen],
        others=others,
        bound=bound,
        stop=stop,
        largest=largest,
        memory=max(memory, len(space.locked) + 3 * len(chosen)),
        dimension=d,
    )
    return answer(hessian, goal, found, space.mask, max_gradients, generator)


def worst(found: Eigenpairs | MorseIndex) -> Tensor | None:
    """The vector with the largest error; None if there is none."""
    return found.vectors[int(np.argmax(found.errors))] if len(found.errors) else None


def basis_size(x: Tensor, count: int, most: int) -> int:
    """Vectors of a basis for so many pairs: as many as memory has room for, up to `most`."""
    each, least = max(1, x.numel()) * x.element_size(), 2 * count + 10
    size = max(least, min(most, PLENTIFUL_BYTES // each))
    free = free_memory(x.device)
    if free is not None:
        size = max(least, min(size, free // 2 // each - 2 * count))
    team = current()
    return size if team is None else team.smallest(size)  # Ranks differ in memory, but must choose the same.


def _lock(space: Space, run: Run, values: Array) -> Array:
    """Locks what a run found; returns the values of all that is locked, in its order."""
    space.lock(list(map(space.project, run.process.ritz_vectors(run.indices))))
    return np.concatenate([values, run.process.projection.values[run.indices]])


def _levels(values: Array, goal: Goal) -> tuple[float, float]:
    """The last of the lowest values, and of the highest ones: what lies beyond them should have been found.

    As long as fewer are known than were asked for, that is everything.
    """
    ordered, below, above = np.sort(values), -math.inf, math.inf
    if goal.lowest:
        below = float(ordered[goal.lowest - 1]) if goal.lowest <= len(ordered) else math.inf
        below -= goal.tolerance * abs(below) if math.isfinite(below) else 0.0
    if goal.highest:
        above = float(ordered[-goal.highest]) if goal.highest <= len(ordered) else -math.inf
        above += goal.tolerance * abs(above) if math.isfinite(above) else 0.0
    return below, above


def _in_own_variables(found: Eigenpairs, scaling: Map) -> Eigenpairs:
    """The pairs with v = Sw/‖Sw‖ instead of w. The values stay those of S∇²F(x)S."""
    moved = [scaling.apply(w) for w in found.vectors]
    units = [v.div_(vectors.norm(v)) for v in moved]
    return replace(found, vectors=torch.stack(units) if units else found.vectors)
