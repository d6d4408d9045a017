"""What a search for eigenpairs has found, measured once more: values, errors, and a status."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unsaddle.measure import batches
from unsaddle.spectrum.ends import FLOOR, Goal, Interval, Stop
from unsaddle.spectrum.hessian import Hessian
from unsaddle.spectrum.measured import Measured, measured
from unsaddle.spectrum.result import Eigenpairs, Status
from unsaddle.vectors import Array

FLOOR_OF_STATUS = 1e-2
"""Values below this share of the largest one are as good as one of that size, for the status: float32 has no more."""

EVERYWHERE = -math.inf, math.inf
"""Where other eigenvalues lie if nothing is known about them."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Found:
    """Orthonormal vectors that a search has found, first the lowest, then the highest, and what it knows of them."""

    vectors: Sequence[Tensor]
    values: Array
    """The curvatures along the vectors."""
    others: Interval
    """Where other eigenvalues lie, as far as they were seen."""
    bound: Interval
    """Where they lie, as far as that is proved."""
    stop: Stop
    largest: float
    """The largest |eigenvalue| seen."""
    memory: int
    """Vectors that were held at once."""
    dimension: int
    """d of the space that was searched."""


def room(goal: Goal, largest: float, values: Array, floor: float = FLOOR) -> Array:
    """The errors with which values count as known."""
    allowed: Array = goal.tolerance * np.maximum(np.abs(values), floor * largest)
    return allowed


def answer(
    hessian: Hessian,
    goal: Goal,
    found: Found,
    mask: Tensor | None,
    max_gradients: int | None,
    generator: torch.Generator,
) -> Eigenpairs:
    """Measures what was found. `mask`: ones in the block that was searched; None for everything."""
    if found.stop is Stop.NOT_FINITE or not found.vectors:
        return nothing(hessian, goal, found.dimension)

    def allowed(values: Array) -> Array:
        return room(goal, found.largest, values, FLOOR_OF_STATUS)

    affords = hessian.steps_left(max_gradients, found.largest) >= 2 * len(found.vectors)
    again = measured(
        hessian, found.vectors, found.values, found.largest, mask, allowed if affords else None, found.others
    )
    if not again.is_finite:
        return nothing(hessian, goal, found.dimension)
    known = bool((again.errors <= allowed(again.values)).all()) and not hessian.kinks
    status = Status.CONVERGED if known else Status.INACCURATE
    if found.stop is Stop.STEPS:
        status = Status.BUDGET_SPENT
    return Eigenpairs(
        values=again.values,
        errors=again.errors,
        vectors=torch.stack(again.vectors).to(hessian.dtype),
        lowest=goal.lowest,
        bound=found.bound,
        confidence=1.0 - goal.delta,
        sampling_errors=_sampling_errors(hessian, again, goal.delta, found.largest, generator),
        samples=hessian.f_hat.f.size,
        dimension=found.dimension,
        status=status,
        cost=hessian.ledger.cost,
        memory=found.memory,
        in_float64=hessian.in_float64,
    )


def _sampling_errors(
    hessian: Hessian, found: Measured, delta: float, largest: float, generator: torch.Generator
) -> Array:
    """How far the values are from the curvature of F along their vectors, by fresh samples; 0 if F_S is F.

    Two gradients of four times the samples, in batches, for each vector.
    """
    if not hessian.sampled:
        return np.zeros_like(found.values)
    size = batches.checking_samples(hessian.objective, hessian.f_hat.f.size) or hessian.objective.num_samples
    assert size is not None
    radius, off = hessian.radius(largest), []
    for value, v in zip(found.values, found.vectors, strict=True):
        how: dict[str, Any] = {"radius": radius, "samples": size, "generator": generator, "ledger": hessian.ledger}
        fresh = batches.curvature(hessian.objective, hessian.x, v, **how)
        off.append(abs(float(value) - fresh.mean) + fresh.error(delta))
    return np.array(off)


def nothing(hessian: Hessian, goal: Goal, dimension: int) -> Eigenpairs:
    """The answer where a gradient was not finite."""
    none = np.empty(0)
    return Eigenpairs(
        values=none,
        errors=none,
        vectors=hessian.x.new_empty(0, *hessian.x.shape, dtype=hessian.dtype),
        lowest=0,
        bound=EVERYWHERE,
        confidence=1.0 - goal.delta,
        sampling_errors=none,
        samples=hessian.f_hat.f.size,
        dimension=dimension,
        status=Status.NOT_FINITE,
        cost=hessian.ledger.cost,
        memory=2,
    )
