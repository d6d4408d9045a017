"""`morse_index`: how many eigenvalues of the Hessian are below −γ, between two bounds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unsaddle import checks, vectors
from unsaddle.cost import Ledger
from unsaddle.curvature.question import RELATIVE_GAMMA
from unsaddle.judgement.watch import watched
from unsaddle.objective import Objective, as_objective, point_of, with_its_ranks
from unsaddle.spectrum.ends import FEW_DIMENSIONS, START_DELTA, Goal, Stop, explore
from unsaddle.spectrum.hessian import Hessian, Inexact, hessian_at
from unsaddle.spectrum.measured import Measured, measured
from unsaddle.spectrum.pairs import LARGEST_BASIS, SURVEY_GRADIENTS, basis_size, worst
from unsaddle.spectrum.result import MorseIndex, Status
from unsaddle.spectrum.second_look import looked_again
from unsaddle.spectrum.space import Space

FIRST_STEPS = 15
"""Products that measure the largest |eigenvalue|, if γ is to follow it."""

ROOM = 40
"""Vectors that a basis has at least, if memory allows."""

AGAIN = 2
"""How often the rest is looked at once more, if vectors were taken out that are not below −γ."""

STEPS_BLIND = 200
"""Where products contradict each other at the level of γ, the upper bound cannot be proven, and the search ends after
so many steps."""

LOOKS = 50
"""Runs, of which each finds something, before the search gives up."""


@with_its_ranks
def morse_index(
    objective: Objective,
    x: Tensor | None = None,
    *,
    gamma: float | None = None,
    delta: float = 0.05,
    samples: int | None = None,
    basis: int | None = None,
    max_gradients: int | None = None,
    seed: int = 0,
    progress: bool = False,
) -> MorseIndex:
    """How many eigenvalues of ∇²F(x) are below −γ: two bounds, which are equal where it is decided.

    Args:
        objective: F.
        x: the point. It may be left out for an objective that has a `point` of its own, such as a model.
        gamma: γ ≥ 0. By default a hundredth of the largest |eigenvalue|. An eigenvalue at −γ itself is not decided.
        delta: the probability that an unlucky random start makes `upper` wrong. `lower` needs no luck.
        samples: |S|, drawn once; the index is then that of F_S. None for everything, or for 1024 samples of a stream.
        basis: vectors that a search may hold. By default as many as 256 MB hold, up to 300.
        max_gradients: a bound on the gradients of the search. If it ends the search, `upper` is large.
        seed: of the samples and the random starts.
        progress: show on a terminal how many gradients were taken. Needs rich, of the extra `progress`.

    Runs of the Krylov process take out what they find below −γ, until one proves that nothing is left there. By
    Courant and Fischer, k orthonormal vectors on which the Hessian is below −γ make an index of at least k. If it is
    nowhere below −γ on the space orthogonal to them, the index is at most k (Cauchy's interlacing). Neither needs the
    vectors to be eigenvectors.

    >>> from unsaddle import Function
    >>> sizes = torch.tensor([-1.0, -1.0, -0.2, 0.5, 3.0, 7.0], dtype=torch.float64)
    >>> found = morse_index(Function(lambda x: 0.5 * (sizes * x * x).sum()), torch.zeros(6).double(), gamma=0.5)
    >>> found.lower, found.upper
    (2, 2)
    """
    F = as_objective(objective)
    point = point_of(F, x)
    if gamma is not None:
        gamma = checks.not_negative(gamma, "gamma", "leave it out to take a hundredth of the largest |eigenvalue|")
    delta = checks.probability(delta, "delta")
    if basis is not None:
        checks.count(basis, "basis", at_least=min(vectors.dimension(point), 4))
    if max_gradients is not None:
        checks.count(max_gradients, "max_gradients", at_least=SURVEY_GRADIENTS + FIRST_STEPS + 1)
    generator = torch.Generator().manual_seed(checks.seed(seed))
    with watched(F, max_gradients, progress) as seen:
        hessian = hessian_at(as_objective(seen), point, samples, generator, Ledger(), max_gradients)
        found, _ = looked_again(
            hessian,
            lambda h: _index(h, gamma, delta, basis, max_gradients, generator),
            lambda found: worst(found) if max_gradients is None else None,
            generator,
        )
    return found


def _index(
    hessian: Hessian,
    gamma: float | None,
    delta: float,
    basis: int | None,
    max_gradients: int | None,
    generator: torch.Generator,
) -> MorseIndex:
    capacity = basis or basis_size(hessian.x, ROOM // 2, LARGEST_BASIS)
    space, largest = Space(hessian.x), 0.0
    d = space.dimension
    if not hessian.is_finite:
        return _unknown(hessian, gamma, delta, d)
    if gamma is None:
        run = explore(hessian, space, Goal(lowest=d, num_steps=FIRST_STEPS), FIRST_STEPS + 1, generator)
        largest = run.process.largest
        gamma = RELATIVE_GAMMA * largest
    sweep = _Sweep(hessian, space, gamma, delta, capacity, max_gradients, generator, largest)
    seen = sweep.run()
    for again in range(AGAIN + 1):
        if seen is None or not seen.is_finite:
            return _unknown(hessian, gamma, delta, d)
        lower = int((seen.values + seen.disagreement < -gamma).sum())
        upper = int((seen.values - seen.errors < -gamma).sum())
        if lower == upper or not sweep.proven or again == AGAIN:
            break
        if hessian.wary:
            raise Inexact
        # Vectors that turn out not to be below −γ were in the way. Without them, the rest is looked at once more.
        sweep.keep(seen, seen.values < -gamma)
        seen = sweep.run()
    assert seen is not None
    upper = upper if sweep.proven else sweep.most
    status = Status.BUDGET_SPENT if not sweep.proven and max_gradients is not None else Status.INACCURATE
    kept = seen.values < -gamma
    stacked = torch.stack(seen.vectors)[torch.from_numpy(kept)] if seen.vectors else space.locked[:0]
    return MorseIndex(
        lower=lower,
        upper=max(lower, upper),
        gamma=gamma,
        confidence=1.0 - delta,
        values=seen.values[kept],
        errors=seen.errors[kept],
        vectors=stacked.to(hessian.dtype),
        smoothness=sweep.largest,
        dimension=d,
        status=Status.CONVERGED if lower == upper else status,
        cost=hessian.ledger.cost,
        in_float64=hessian.in_float64,
    )


class _Sweep:
    """Runs that take out of the space what they find below −γ, until one proves that nothing is left there."""

    def __init__(
        self,
        hessian: Hessian,
        space: Space,
        gamma: float,
        delta: float,
        capacity: int,
        max_gradients: int | None,
        generator: torch.Generator,
        largest: float,
    ) -> None:
        self._hessian, self._space, self._gamma, self._capacity = hessian, space, gamma, capacity
        self._delta, self._max_gradients, self._generator = min(delta, START_DELTA), max_gradients, generator
        self._claimed, self._looks, self._steps, self._dimension = np.empty(0), 0, 0, space.dimension
        self.largest, self.proven, self.most = largest, False, space.dimension

    def run(self) -> Measured | None:
        """Takes out all that is below −γ, and measures it; None if a gradient was not finite."""
        hessian, space, self.proven, rest = self._hessian, self._space, False, 0
        for _ in range(LOOKS):
            # Where every eigenvalue costs no more than what was spent already, all are looked at.
            few = space.dimension <= min(self._capacity, max(FEW_DIMENSIONS, 2 * self._steps))
            left, self._looks = hessian.steps_left(self._max_gradients, self.largest), self._looks + 1
            if self.blind:
                left = min(left, STEPS_BLIND - self._steps)
            if space.dimension == 0 or left < 1:
                self.proven = space.dimension == 0
                break
            # What is within the error of the products of −γ is taken out, too, and counts in the upper bound alone.
            goal = Goal(
                lowest=space.dimension if few else 0,
                below=-self._gamma + hessian.rounding(self.largest),
                delta=6.0 * self._delta / (math.pi * self._looks) ** 2,  # Σ 6/(πk)² = 1: any of the looks may err.
                num_steps=int(min(left, 10_000)),
                rounding=hessian.rounding(self.largest),
            )
            run = explore(hessian, space, goal, self._capacity, self._generator, self.largest)
            self._steps += run.steps
            self.largest, values = max(self.largest, run.process.largest), run.process.projection.values
            if run.stop is Stop.NOT_FINITE:
                return None
            space.lock(list(map(space.project, run.process.ritz_vectors(run.indices))))
            self._claimed = np.concatenate([self._claimed, values[run.indices]])
            if run.stop is Stop.STEPS:
                rest = int((values >= goal.below).sum())
                break
            if run.low == 0 and run.stop is Stop.DONE:
                self.proven = not self.blind
                break
        chosen = np.flatnonzero(self._claimed < -self._gamma + 2.0 * hessian.rounding(self.largest))
        self.proven = self.proven and not self.blind
        self.most = self._dimension - (0 if self.blind else rest + len(self._claimed) - len(chosen))
        found = [space.locked[int(i)] for i in chosen]
        if not found:
            return Measured(np.empty(0), np.empty(0), np.empty(0), [])
        return measured(hessian, found, self._claimed[chosen], self.largest, None)

    @property
    def blind(self) -> bool:
        """Whether products are too far off to prove an upper bound."""
        return not self._hessian.is_one(self._gamma, self.largest)

    def keep(self, seen: Measured, which: np.ndarray[Any, np.dtype[np.bool_]]) -> None:
        """Puts all others back into the space."""
        self._space.replace([v for v, kept in zip(seen.vectors, which, strict=True) if kept])
        self._claimed = seen.values[which]


def _unknown(hessian: Hessian, gamma: float | None, delta: float, dimension: int) -> MorseIndex:
    """The answer where a gradient was not finite."""
    none = np.empty(0)
    return MorseIndex(
        lower=0,
        upper=dimension,
        gamma=math.nan if gamma is None else gamma,
        confidence=1.0 - delta,
        values=none,
        errors=none,
        vectors=hessian.x.new_empty(0, *hessian.x.shape, dtype=hessian.dtype),
        smoothness=math.nan,
        dimension=dimension,
        status=Status.NOT_FINITE,
        cost=hessian.ledger.cost,
    )
