"""The work of `CurvatureMonitor` on one batch: a search for both ends of the spectrum, or one measurement.

    h = S(∇f_B(x + rSu) − ∇f_B(x))/r        one gradient more than the training step takes
    q = uᵀh                                 unbiased: u was made by earlier batches
    u ← u + h/q̄, normalised                 the loop of `online` with + for −, q̄ the mean of the last q

So u follows the eigenvector of λ_max while training goes on, and the mean of the last q is λ_max. Noise of single
batches holds u off the eigenvector: steps as long as those of a power iteration would follow it, and Ritz vectors of
several batches even more.

λ_min is too small beside λ_max for such a loop. A Krylov search on one batch finds it now and then, and the batches
after it measure its direction.
"""

from __future__ import annotations

import copy
import math
import statistics
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.cost import Ledger
from unsaddle.curvature.krylov.process import KrylovProcess
from unsaddle.spectrum.hessian import Hessian, hessian_at
from unsaddle.torch_optim import online, policy
from unsaddle.torch_optim.batch import DrawnBatch
from unsaddle.torch_optim.closure import ClosureObjective

SEARCH_STEPS = 20
"""Products of a search: the ends of a network's spectrum are then known to some per cent, as far as one batch tells."""

SEARCH_GRADIENTS = SEARCH_STEPS + 7
"""What a search takes, with the survey of the gradients around x that finds the radius; more where gradients are noisy,
so that products are taken from both sides."""

KEPT = 64
"""Measurements that are remembered."""

FEWEST, APART = 2, 2.0
"""λ_max is the mean of the last two measurements or more: of twice as many each time the older half differs from the
newer one by no more than so many standard errors."""

LOST = 0.5
"""A direction that has less than this share of the highest curvature of the batch of a search is replaced: it has lost
the eigenvector. More is what single batches differ by."""

LOWEST_MEASUREMENTS = 8
"""Fresh batches that measure the direction of the lowest curvature after a search, in turn with the highest."""

Batch = ClosureObjective | DrawnBatch


@dataclass(kw_only=True)
class Track:
    """Everything that the monitor remembers, and a checkpoint has to hold."""

    steps: int = 0
    """Training steps begun."""
    trained: int = 0
    """Gradients spent on training."""
    spent: int = 0
    """Gradients spent on measurements."""
    searching: int = 0
    """Gradients spent on searches."""
    searches: int = 0
    measured: int = 0
    """Measurements so far. Every other one is on the other side of x, so that third derivatives cancel in the mean."""
    measured_at: int | None = None
    """The step of the last measurement or search."""
    radius: float = math.nan
    """The length of rSu."""
    central: bool = False
    """Whether products are taken from both sides, two gradients each."""
    highest: Tensor | None = None
    """u: a unit vector over all parameters that require gradients."""
    lowest: Tensor | None = None
    """The lowest direction of the last search."""
    curvatures: list[float] = field(default_factory=list)
    """Along `highest`, the last ones."""
    lows: list[float] = field(default_factory=list)
    """Along `lowest`, on fresh batches."""
    ends: tuple[float, float] = (math.nan, math.nan)
    """Lowest and highest curvature of the batch of the last search."""
    above: bool = False
    """Whether λ_max was above the limit."""
    rows: list[dict[str, Any]] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """A copy for a checkpoint."""
        return {f.name: copy.deepcopy(getattr(self, f.name)) for f in fields(self)}

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> Track:
        known = {f.name for f in fields(cls)}
        if not isinstance(saved, dict) or set(saved) != known:
            got = sorted(set(saved) ^ known) if isinstance(saved, dict) else type(saved).__name__
            raise ValueError(
                f"expected what CurvatureMonitor.state_dict() made, got a state that differs in {got}; start afresh "
                "without loading it"
            )
        return cls(**copy.deepcopy(saved) | {"ends": tuple(saved["ends"])})

    def forget(self) -> None:
        """Drops both directions: the parameters are others."""
        self.highest = self.lowest = None
        self.curvatures, self.lows, self.ends = [], [], (math.nan, math.nan)

    @property
    def next_search(self) -> int:
        """Gradients that a search takes: as many as those before it did, in the mean."""
        return max(SEARCH_GRADIENTS, math.ceil(self.searching / max(1, self.searches)))

    @property
    def sharpness(self) -> tuple[float, float]:
        """λ_max and its error."""
        return recent(tuple(self.curvatures)) if self.curvatures else (self.ends[1], math.nan)

    @property
    def lowest_seen(self) -> tuple[float, float]:
        """The curvature along the lowest direction, and its error."""
        return policy.interval(self.lows) if self.lows else (self.ends[0], math.nan)


@lru_cache(maxsize=4)
def recent(numbers: tuple[float, ...]) -> tuple[float, float]:
    """The mean of the last numbers, and its error: of as many as do not show a drift. Cached: each step asks.

    >>> steady, drifting = (1.0, 1.1, 0.9, 1.0), (5.0, 5.1, 4.9, 5.0)
    >>> round(recent(steady + steady)[0], 6), round(recent(steady + drifting)[0], 6)
    (1.0, 5.0)
    """
    n = FEWEST
    while 2 * n <= len(numbers):
        newer, older = numbers[-n:], numbers[-2 * n : -n]
        error = math.sqrt((statistics.variance(newer) + statistics.variance(older)) / n)
        if not abs(statistics.fmean(newer) - statistics.fmean(older)) <= APART * error:
            break
        n *= 2
    return policy.interval(numbers[-n:])


def search(track: Track, batch: Batch, sizes: Tensor | None, seed: int) -> None:
    """Both ends of the spectrum of S∇²f_B(x)S, by a Krylov process on one batch."""
    before = batch.evaluations
    generator = torch.Generator().manual_seed(seed + track.searches)
    track.searches += 1
    try:
        batch.check()
        hessian = hessian_at(batch, batch.point, None, generator, Ledger(), SEARCH_GRADIENTS)
        if not hessian.is_finite:
            return
        found = _grown(hessian, sizes, generator)
    finally:
        track.searching += batch.evaluations - before
        batch.parameters.forget()
    if found is None:
        return
    largest = found.largest if sizes is None else 0.0
    track.radius = hessian.radius(largest)
    track.central = hessian.is_central(track.radius)
    values = found.projection.values
    track.ends, track.lows = (float(values[0]), float(values[-1])), []
    track.lowest = found.vector(0)
    if track.highest is None or track.sharpness[0] < LOST * track.ends[1]:
        track.highest, track.curvatures = found.vector(-1), []


def _grown(hessian: Hessian, sizes: Tensor | None, generator: torch.Generator) -> KrylovProcess | None:
    """The process after its steps; None if a gradient was not finite."""

    def multiply(q: Tensor, out: Tensor) -> None:
        if sizes is None:
            return hessian.multiply(q, out, 0.0)
        moved = q * sizes
        length = vectors.norm(moved)
        hessian.multiply(moved.div_(length), out, 0.0)
        out.mul_(sizes).mul_(length)
        return None

    process = KrylovProcess(multiply, vectors.random_direction(hessian.x, generator), SEARCH_STEPS)
    while not (process.full or process.exhausted):
        if not process.expand(solve=process.projection.size + 1 == SEARCH_STEPS):
            return None
    process.solve()
    return process


def measure(track: Track, batch: Batch, at_x: Tensor | None, sizes: Tensor | None) -> None:
    """One measurement on a fresh batch: of the highest direction, which it turns, or of the lowest.

    Args:
        track: what is known; it changes.
        batch: the batch as an objective over the trained parameters.
        at_x: its gradient at the parameters, if that is known.
        sizes: S; None for ones.
    """
    track.measured += 1
    low = track.lowest is not None and len(track.lows) < LOWEST_MEASUREMENTS and track.measured % 2 == 0
    u = track.lowest if low else track.highest
    assert u is not None
    before = batch.evaluations
    try:
        seen = _look(track, batch, u, at_x, sizes)
    finally:
        track.spent += batch.evaluations - before
        batch.parameters.forget()
    if low:
        track.lows.append(seen.curvature)
        return
    track.curvatures = [*track.curvatures, seen.curvature][-KEPT:]
    around = track.sharpness[0]
    if math.isfinite(seen.size) and around > 0.0:
        track.highest = online.turn(u, seen.product.neg_(), smoothness=around, number=0)


def _look(track: Track, batch: Batch, u: Tensor, at_x: Tensor | None, sizes: Tensor | None) -> online.Look:
    f, x = batch.sample(), batch.point
    moved = u if sizes is None else u * sizes
    r = track.radius / vectors.norm(moved)
    if track.measured % 4 < 2:
        r = -r
    beyond = f.grad_at_sum(x, moved, r).clone()
    if track.central:
        at_x, r = f.grad_at_sum(x, moved, -r), 2.0 * r
    elif at_x is None:
        at_x = f.value_and_grad(x)[1]
    if sizes is not None:
        at_x, beyond = at_x * sizes, beyond.mul_(sizes)
    return online.look(u, at_x, beyond, r)


def cost_of_measurement(track: Track, *, known: bool) -> int:
    """Gradients that a measurement takes; `known`: whether that at x is there already."""
    return 2 if track.central or not known else 1
