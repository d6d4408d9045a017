"""The search for negative curvature with gradient differences, and the proof that there is none.

The fewest gradients to a direction, or to "nothing", that we know of.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.curvature.displaced import DisplacedFunction
from unsaddle.curvature.krylov.process import KrylovProcess
from unsaddle.curvature.result import Candidate, Status
from unsaddle.curvature.search import Observer
from unsaddle.measure.direction import Scale
from unsaddle.theory.start import unlucky_component

LOWEST = 3
"""Ritz vectors returned where nothing was found: those along which the Hessian's sampling error is estimated."""

MEASURING_NOISE_SHARE = 1e-2
"""Rounding as a share of γ where a direction is measured: six gradients are taken at one direction, and a Ritz vector
averages the errors of many products; so probes go nearer."""

LARGEST_NOISE_SHARE = 0.3
"""The same at the smallest radius, which is tried where the function is not quadratic within the first."""


@dataclass(frozen=True, kw_only=True)
class KrylovSettings:
    """Constants of the Krylov extractor."""

    num_steps: int
    """At most so many gradients."""
    delta: float
    """The probability that the random start hides an eigenvector below −γ."""
    gamma: float | None = None
    """γ; None for a share of the largest |eigenvalue| seen:"""
    relative_gamma: float = 1e-2
    """that share."""
    noise: float = 0.0
    """σ, the absolute error of a gradient."""
    noise_share: float = 0.1
    """Probes are so long that rounding contributes this share of γ to a product, √2σ/r."""
    smallest_radius: float
    """r is at least this, however small the noise,"""
    largest_radius: float = math.inf
    """and at most this."""
    first_curvature: float = 0.0
    """A size of the Hessian to choose the first radius by, where γ is not given."""
    central: bool = False
    """Take products from both sides, (∇f(x+rq) − ∇f(x−rq))/(2r), at two gradients each."""
    basis: int = 20
    """Vectors kept."""
    accuracy: float = 0.1
    """A Ritz pair below −γ/2 is returned when its residual is this share of its value."""


@dataclass(frozen=True, kw_only=True)
class KrylovCandidate(Candidate):
    """A candidate, and what it rests on."""

    scale: Scale
    """γ as given, or a hundredth of L1; L1, the largest |eigenvalue| seen; σ; and r, the radius of the last probe."""
    asymmetry: float = 0.0
    """The largest difference between entries of QᵀHQ that should be equal: the error of the products, as it shows."""


def krylov(
    f_hat: DisplacedFunction,
    settings: KrylovSettings,
    generator: torch.Generator,
    *,
    keep_history: bool = False,
    observer: Observer | None = None,
    start: Tensor | None = None,
) -> KrylovCandidate:
    """Find a Ritz vector of ∇²f(x) below −γ/2, or exclude eigenvalues below −γ at confidence 1 − δ.

        w = (∇f(x + rq_j) − ∇f(x))/r                        one gradient
        h = Qᵀw, w ← w − Qh, twice (h summed);  b = ‖w‖;  q_{j+1} = w/b
        (θ, s) = lowest Ritz pair of sym(QᵀHQ)
        found:    θ ≤ −γ/2 and the residual b|s_last| ≤ accuracy·|θ|
        nothing:  θ > −γ/2 and the start's component along any eigenvector below −γ would have to be smaller than that
                  of a random start is with probability δ (`Projection.log_missed`)
        at `basis` vectors: keep the lowest Ritz vectors and q_{j+1} (thick restart)

    No constant of f is needed. The radius follows γ, which, if not given, is a hundredth of the largest |eigenvalue|
    seen so far and so only grows; the bound at a smaller γ holds for a larger one. Full reorthogonalisation and the
    symmetrised projection keep the Ritz values right while the error of a product is below about a third of γ; the
    three-term recurrence would not.

    Cost: one gradient a step. Memory: basis + 1 vectors in one block, the probe point and ∇f(x).

    >>> from unsaddle import Function
    >>> f = Function(lambda x: x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4).sample()
    >>> saddle = DisplacedFunction(f, torch.zeros(2, dtype=torch.float64))
    >>> settings = KrylovSettings(num_steps=10, delta=0.05, smallest_radius=1e-8)
    >>> found = krylov(saddle, settings, torch.Generator().manual_seed(0))
    >>> found.status.name, round(found.lowest, 6)
    ('FOUND', -2.0)
    """
    x = f_hat.x
    unlucky = unlucky_component(dimension=vectors.dimension(x), delta=settings.delta)
    allowed = math.log(unlucky) if unlucky > 0.0 else -math.inf
    history: list[tuple[int, float]] = []
    radius = settings.smallest_radius

    def take_product(q: Tensor, out: Tensor) -> None:
        (f_hat.central_product if settings.central else f_hat.product)(q, radius, out)

    # A start of the caller's own is for comparisons only: what is proved of "nothing" needs a random one.
    start = vectors.random_direction(x, generator) if start is None else start
    process = KrylovProcess(take_product, start, settings.basis)
    seen = process.projection

    def largest() -> float:
        return process.largest if seen.size else settings.first_curvature

    def gamma() -> float:
        return settings.relative_gamma * largest() if settings.gamma is None else settings.gamma

    def candidate(
        status: Status, vector: Tensor | None = None, deciding: tuple[Tensor, ...] = (), exhausted: bool = False
    ) -> KrylovCandidate:
        return KrylovCandidate(
            vector=vector,
            status=status,
            lowest=float(seen.values[0]) if seen.size else math.inf,
            history=tuple(history),
            scale=_scale(f_hat, settings, gamma(), largest(), radius),
            asymmetry=seen.asymmetry,
            deciding=deciding,
            exhausted=exhausted,
        )

    def nothing() -> KrylovCandidate:
        ends = (*range(min(LOWEST, seen.size - 1)), -1)
        return candidate(Status.NOTHING_FOUND, deciding=tuple(process.vector(i) for i in ends))

    for step in range(settings.num_steps):
        radius = _radius(settings, gamma())
        if not process.expand():
            return candidate(Status.NOT_FINITE)
        lowest = float(seen.values[0])
        if keep_history:
            history.append((f_hat.f.ledger.gradients + f_hat.f.ledger.hessian_products, lowest))
        if observer is not None:
            observer(step, process.vector(0))
        if process.largest == 0.0:
            return candidate(Status.FLAT)
        low_enough = lowest <= -gamma() / 2.0
        if low_enough and (process.exhausted or seen.residuals[0] <= settings.accuracy * abs(lowest)):
            return candidate(Status.FOUND, process.vector(0))
        if process.exhausted or (not low_enough and seen.log_missed(gamma()) <= allowed):
            return nothing()
        if process.full and step + 1 < settings.num_steps:
            process.restart()
    return candidate(Status.NOTHING_FOUND, deciding=(process.vector(0),) if seen.size else (), exhausted=True)


def _scale(f_hat: DisplacedFunction, settings: KrylovSettings, gamma: float, largest: float, radius: float) -> Scale:
    """The constants that a direction is measured by: the radii of the three shares of noise, farthest first."""
    shares = (MEASURING_NOISE_SHARE, settings.noise_share, LARGEST_NOISE_SHARE)
    radii = {_radius(replace(settings, noise_share=min(share, LARGEST_NOISE_SHARE)), gamma) for share in shares}
    # The measured σ, and what the rounding of the probe points can do, which a single measurement may miss.
    rounding = torch.finfo(f_hat.x.dtype).eps * largest * (f_hat.x_norm + 16.0 * radius)
    return Scale(
        gamma=gamma,
        smoothness=largest,
        noise=settings.noise + rounding,
        radius=radius,
        measuring_radii=tuple(sorted(radii, reverse=True)),
    )


def _radius(settings: KrylovSettings, gamma: float) -> float:
    wanted = wanted_radius(settings, gamma) if gamma > 0.0 else 0.0
    return min(max(wanted, settings.smallest_radius), settings.largest_radius)


def wanted_radius(settings: KrylovSettings, gamma: float) -> float:
    """r with √2σ/r = share·γ."""
    return math.sqrt(2.0) * settings.noise / (settings.noise_share * gamma)
