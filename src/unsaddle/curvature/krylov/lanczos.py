"""Lanczos with exact Hessian products: the fewest products that are possible, at k·d memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.curvature.extractor import by_settings
from unsaddle.curvature.krylov.process import KrylovProcess
from unsaddle.curvature.power import f_and_x
from unsaddle.curvature.result import Candidate, Status, Trail
from unsaddle.curvature.search import Observer, Search
from unsaddle.objective import SecondOrderFunction
from unsaddle.theory import extraction


@dataclass(frozen=True, kw_only=True)
class LanczosSettings:
    """Constants of the Lanczos method."""

    num_steps: int
    target: float
    """A curvature of at most −target is wanted."""
    largest: float = math.inf
    """If a larger curvature is seen, `num_steps` was too small to exclude negative curvature."""


def settings_for(search: Search) -> LanczosSettings:
    """As many products as Kuczyński and Woźniakowski prove enough for λ_min to accuracy γ/2 (E9)."""
    return LanczosSettings(
        num_steps=extraction.lanczos_num_steps(
            smoothness=search.smoothness, accuracy=search.gamma / 2.0, dimension=search.dimension, delta=search.delta
        ),
        target=search.gamma / 2.0,
        largest=2.0 * search.smoothness,  # The power method's steps allow the same factor.
    )


def ritz_pairs(
    f: SecondOrderFunction, x: Tensor, start: Tensor, num_steps: int
) -> Iterator[tuple[KrylovProcess, bool]]:
    """Yields the process after each product, and whether that was finite, until the space or the steps are exhausted.

    There is no restart, so the Ritz pairs are those of the whole Krylov space.
    """
    process = KrylovProcess(lambda q, out: out.copy_(f.hvp(x, q)), start, capacity=max(1, num_steps))
    for _ in range(num_steps):
        finite = process.expand()
        yield process, finite
        if process.exhausted or not finite:
            return


def lanczos(
    f: SecondOrderFunction,
    x: Tensor,
    settings: LanczosSettings,
    generator: torch.Generator,
    *,
    keep_history: bool = False,
    observer: Observer | None = None,
    start: Tensor | None = None,
) -> Candidate:
    """Find v with vᵀHv ≤ −target in the Krylov space of a random unit vector.

    The lowest Ritz pair (θ, v), θ = vᵀHv, is tested after every product.

    Cost: one Hessian product a step. Memory: the basis, one vector a step.

    >>> from unsaddle import Function
    >>> f = Function(lambda x: x[0] ** 2 - x[1] ** 2).sample(hessian=True)
    >>> found = lanczos(f, torch.zeros(2), LanczosSettings(num_steps=2, target=1.99), torch.Generator().manual_seed(0))
    >>> round(found.lowest, 4)
    -2.0
    """
    # `start` is for comparisons only: the proof that there is nothing needs a random start.
    start = vectors.random_direction(x, generator) if start is None else start
    trail = Trail(keep_history)
    highest, exhausted, lowest = -math.inf, False, start
    for step, (process, finite) in enumerate(ritz_pairs(f, x, start, settings.num_steps)):
        if not finite:
            return trail.end(Status.NOT_FINITE)
        trail.lowest, highest = float(process.projection.values[0]), float(process.projection.values[-1])
        exhausted = process.exhausted
        trail.note(f.ledger.hessian_products, trail.lowest)
        if observer is not None:
            observer(step, process.vector(0))
        if trail.lowest <= -settings.target:
            return trail.end(Status.FOUND, process.vector(0))
        if process.exhausted or step == settings.num_steps - 1:
            lowest = process.vector(0)
    known_too_little = highest > settings.largest and not exhausted
    status = Status.SMOOTHNESS_EXCEEDED if known_too_little else Status.NOTHING_FOUND
    return trail.end(status, exhausted=not exhausted, deciding=(lowest,))


class Lowest(NamedTuple):
    """The lowest Ritz pair."""

    curvature: float
    direction: Tensor


def lowest_curvature(
    f: SecondOrderFunction, x: Tensor, *, smoothness: float, accuracy: float, delta: float, generator: torch.Generator
) -> Lowest | None:
    """v with vᵀ∇²f(x)v ≤ λ_min + accuracy at confidence 1 − δ (Kuczyński–Woźniakowski); None if f is not finite.

    If an eigenvalue above 2·L1 shows, L1 is doubled, and the products are taken again.
    """
    while True:
        steps = extraction.lanczos_num_steps(
            smoothness=smoothness, accuracy=accuracy, dimension=vectors.dimension(x), delta=delta
        )
        *_, (process, finite) = ritz_pairs(f, x, vectors.random_direction(x, generator), steps)
        if not finite:
            return None
        if process.exhausted or process.projection.values[-1] <= 2.0 * smoothness:
            return Lowest(curvature=float(process.projection.values[0]), direction=process.vector(0))
        smoothness *= 2.0


LANCZOS = by_settings(lanczos, settings=LanczosSettings, inputs=f_and_x, practical=settings_for, needs_products=True)
