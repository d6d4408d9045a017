"""The work of `CurvatureMonitor` on one batch: a search for both ends of the spectrum, or one measurement of a burst.

    h = S(∇f_B(x + rSu) − ∇f_B(x))/r        one gradient more than the training step takes
    q = uᵀh                                 unbiased: u was made by earlier batches
    u ← cu + h/q̄, normalised                a power iteration, shifted by c

So u follows the eigenvector of λ_max while training goes on, and the mean of the q of a burst, that is of some
consecutive steps, is λ_max there (`monitor_burst`). c is zero, but for two things: noise of single batches that would
hold u off the eigenvector, and negative curvature that a power iteration would follow.

λ_min is too small beside λ_max for such a loop. A Krylov search on one batch finds it now and then, and a burst after
it measures its direction.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field, fields
from typing import Any

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.cost import Ledger
from unsaddle.curvature.krylov.process import KrylovProcess
from unsaddle.curvature.question import RELATIVE_GAMMA
from unsaddle.spectrum.hessian import Hessian, hessian_at
from unsaddle.torch_optim import online, policy
from unsaddle.torch_optim.batch import DrawnBatch
from unsaddle.torch_optim.closure import ClosureObjective
from unsaddle.torch_optim.monitor_burst import FEWEST, TURNS, Noise, highest

SEARCH_STEPS = 20
"""Products of a search: the ends of a network's spectrum are then known to some per cent, as far as one batch tells."""

SEARCH_GRADIENTS = SEARCH_STEPS + 7
"""What a search takes, with the survey of the gradients around x that finds the radius; more where gradients are noisy,
so that products are taken from both sides."""

ROUGHLY = 10.0
"""Products of a search may round by so many times more than those of `eigenpairs`: one batch tells less."""

LOST = 0.5
"""A direction that has less than this share of the highest curvature of the batch of a search is replaced: it has lost
the eigenvector. More is what single batches differ by."""

STEADY = 0.3
"""The noise of single batches, as a share of λ_max, from which on c grows with its square. About 0.65 of the noise
turns u (`benchmarks.monitor`), and the curvature along u is then too low by (0.65·noise)²/(2(1 + c)): by 2 %."""

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
    """The step at which λ_max was measured."""
    batches: int = 1
    """How many batches it is the mean of."""
    fresh: bool = False
    """Whether λ_max was measured after the last row."""
    high_probe: tuple[float, bool] = (math.nan, False)
    """For the highest direction: the length of rSu, and whether products are from both sides, two gradients each."""
    low_probe: tuple[float, bool] = (math.nan, False)
    """The same for the lowest direction, whose curvature is small, so that rounding asks for more distance."""
    highest: Tensor | None = None
    """u: a unit vector over all parameters that require gradients."""
    lowest: Tensor | None = None
    """The lowest direction of the last search."""
    burst: list[float] = field(default_factory=list)
    """Curvatures of the burst that is under way."""
    size: int = 0
    """How many there will be; 0 if no burst is under way."""
    low: bool = False
    """Whether the burst measures the lowest direction."""
    noise: Noise = field(default_factory=Noise)
    sharpness: tuple[float, float] = (math.nan, math.nan)
    """λ_max and its error."""
    lowest_seen: tuple[float, float] = (math.nan, math.nan)
    """The curvature along the lowest direction, and its error."""
    above: bool = False
    """Whether λ_max was above the limit."""
    rows: list[dict[str, Any]] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """A copy for a checkpoint."""
        saved = {f.name: copy.deepcopy(getattr(self, f.name)) for f in fields(self)}
        return saved | {"noise": tuple(self.noise)}  # torch.load(weights_only=True) knows no classes of ours.

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> Track:
        known = {f.name for f in fields(cls)}
        if not isinstance(saved, dict) or set(saved) != known:
            got = sorted(set(saved) ^ known) if isinstance(saved, dict) else type(saved).__name__
            raise ValueError(
                f"expected what CurvatureMonitor.state_dict() made, got a state that differs in {got}; start afresh "
                "without loading it"
            )
        pairs = {name: tuple(saved[name]) for name in ("sharpness", "lowest_seen", "high_probe", "low_probe")}
        return cls(**copy.deepcopy(saved) | pairs | {"noise": Noise(*saved["noise"])})

    def forget(self) -> None:
        """Drops both directions: the parameters are others."""
        self.highest = self.lowest = None
        self.burst, self.size = [], 0
        self.sharpness = self.lowest_seen = (math.nan, math.nan)

    @property
    def next_search(self) -> int:
        """Gradients that a search takes: as many as those before it did, in the mean."""
        return max(SEARCH_GRADIENTS, math.ceil(self.searching / max(1, self.searches)))


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
        with hessian.held():
            found, largest = _grown(hessian, sizes, generator)
    finally:
        track.searching += batch.evaluations - before
        batch.parameters.forget()
    if found is None:
        return
    # Curvature is known to a share of this: all of it for the highest direction, a hundredth for the lowest.
    for name, size in (("high_probe", largest / RELATIVE_GAMMA), ("low_probe", largest)):
        radius = hessian.radius(size)
        setattr(track, name, (radius, hessian.is_central(radius)))
    low, high = float(found.projection.values[0]), float(found.projection.values[-1])
    track.lowest, track.lowest_seen = found.vector(0), (low, math.nan)
    if track.highest is None or not track.sharpness[0] >= LOST * high:
        track.highest, track.sharpness = found.vector(-1), (high, math.nan)
        track.measured_at, track.batches, track.fresh = track.steps, 1, True


def _grown(hessian: Hessian, sizes: Tensor | None, generator: torch.Generator) -> tuple[KrylovProcess | None, float]:
    """The process after its steps, None if a gradient was not finite; and the largest ‖∇²f_B(x)v‖ of a unit v."""
    largest = 0.0

    def multiply(q: Tensor, out: Tensor) -> None:
        nonlocal largest
        moved = q if sizes is None else q * sizes
        length = 1.0 if sizes is None else vectors.norm(moved)
        hessian.multiply(moved if sizes is None else moved.div_(length), out, ROUGHLY * largest)
        largest = max(largest, vectors.norm(out))
        if sizes is not None:
            out.mul_(sizes).mul_(length)

    process = KrylovProcess(multiply, vectors.random_direction(hessian.x, generator), SEARCH_STEPS)
    while not (process.full or process.exhausted):
        if not process.expand(solve=process.projection.size + 1 == SEARCH_STEPS):
            return None, largest
    process.solve()
    return process, largest


def begin(track: Track) -> None:
    """Begins a burst: of the highest direction, and of the lowest one after the first since a search."""
    track.low = track.lowest is not None and math.isnan(track.lowest_seen[1]) and math.isfinite(track.sharpness[1])
    track.burst, track.size = [], TURNS + FEWEST if track.low else track.noise.size


def measure(track: Track, batch: Batch, at_x: Tensor | None, sizes: Tensor | None) -> None:
    """One measurement of a burst on a fresh batch: of the highest direction, which it turns, or of the lowest.

    Args:
        track: what is known; it changes.
        batch: the batch as an objective over the trained parameters.
        at_x: its gradient at the parameters, if that is known.
        sizes: S; None for ones.
    """
    track.measured += 1
    u = track.lowest if track.low else track.highest
    assert u is not None
    before = batch.evaluations
    try:
        seen = _look(track, batch, u, at_x, sizes)
    finally:
        track.spent += batch.evaluations - before
        batch.parameters.forget()
    if not math.isfinite(seen.size):
        track.burst, track.size = [], 0
        return
    track.burst.append(seen.curvature)
    if not track.low:
        track.highest = _turned(track, u, seen.product)
    if len(track.burst) < track.size:
        return
    if track.low:
        track.lowest_seen = policy.interval(track.burst)
    else:
        track.noise = track.noise.after(track.burst)
        track.sharpness, track.batches = highest(track.burst, track.noise), track.size - TURNS
        track.measured_at, track.fresh = track.steps, True
    track.burst, track.size = [], 0


def _turned(track: Track, u: Tensor, product: Tensor) -> Tensor:
    """The next u."""
    around, low = sum(track.burst) / len(track.burst), track.lowest_seen[0]
    if not around > 0.0:
        return u
    shift = max(track.noise.variance / STEADY**2 - 1.0, -low / around if low < 0.0 else 0.0, 0.0)
    moved = torch.add(product, u, alpha=shift * around)
    norm = vectors.norm(moved)
    return moved.div_(norm) if norm > 0.0 else u


def _look(track: Track, batch: Batch, u: Tensor, at_x: Tensor | None, sizes: Tensor | None) -> online.Look:
    f, x = batch.sample(), batch.point
    radius, central = track.low_probe if track.low else track.high_probe
    moved = u if sizes is None else u * sizes
    r = radius / vectors.norm(moved)
    if track.measured % 4 < 2:
        r = -r
    beyond = f.grad_at_sum(x, moved, r).clone()
    if central:
        at_x, r = f.grad_at_sum(x, moved, -r), 2.0 * r
    elif at_x is None:
        at_x = f.value_and_grad(x)[1]
    if sizes is not None:
        at_x, beyond = at_x * sizes, beyond.mul_(sizes)
    return online.look(u, at_x, beyond, r)


def cost_of_measurement(track: Track, *, known: bool) -> int:
    """Gradients that a measurement takes; `known`: whether that at x is there already."""
    return 2 if track.high_probe[1] or not known else 1
