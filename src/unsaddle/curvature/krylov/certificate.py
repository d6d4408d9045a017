"""The search for negative curvature with gradient differences, and the proof that there is none.

We know of no method that needs fewer gradients for either answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.curvature.displaced import DisplacedFunction
from unsaddle.curvature.kinks import BetweenKinks
from unsaddle.curvature.krylov.process import KrylovProcess
from unsaddle.curvature.result import Candidate, Status
from unsaddle.curvature.search import Observer
from unsaddle.measure import between_kinks
from unsaddle.measure.between_kinks import Gap
from unsaddle.measure.direction import Scale
from unsaddle.theory.start import log_unlucky

MEASURING_NOISE_SHARE = 1e-2
"""Rounding as a share of γ when a direction is measured, by six gradients along it. The search has a share of its own,
as a Ritz vector averages the errors of many products."""

LARGEST_NOISE_SHARE = 0.3
"""Rounding as a share of γ at the smallest radius, for functions that are not quadratic within the first radius."""

SURE = 0.25
"""A Ritz value claims a curvature if the asymmetry of the products is at most this share of it. Else an odd part of the
truncation may have made it, or a kink."""

DIFFERS = 0.5
"""Products nearer to x claim another curvature if a measurement farther out differs by this share of theirs."""

SOFT_DELTA = 1e-4
"""δ of the proof that ends the steps farther than γ. One start in twenty would hide soft curvature; these steps are
there to see it."""


@dataclass(frozen=True, kw_only=True)
class KrylovSettings:
    """Constants of the Krylov extractor."""

    num_steps: int
    delta: float
    """The probability that the random start hides an eigenvector below −γ."""
    gamma: float | None = None
    """γ; None for `relative_gamma` times the largest |eigenvalue| seen."""
    relative_gamma: float = 1e-2
    noise: float = 0.0
    """σ, the absolute error of a gradient."""
    noise_share: float = 0.1
    """The radius r makes the rounding of a product, √2σ/r, this share of γ."""
    smallest_radius: float
    """r is at least this, however small the noise is."""
    largest_radius: float = math.inf
    first_curvature: float = 0.0
    """An estimate of ‖∇²f(x)‖ for the first radius, if γ is not given."""
    central: bool = False
    """Take products from both sides, (∇f(x+rq) − ∇f(x−rq))/(2r), with two gradients each."""
    gap: Gap | None = None
    """Take central products between kinks, each as near to x as its two sides agree; None for one radius."""
    between: BetweenKinks | None = None
    """Take the products of the piece that x lies in; None for those above."""
    basis: int = 20
    """Vectors to keep."""
    farther: int = 0
    """Steps to take even though eigenvalues below −γ are excluded, to see softer ones."""
    fine: float = 0.0
    """Those steps end once eigenvalues below −`fine`·γ are excluded, or one is known; 0 for no such end."""
    accuracy: float = 0.1
    """A Ritz pair below −γ/2 is returned when its residual is at most this share of its value."""

    def wanted_radius(self, gamma: float) -> float:
        """r with √2σ/r = share·γ; 0 if γ is not known yet."""
        return math.sqrt(2.0) * self.noise / self.noise_share / gamma if gamma > 0.0 else 0.0

    def allows(self, gamma: float, radius: float) -> bool:
        """Whether a search at this radius is as good as one with these settings."""
        return not self.central and self.wanted_radius(gamma) <= radius and self.smallest_radius <= radius

    def radius(self, gamma: float) -> float:
        """The wanted radius, brought between the smallest and the largest."""
        return min(max(self.wanted_radius(gamma), self.smallest_radius), self.largest_radius)


@dataclass(frozen=True, kw_only=True)
class KrylovCandidate(Candidate):
    """A candidate, with the constants and the observed error of its search."""

    scale: Scale
    """γ as given or relative to L1; L1, the largest |eigenvalue| seen; σ; r, the radius of the last probe."""
    steps: int = 0
    """Products that the search took."""

    @property
    def is_confirmed(self) -> bool:
        """Whether the curvature along the vector was measured, and is negative beyond its error."""
        return self.measured is not None and self.measured.is_negative

    @property
    def claimed(self) -> float | None:
        """The lowest Ritz value, if it claims a curvature: products that are not symmetric claim none."""
        return self.lowest if self.asymmetry <= SURE * abs(self.lowest) else None

    @property
    def over_kinks(self) -> bool:
        """Whether the curvature was found, and measured over kinks or noise: the two sides of x differ, or the products
        of the search, nearer to x, claim another one."""
        seen = self.measured
        if seen is None or self.status is not Status.FOUND:
            return False
        differs = abs(seen.curvature - self.lowest) > DIFFERS * abs(self.lowest)
        return seen.uneven > 0.0 or (differs and seen.radius > self.scale.radius)

    def with_jump(self) -> KrylovCandidate:
        """The candidate, with how far the gradient jumped where the search probed: at kinks, or by noise."""
        seen = self.asymmetry * self.scale.radius
        if self.measured is not None:
            seen = max(self.measured.jump, self.measured.uneven, seen) if self.is_confirmed else self.measured.jump
        return replace(self, jump=max(self.jump, seen))


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
        nothing:  θ > −γ/2, and an eigenvector below −γ could only be missed if the start's component along it were so
                  small that a random start has it with probability at most δ (`Projection.log_missed`)
        `farther` steps are taken even so, until the same is known of −`fine`·γ, at δ ≤ 1e-4, or a softer θ is exact
        at `basis` vectors: keep Ritz vectors of both ends and q_{j+1} (thick restart)

    No constant of f is needed. The radius follows γ. A γ that is not given is a hundredth of the largest |eigenvalue|
    seen so far, so it only grows, and a bound for a smaller γ holds for a larger one. Full reorthogonalisation and the
    symmetrised projection keep the Ritz values right while the error of a product is below about a third of γ. The
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
    d = vectors.dimension(x)
    allowed, softly = log_unlucky(d, settings.delta), log_unlucky(d, min(settings.delta, SOFT_DELTA))
    history: list[tuple[int, float]] = []
    radius, steps, gap = settings.smallest_radius, 0, settings.gap
    if gap is not None:
        radius = gap.radius

    def take_product(q: Tensor, out: Tensor) -> None:
        nonlocal radius, gap
        if settings.between is not None:
            settings.between.multiply(q, out)
            radius = settings.between.radius
            return
        if gap is None:
            (f_hat.central_product if settings.central else f_hat.product)(q, radius, out)
            return
        probes = between_kinks.opposite(f_hat.f, x, q, f_hat.grad0, gap)
        torch.div(probes.difference, 2.0 * probes.radius, out=out)
        radius, gap = min(radius, probes.radius), gap.wider(probes.radius, 2.0)

    # `start` is for comparisons only: the proof that there is nothing needs a random start.
    start = vectors.random_direction(x, generator) if start is None else start
    kinks = None if settings.between is None else settings.between.within.kinks
    process = KrylovProcess(take_product, start, settings.basis, None if kinks is None else kinks.along)
    seen = process.projection

    def largest() -> float:
        return process.largest if seen.size else settings.first_curvature

    def gamma() -> float:
        return settings.relative_gamma * largest() if settings.gamma is None else settings.gamma

    def gamma_for_radius() -> float:
        """γ. After the first product L1 is not seen yet, but can be guessed.

        The first direction q is random. If k eigenvalues are as large as L1 and the others small, ‖Hq‖ = L1·√(k/d) and
        |qᵀHq| is up to L1·k/d, so L1 = ‖Hq‖²/|qᵀHq|. In networks that is up to a hundred times ‖Hq‖. The next direction
        is nearly that of the highest curvature, along which so long a radius would be too long.
        """
        if settings.gamma is not None or steps != 1:
            return gamma()
        along, length = abs(float(seen.values[0])), process.largest
        return gamma() * min(length / along if along > 0.0 else math.inf, math.sqrt(vectors.dimension(x)))

    def bound() -> float:
        if seen.size == 0 or not math.isfinite(float(seen.values[0])):
            return math.inf
        # Of the projected matrix, in norm, at most; and of a product, where few entries cannot show it.
        of_product = math.sqrt(2.0) * settings.noise / radius if settings.between is None else settings.between.rounding
        error = seen.size * seen.asymmetry + of_product
        if process.exhausted:
            return max(0.0, error - float(seen.values[0]))
        return seen.excluded(allowed, 2.0 * largest()) + error

    def fine_enough() -> bool:
        below = settings.fine * gamma()
        known = seen.values[0] < -below and seen.residual() <= settings.accuracy * abs(float(seen.values[0]))
        return bool(below > 0.0 and (known or seen.log_missed(below) <= softly))

    def ends() -> tuple[Tensor, ...]:
        """The lowest and the highest Ritz vector."""
        return tuple(process.vector(i) for i in (0, -1)[: seen.size])

    def candidate(
        status: Status, vector: Tensor | None = None, deciding: tuple[Tensor, ...] = (), exhausted: bool = False
    ) -> KrylovCandidate:
        return KrylovCandidate(
            bound=math.inf if status is Status.NOT_FINITE else bound(),
            steps=steps,
            vector=vector,
            status=status,
            lowest=float(seen.values[0]) if seen.size else math.inf,
            history=tuple(history),
            scale=_scale(settings, gamma(), largest(), radius),
            asymmetry=seen.asymmetry,
            deciding=deciding,
            exhausted=exhausted,
        )

    proven = False
    for step in range(settings.num_steps):
        if gap is None and settings.between is None:
            radius = settings.radius(gamma_for_radius())
        if not process.expand():
            return candidate(Status.NOT_FINITE)
        steps += 1
        lowest = float(seen.values[0])
        if keep_history:
            history.append((f_hat.f.ledger.gradients + f_hat.f.ledger.hessian_products, lowest))
        if observer is not None:
            observer(step, process.vector(0))
        if process.largest == 0.0:
            return candidate(Status.FLAT)
        low_enough, exhausted = lowest <= -gamma() / 2.0, process.exhausted
        if low_enough and (exhausted or seen.residual() <= settings.accuracy * abs(lowest)):
            return candidate(Status.FOUND, process.vector(0))
        # What was proven for this start stays proven, also for the larger γ of a larger L1.
        proven = proven or (not low_enough and seen.log_missed(gamma()) <= allowed)
        last = step + 1 >= min(settings.farther, settings.num_steps)
        if exhausted or (proven and not low_enough and (last or fine_enough())):
            return candidate(Status.NOTHING_FOUND, deciding=ends())
        if process.full and step + 1 < settings.num_steps:
            process.restart()
    return candidate(Status.NOTHING_FOUND, deciding=ends(), exhausted=True)


def _scale(settings: KrylovSettings, gamma: float, largest: float, radius: float) -> Scale:
    """The constants for measuring a direction."""
    return Scale(
        gamma=gamma,
        smoothness=largest,
        noise=settings.noise,
        radius=radius,
        measuring_radius=replace(settings, noise_share=MEASURING_NOISE_SHARE).radius(gamma),
        smallest_radius=settings.smallest_radius / 16.0,
        largest_radius=settings.largest_radius,
    )
