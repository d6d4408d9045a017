"""The work of `CurvatureMonitor`: a Krylov search on one batch, and measurements of what it found on fresh batches.

    search on a batch B at x        u, the highest eigenvector of S∇²f_B(x)S; now and then the lowest one, too
    on the batches of later steps   h = S(∇f_B(x + rSu) − ∇f_B(x − rSu))/(2r),  q = uᵀh, at the same x
    after the first few             u ← the mean of their h, normalised
    on the last one                 the same along p, what the mean of all h has beside u

Training moves on meanwhile, but x and S stay those of the search. In a transformer at its edge of stability, the
eigenvector of λ_max is another one after each training step (overlap 0.1 to 0.3), so that no u can follow it.
`monitor_burst` makes λ_max of the q, of p and of the curvature along it.
"""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.cost import Ledger
from unsaddle.curvature.krylov.process import KrylovProcess
from unsaddle.curvature.question import RELATIVE_GAMMA
from unsaddle.objective import SampledFunction
from unsaddle.spectrum.ends import errors
from unsaddle.spectrum.hessian import hessian_at
from unsaddle.torch_optim import online, policy
from unsaddle.torch_optim.batch import DrawnBatch
from unsaddle.torch_optim.closure import ClosureObjective
from unsaddle.torch_optim.monitor_burst import FIRST_BATCHES, Noise, across, highest, is_seen

SEARCH_STEPS = 20
"""Products of a search for both ends: they are then known to some per cent, as far as one batch tells."""

SEARCH_GRADIENTS = SEARCH_STEPS + 7
"""What such a search takes, with the survey of the gradients around x that finds the radius; more where gradients are
noisy, so that products are taken from both sides."""

FEWEST_STEPS, MOST_STEPS, KNOWN = 8, 12, 1e-3
"""Products of a search for the highest eigenvalue alone: at least, so that one that has overtaken the last one is seen;
and at most, until its error is this share of it."""

ROUGHLY = 10.0
"""Products of a search may round by so many times more than those of `eigenpairs`: one batch tells less."""

Batch = ClosureObjective | DrawnBatch


@dataclass(kw_only=True)
class Track:
    """Everything that the monitor remembers, and a checkpoint has to hold."""

    steps: int = 0
    """Training steps begun."""
    trained: int = 0
    """Gradients spent on training."""
    spent: int = 0
    """Gradients spent on λ_max."""
    searching: int = 0
    """Gradients spent on searches for both ends."""
    searches: int = 0
    """Searches of both kinds."""
    deep: int = 0
    """Searches for both ends."""
    measured_at: int | None = None
    """The step at whose x λ_max was measured."""
    batches: int = 1
    """How many batches it is the mean of."""
    fresh: bool = False
    """Whether λ_max was measured after the last row."""
    high_probe: tuple[float, bool] = (math.nan, False)
    """For the highest direction: the length of rSu, and whether products of a search are from both sides."""
    low_probe: tuple[float, bool] = (math.nan, False)
    """The same for the lowest direction, whose curvature is small, so that rounding asks for more distance."""
    highest: Tensor | None = None
    """u: a unit vector over all parameters that require gradients."""
    lowest: Tensor | None = None
    """The lowest direction, while a burst measures it."""
    origin: Tensor | None = None
    """x of the search, while a burst is under way."""
    sizes: Tensor | None = None
    """S of the search; None for ones."""
    began: int = 0
    """The step of the search."""
    burst: list[float] = field(default_factory=list)
    """Curvatures along u, on fresh batches."""
    squares: list[float] = field(default_factory=list)
    """‖h‖² of each."""
    total: Tensor | None = None
    """Σh."""
    aside: Tensor | None = None
    """p, normalised, while a batch measures it."""
    beside: float = 0.0
    """‖p‖²."""
    low_burst: list[float] = field(default_factory=list)
    """Curvatures along the lowest direction."""
    alone: bool = False
    """Whether u is that of the search, of one batch, and no others have been asked whether they agree."""
    noise: Noise = field(default_factory=Noise)
    sharpness: tuple[float, float] = (math.nan, math.nan)
    """λ_max and its error."""
    lowest_seen: tuple[float, float] = (math.nan, math.nan)
    """The curvature along the lowest direction, and its error."""
    lowest_at: int | None = None
    """The step of the search that found it."""
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
        self.highest = None
        self.sharpness = self.lowest_seen = (math.nan, math.nan)
        self.end()

    def end(self) -> None:
        """Ends a burst."""
        self.origin = self.sizes = self.lowest = self.total = self.aside = None
        self.burst, self.squares, self.low_burst, self.beside = [], [], [], 0.0

    @property
    def next_search(self) -> int:
        """Gradients that a search for both ends takes: as many as those before it did, in the mean."""
        return max(SEARCH_GRADIENTS, math.ceil(self.searching / max(1, self.deep)))

    def next_burst(self, *, known: bool) -> int:
        """Gradients that the next burst takes, about; `known`: whether that at x is there already."""
        steps = (FEWEST_STEPS + MOST_STEPS) // 2
        fresh = self.noise.size + 1 + (0 if self.noise.agree else FIRST_BATCHES)
        return (2 * steps if self.high_probe[1] else steps + (not known)) + 2 * fresh


def search(
    track: Track, batch: Batch, at_x: Tensor | None, sizes: Tensor | None, seed: int, *, both_ends: bool
) -> None:
    """Begins a burst: the highest eigenvalue of S∇²f_B(x)S by a Krylov process, and the lowest one if it is asked for.

    It starts from the last u and, as much, from a random vector: u may have been overtaken.

    Args:
        track: what is known; it changes.
        batch: B as an objective over the trained parameters.
        at_x: its gradient at the parameters, if that is known.
        sizes: S; None for ones.
        seed: of the random start.
        both_ends: whether the lowest one is asked for, which takes more products. The radius is then chosen anew.
    """
    before = batch.evaluations
    generator = torch.Generator().manual_seed(seed + track.searches)
    track.searches, track.deep = track.searches + 1, track.deep + both_ends
    start = vectors.random_direction(batch.point, generator)
    if sizes is not None:  # Random in x. In S⁻¹x, parameters that hardly ever had a gradient would be all of it.
        start.div_(sizes).div_(vectors.norm(start))
    if track.highest is not None:
        start.add_(track.highest).div_(vectors.norm(start))
    try:
        if both_ends:
            found = _both_ends(track, batch, sizes, start, generator)
        else:
            found = _one(track, batch, at_x, sizes, start)
        origin = batch.point
    finally:
        taken = batch.evaluations - before
        track.searching, track.spent = track.searching + both_ends * taken, track.spent + (not both_ends) * taken
        batch.parameters.forget()
    if found is None:
        return
    track.highest = found.vector(-1)
    if both_ends:
        track.lowest, track.lowest_seen = found.vector(0), (float(found.projection.values[0]), math.nan)
        track.lowest_at = track.steps
    track.origin, track.sizes, track.began, track.alone = origin, sizes, track.steps, True


def _both_ends(
    track: Track, batch: Batch, sizes: Tensor | None, start: Tensor, generator: torch.Generator
) -> KrylovProcess | None:
    batch.check()
    hessian = hessian_at(batch, batch.point, None, generator, Ledger(), SEARCH_GRADIENTS)
    if not hessian.is_finite:
        return None
    largest = 0.0

    def product(v: Tensor, out: Tensor) -> None:
        nonlocal largest
        hessian.multiply(v, out, ROUGHLY * largest)
        largest = max(largest, vectors.norm(out))

    with hessian.held():
        found = _grown(product, sizes, start, SEARCH_STEPS, SEARCH_STEPS)
    # Curvature is known to a share of this: all of it for the highest direction, a hundredth for the lowest.
    for name, size in (("high_probe", largest / RELATIVE_GAMMA), ("low_probe", largest)):
        radius = hessian.radius(size)
        setattr(track, name, (radius, hessian.is_central(radius)))
    return found


def _one(track: Track, batch: Batch, at_x: Tensor | None, sizes: Tensor | None, start: Tensor) -> KrylovProcess | None:
    """Products at the radius of the last search for both ends."""
    f, x, (radius, central) = batch.sample(), batch.point, track.high_probe
    with contextlib.ExitStack() as stack:

        def product(v: Tensor, out: Tensor) -> None:
            out.copy_(f.grad_at_sum(x, v, radius))
            if central:
                out.sub_(f.grad_at_sum(x, v, -radius)).div_(2.0 * radius)
            else:
                assert at_x is not None
                out.sub_(at_x).div_(radius)
            stack.pop_all().close()
            stack.enter_context(f.held())  # Not before the first evaluation, which finds the modules of a closure.

        if at_x is None and not central:
            at_x = f.value_and_grad(x)[1].clone()
        return _grown(product, sizes, start, FEWEST_STEPS, MOST_STEPS)


def _grown(
    product: Callable[[Tensor, Tensor], None], sizes: Tensor | None, start: Tensor, fewest: int, most: int
) -> KrylovProcess | None:
    """A process of S∇²f_B(x)S after its steps; None if a gradient was not finite. `product` takes unit vectors."""

    def multiply(q: Tensor, out: Tensor) -> None:
        if sizes is None:
            product(q, out)
            return
        moved = q * sizes
        length = vectors.norm(moved)
        product(moved.div_(length), out)
        out.mul_(sizes).mul_(length)

    process = KrylovProcess(multiply, start, most)
    seen = process.projection
    while not (process.full or process.exhausted):
        late = seen.size + 1 >= fewest
        if not process.expand(solve=late):
            return None
        if late and errors(seen.values, seen.residuals)[-1] <= KNOWN * seen.values[-1]:
            break
    process.solve()
    return process


def measure(track: Track, batch: Batch) -> None:
    """Measures what the search found on a fresh batch, at the x of the search: two gradients for each direction."""
    along = track.highest if track.aside is None else track.aside
    assert along is not None
    f, taken = batch.sample(), batch.evaluations
    try:
        high = _look(track, f, along, track.high_probe[0])
        track.spent, taken = track.spent + batch.evaluations - taken, batch.evaluations
        low = None if track.lowest is None else _look(track, f, track.lowest, track.low_probe[0]).curvature
        track.searching += batch.evaluations - taken
    finally:
        batch.parameters.forget()
    if not math.isfinite(high.size + (low or 0.0)):
        track.end()
        return
    track.low_burst += [] if low is None else [low]
    if track.aside is not None:
        _tell(track, high.curvature)
        return
    track.burst.append(high.curvature)
    track.squares.append(high.size**2)
    track.total = high.product if track.total is None else track.total.add_(high.product)
    noise, total = track.noise.after(track.burst), sum(track.burst)
    agree = False
    if track.alone:
        if len(track.burst) < FIRST_BATCHES:
            return
        track.alone, agree = False, Noise().after(track.burst).agree  # Earlier bursts may have agreed elsewhere.
        if not agree and total > 0.0:
            track.noise, track.highest = noise, track.total.div_(vectors.norm(track.total))
            track.burst, track.squares, track.total = [], [], None
            return
    if not agree and len(track.burst) < noise.size:
        return
    squares = [q * q for q in track.burst]
    track.noise, track.beside = noise, across(vectors.norm(track.total) ** 2, track.squares) - across(total**2, squares)
    if is_seen(total / len(track.burst), track.beside):
        track.aside, track.total = track.total.sub_(along, alpha=total), None
        track.aside.div_(vectors.norm(track.aside))
    else:
        _tell(track, None)


def _tell(track: Track, aside: float | None) -> None:
    """Ends a burst with its λ_max. `aside`: the curvature along p, if that was measured."""
    track.sharpness = highest(track.burst, track.beside, aside, track.noise)
    track.batches = 1 + track.steps - track.began
    if track.low_burst:
        track.lowest_seen = policy.interval(track.low_burst)
    track.measured_at, track.fresh = track.began, True
    track.end()


def _look(track: Track, f: SampledFunction, u: Tensor, radius: float) -> online.Look:
    """From both sides of x, so that third derivatives cancel."""
    x, sizes = track.origin, track.sizes
    assert x is not None
    moved = u if sizes is None else u * sizes
    r = radius / vectors.norm(moved)
    beyond = f.grad_at_sum(x, moved, r).clone()
    before = f.grad_at_sum(x, moved, -r)
    if sizes is not None:
        before, beyond = before * sizes, beyond.mul_(sizes)
    return online.look(u, before, beyond, 2.0 * r)
