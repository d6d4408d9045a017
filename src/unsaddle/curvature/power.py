"""The power method on I − ηH, eq. (10), with exact Hessian products. NEON imitates it with gradients."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from unsaddle import vectors
from unsaddle.curvature.extractor import by_settings
from unsaddle.curvature.result import Candidate, Status, Trail
from unsaddle.curvature.search import Observer, Search
from unsaddle.objective import SampledFunction, SecondOrderFunction
from unsaddle.theory import extraction


@dataclass(frozen=True, kw_only=True)
class PowerSettings:
    """Constants of the power method."""

    step_size: float
    """η ≤ 1/L1, so that I − ηH ⪰ 0."""
    num_steps: int
    target: float
    """A curvature of at most −target is wanted."""


def settings_for(search: Search) -> PowerSettings:
    """η = 1/L1 and L1·log(d/δ²)/γ products, for curvature −γ/2. The theory's constants are usable here."""
    return PowerSettings(
        step_size=1.0 / search.smoothness,
        num_steps=extraction.power_num_steps(**search.constants),
        target=search.gamma / 2.0,
    )


def power(
    f: SecondOrderFunction,
    x: torch.Tensor,
    settings: PowerSettings,
    generator: torch.Generator,
    *,
    keep_history: bool = False,
    observer: Observer | None = None,
) -> Candidate:
    """Find v with vᵀHv ≤ −target by v ← (I − ηH)v, normalised, from a random unit vector.

    Kuczyński and Woźniakowski (1992). Departures from eq. (10): v is normalised at every step, and the first v that
    passes is returned, not the last. Cost: one Hessian product a step. Memory: two vectors.

    >>> from unsaddle import Function
    >>> f = Function(lambda x: x[0] ** 2 - x[1] ** 2).sample(hessian=True)
    >>> settings = PowerSettings(step_size=0.5, num_steps=20, target=1.99)
    >>> power(f, torch.zeros(2), settings, torch.Generator().manual_seed(0)).status.name
    'FOUND'
    """
    v = vectors.random_direction(x, generator)
    trail = Trail(keep_history)
    for tau in range(settings.num_steps):
        if observer is not None:
            observer(tau, v)
        hv = f.hvp(x, v)
        (curvature,) = vectors.dots((v, hv))
        if not math.isfinite(curvature):
            return trail.end(Status.NOT_FINITE)
        trail.lowest = min(trail.lowest, curvature)
        trail.note(f.ledger.hessian_products, curvature)
        if curvature <= -settings.target:
            return trail.end(Status.FOUND, v)
        if curvature * settings.step_size > 2.0:
            return trail.end(Status.SMOOTHNESS_EXCEEDED)
        v = torch.sub(v, hv, alpha=settings.step_size)
        length = vectors.norm(v)
        if length == 0.0:  # Hv = v/η: the whole start lay at curvature L1.
            break
        v.div_(length)
    return trail.end(Status.NOTHING_FOUND, exhausted=True, deciding=(v,))


def second_order(f: SampledFunction) -> SecondOrderFunction:
    """`f`, if it has Hessian products."""
    if not isinstance(f, SecondOrderFunction):
        raise TypeError("this extractor needs Hessian products; sample the objective with hessian=True")
    return f


def f_and_x(search: Search) -> tuple[SecondOrderFunction, torch.Tensor]:
    """The inputs of an algorithm that takes Hessian products."""
    return second_order(search.f), search.x


POWER = by_settings(power, settings=PowerSettings, inputs=f_and_x, practical=settings_for, needs_products=True)
