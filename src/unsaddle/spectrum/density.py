"""`spectral_density`: how the eigenvalues of the Hessian are distributed, with gradients only."""

from __future__ import annotations

import math
import statistics
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from unsaddle import checks, vectors
from unsaddle.cost import Ledger
from unsaddle.curvature.krylov.process import BREAKDOWN, KrylovProcess
from unsaddle.judgement.watch import watched
from unsaddle.measure import student
from unsaddle.measure.direction import CLAIMED
from unsaddle.objective import Objective, as_objective, point_of, with_its_ranks
from unsaddle.spectrum.hessian import ASKEW, Hessian, Inexact, hessian_at
from unsaddle.spectrum.result import Density, Status
from unsaddle.spectrum.second_look import looked_again
from unsaddle.spectrum.space import Space
from unsaddle.vectors import Array

SMALLEST_WIDTH = 1e-4
"""The grid has four points a width: 40 000 of them."""
WIDTH, STEPS_A_WIDTH = 0.02, 1.0
"""The smoothing as a share of the range of the spectrum, and the steps that resolve it, over 1/width. On [−1, 1] the
Chebyshev coefficients of a Gaussian of width w fall as exp(−k²w²/2), and m steps are exact to degree 2m − 1: with
m = 2/w, which is 1/width, what is left is exp(−8)."""

FEWEST_PROBES, MOST_PROBES = 4, 48
"""Random probes, by default: the fewest, and the most if the spread asks for more."""

FEW_DIMENSIONS = 2048
"""In so few dimensions every eigenvalue is computed, if probes would take as many products. The basis takes 32 MB."""

SPREAD = 0.012
"""Probes are added until the standard error of the density, integrated, is below this."""

POINTS = 512
"""Points of the grid."""

CONFIDENCE = 0.95
"""Of the error of the trace."""

TOLERANCE = 0.01
"""Radii may disagree by this share of the trace."""

CHECKED = 4
"""Vectors along which products are taken again, at another radius, beside those of both ends of the spectrum."""


class Quadrature(NamedTuple):
    """One probe: nodes, and weights that sum to 1."""

    nodes: Array
    weights: Array


@with_its_ranks
def spectral_density(
    objective: Objective,
    x: Tensor | None = None,
    *,
    width: float = WIDTH,
    probes: int | None = None,
    steps: int | None = None,
    samples: int | None = None,
    seed: int = 0,
    progress: bool = False,
) -> Density:
    """The density of the eigenvalues of ∇²F(x), with its spread over random probes, and the trace with its error.

    Args:
        objective: F.
        x: the point. It may be left out for an objective that has a `point` of its own, such as a model.
        width: of the Gaussian that the density is smoothed by, as a share of the range of the spectrum.
        probes: random vectors. By default 4, and up to 48 until the standard error of the density, integrated, is
            below 0.012.
        steps: products a probe, and vectors that are held. By default 1/width. Fewer make the smoothing wider.
        samples: |S|, drawn once; the density is then that of F_S. None for everything, or for 1024 of a stream.
        seed: of the samples and the probes.
        progress: show on a terminal how many gradients were taken. Needs rich, of the extra `progress`.

    Each probe is the start of a Krylov process, fully orthogonalised. Its Ritz values, weighted by the squares of their
    vectors' first components, are a Gauss quadrature of the spectral measure of the probe (stochastic Lanczos
    quadrature: Golub and Welsch 1969; Ubaru, Chen and Saad 2017). Its mean over the probes is that of the spectrum.
    Where d products are no more than those of the probes, every eigenvalue is computed instead, up to d = 2048.

    Products are taken again along the Ritz vectors of both ends and along four probes, on the other side of x and
    farther out, as `eigenpairs` does. Three times the difference is an error: `trace_error` contains it, and the status
    is INACCURATE if it exceeds the width of the smoothing at an end, or, in the trace, what the probes scatter by;
    and where no two radii agree in the first place. Then F is asked in float64, on a copy of it, or between kinks.

    Cost: probes·steps gradients, 50 for each probe by default, and 12 to 18 more. Memory: steps + 5 vectors.

    >>> from unsaddle import Function
    >>> sizes = torch.linspace(-1.0, 3.0, 60, dtype=torch.float64)
    >>> found = spectral_density(Function(lambda x: 0.5 * (sizes * x * x).sum()), torch.zeros(60).double())
    >>> found.exact, round(found.trace, 4), round(float(np.trapezoid(found.density, found.grid)), 4)
    (True, 60.0, 1.0)
    """
    F = as_objective(objective)
    point = point_of(F, x)
    width = checks.positive(width, "width")
    if probes is not None:
        checks.count(probes, "probes")
    if steps is not None:
        checks.count(steps, "steps", at_least=2)
    generator = torch.Generator().manual_seed(checks.seed(seed))
    with watched(F, None, progress) as seen:
        hessian = hessian_at(as_objective(seen), point, samples, generator, Ledger())
        found, _ = density_of(hessian, None, width, probes, steps, generator)
    return found


def density_of(
    hessian: Hessian,
    mask: Tensor | None,
    width: float,
    probes: int | None,
    steps: int | None,
    generator: torch.Generator,
) -> tuple[Density, Hessian]:
    """The density, of a block if there is a mask, and the Hessian that it is of. Where two radii disagree, once more in
    float64 or between kinks."""
    if not SMALLEST_WIDTH <= width <= 1.0:
        raise ValueError(f"width must be between {SMALLEST_WIDTH:g} and 1, got {width:g}; it is a share of the range")
    checked: list[_Check] = []

    def search(hessian: Hessian) -> Density:
        checked.append(_Check(hessian))
        return _checked_density(checked[-1], Space(hessian.x, mask), width, probes, steps, generator)

    return looked_again(hessian, search, lambda _: checked[-1].worst, generator)


def _checked_density(
    check: _Check, space: Space, width: float, probes: int | None, steps: int | None, generator: torch.Generator
) -> Density:
    hessian = check.hessian
    resolved = math.ceil(STEPS_A_WIDTH / width)
    steps = resolved if steps is None else steps
    width, d = max(width, STEPS_A_WIDTH / steps), space.dimension
    if not hessian.is_finite:
        return _nothing(hessian, d)
    if d <= min(FEW_DIMENSIONS, (FEWEST_PROBES if probes is None else probes) * steps):
        return _exact(check, space, width, generator)
    seen: list[Quadrature] = []
    while len(seen) < (MOST_PROBES if probes is None else probes):
        start = space.random(generator)
        process = _grown(hessian, space, steps, start)
        if process is None:
            return _nothing(hessian, d)
        first = process.projection.vectors[0]
        one = Quadrature(process.projection.values, first**2 / float(first @ first))
        if not seen or _is_outside(one, seen, width):
            check.at_ends(process)
        if len(seen) < CHECKED:
            check.along(start, float(one.nodes @ one.weights), process.largest)
        seen.append(one)
        if probes is None and len(seen) >= FEWEST_PROBES:
            so_far = _smoothed(hessian, seen, width, d, steps, check)
            spread = float(np.trapezoid(so_far.spread, so_far.grid))
            if spread <= SPREAD:
                break
            more = min(MOST_PROBES, len(seen) * (spread / SPREAD) ** 2) - len(seen)
            if d <= min(FEW_DIMENSIONS, more * steps):
                return _exact(check, space, width, generator)
    return _smoothed(hessian, seen, width, d, steps, check)


class _Check:
    """How far products at another radius, on the other side of x, are off those that a density is made of.

    The evidence is that of `eigenpairs` (`measured`): three times the difference in curvature along a vector.
    """

    def __init__(self, hessian: Hessian) -> None:
        self.hessian, self._along, self._most = hessian, list[float](), -1.0
        self.ends = 0.0
        """The largest error at the ends of the spectrum."""
        self.worst: Tensor | None = None
        """The unit vector with the largest error."""

    @property
    def mean(self) -> float:
        """The mean error along vectors from all over the spectrum: a d-th of the error of the trace."""
        return statistics.fmean(self._along) if self._along else 0.0

    def _off(self, v: Tensor, claimed: float, largest: float) -> float:
        (again,) = vectors.dots((v, self.hessian.measure(v, largest)))
        off = CLAIMED * abs(again - claimed) + float(self.hessian.error_along(np.array(claimed), largest))
        if off > self._most:
            self._most, self.worst = off, v
        return off

    def along(self, v: Tensor, claimed: float, largest: float) -> None:
        self._along.append(self._off(v, claimed, largest))

    def at_ends(self, process: KrylovProcess) -> None:
        values = process.projection.values
        off = [self._off(process.vector(i), float(values[i]), process.largest) for i in (0, -1)]
        self.ends = max(self.ends, *off)

    def throughout(self, process: KrylovProcess) -> None:
        """Both ends, and Ritz vectors between them."""
        self.at_ends(process)
        values = process.projection.values
        for i in np.linspace(0, len(values) - 1, CHECKED + 2).round().astype(int)[1:-1]:
            self.along(process.vector(int(i)), float(values[i]), process.largest)


def _is_outside(one: Quadrature, seen: list[Quadrature], width: float) -> bool:
    """Whether a probe has nodes beyond those of all others, by more than the smoothing. It may have crossed a kink."""
    low, high = min(float(q.nodes.min()) for q in seen), max(float(q.nodes.max()) for q in seen)
    room = width * (high - low)
    return bool(one.nodes.min() < low - room or one.nodes.max() > high + room)


def _exact(check: _Check, space: Space, width: float, generator: torch.Generator) -> Density:
    """The density of all eigenvalues, each of which is computed: d products."""
    hessian, d = check.hessian, space.dimension
    known = _every_value(hessian, space, generator, check)
    if known is None:
        return _nothing(hessian, d)
    values, error = known
    return _smoothed(hessian, [Quadrature(values, np.full(d, 1.0 / d))], width, d, d, check, exact=True, error=error)


def _grown(hessian: Hessian, space: Space, steps: int, start: Tensor) -> KrylovProcess | None:
    """A process after so many steps, or fewer if its space is invariant; None if a product was not finite."""
    process: KrylovProcess

    def multiply(q: Tensor, out: Tensor) -> None:
        hessian.multiply(q, out, process.largest)

    process = KrylovProcess(space.restricted(multiply), start, steps, space.project)
    while process.projection.size < steps:
        if not process.expand(solve=False):
            return None
        if hessian.wary and process.projection.skew > ASKEW * process.largest:
            raise Inexact
        if process.exhausted:
            break
    process.solve()
    return process


def _every_value(
    hessian: Hessian, space: Space, generator: torch.Generator, check: _Check
) -> tuple[Array, float] | None:
    """All eigenvalues in the space, and the error of their sum: what the products are not symmetric by."""
    values, error, rounding = np.empty(0), 0.0, 0.0
    while space.dimension:
        process = _grown(hessian, space, space.dimension, space.random(generator))
        if process is None:
            return None
        if not values.size:
            check.throughout(process)
            rounding = BREAKDOWN * torch.finfo(hessian.x.dtype).eps * process.largest
        elif process.largest <= rounding:  # A random vector is mapped to zero: so is everything that is left.
            values = np.concatenate([values, np.zeros(space.dimension)])
            break
        size, error = process.projection.size, math.hypot(error, process.projection.skew)
        values = np.concatenate([values, process.projection.values])
        if size == space.dimension:
            break
        space.lock(list(map(space.project, process.ritz_vectors(range(size)))))
    return np.sort(values), error


def _smoothed(
    hessian: Hessian,
    seen: list[Quadrature],
    width: float,
    dimension: int,
    steps: int,
    check: _Check,
    *,
    exact: bool = False,
    error: float = 0.0,
) -> Density:
    low, high = min(float(q.nodes.min()) for q in seen), max(float(q.nodes.max()) for q in seen)
    spacing = width * (high - low) if high > low else width * max(abs(high), np.finfo(float).tiny)
    grid = np.linspace(low - 4.0 * spacing, high + 4.0 * spacing, max(POINTS, math.ceil(4.0 / width)))
    curves = np.stack([_gaussians(grid, q, spacing) for q in seen])
    means, count = [float(q.nodes @ q.weights) for q in seen], len(seen)
    scatter = _trace_error(seen, means, dimension, FEWEST_PROBES if exact else count)
    off, trace = dimension * check.mean, dimension * statistics.fmean(means)
    one = hessian.is_one(spacing, max(-low, high, 0.0))
    right = check.ends <= spacing and off <= max(scatter, TOLERANCE * abs(trace)) and one
    nothing = np.zeros_like(grid) if exact else np.full_like(grid, math.nan)
    return Density(
        grid=grid,
        density=curves.mean(axis=0),
        spread=curves.std(axis=0, ddof=1) / math.sqrt(count) if count > 1 else nothing,
        width=spacing,
        trace=trace,
        trace_error=(error if exact else scatter) + off,
        nodes=np.concatenate([q.nodes for q in seen]),
        weights=np.concatenate([q.weights for q in seen]) / count,
        probes=0 if exact else count,
        steps=steps,
        exact=exact,
        dimension=dimension,
        status=Status.CONVERGED if right else Status.INACCURATE,
        cost=hessian.ledger.cost,
        in_float64=hessian.in_float64,
    )


def _trace_error(seen: list[Quadrature], means: list[float], dimension: int, count: int) -> float:
    """How far the trace by so many probes may be off: by Student's t, or by the variance of a probe, if larger.

    A unit probe q has Var(qᵀHq) = 2(‖H‖_F²/d − (tr H/d)²)/(d + 2), and E‖Hq‖² = ‖H‖_F²/d. Few probes that agree by
    accident would show less: a few outliers make qᵀHq skewed.
    """
    d = dimension
    square = statistics.fmean(float(q.nodes**2 @ q.weights) for q in seen)
    known = math.sqrt(max(0.0, 2.0 * (square - statistics.fmean(means) ** 2) / (d + 2)))
    error = statistics.NormalDist().inv_cdf(0.5 + CONFIDENCE / 2.0) * known
    if len(seen) > 1:
        error = max(error, student.quantile(0.5 + CONFIDENCE / 2.0, len(seen) - 1) * statistics.stdev(means))
    return d * error / math.sqrt(count)


def _gaussians(grid: Array, seen: Quadrature, width: float) -> Array:
    """Σ_i w_i·N(t; θ_i, width) on the grid."""
    away = (grid[:, None] - seen.nodes[None, :]) / width
    curve: Array = np.exp(-0.5 * away**2) @ seen.weights / (width * math.sqrt(2.0 * math.pi))
    return curve


def _nothing(hessian: Hessian, dimension: int) -> Density:
    """The answer where a gradient was not finite."""
    none = np.empty(0)
    return Density(
        grid=none,
        density=none,
        spread=none,
        width=math.nan,
        trace=math.nan,
        trace_error=math.inf,
        nodes=none,
        weights=none,
        probes=0,
        steps=0,
        exact=False,
        dimension=dimension,
        status=Status.NOT_FINITE,
        cost=hessian.ledger.cost,
    )
