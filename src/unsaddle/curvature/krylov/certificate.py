"""Lanczos on gradient differences: the fewest gradients to a direction, or to "nothing", that we know of."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.curvature.displaced import DisplacedFunction
from unsaddle.curvature.krylov.projection import Projection
from unsaddle.curvature.result import Candidate, Status
from unsaddle.curvature.search import Observer
from unsaddle.measure.direction import Scale
from unsaddle.theory.start import unlucky_component
from unsaddle.vectors import Array

LOWEST = 3
"""Ritz vectors returned where nothing was found: those along which the Hessian's sampling error is estimated."""

KEEP_LOWEST, KEEP_HIGHEST = 8, 4
"""Ritz vectors kept over a restart of 20 vectors, and as large a share of a smaller or larger basis: the lowest, which
are looked for, and the highest, which would otherwise come back and have to be found again."""

LEFTOVER = {torch.float32: 1e-5, torch.float64: 1e-13}
"""The basis is taken out of a new vector again where its components along it are longer than this share of it: about
a hundred roundings, far below the error of a product."""

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
    x, g0 = f_hat.x, f_hat.grad0
    d, m = vectors.dimension(x), settings.basis
    basis = torch.empty(min(m, d) + 1, x.numel(), dtype=x.dtype, device=x.device)
    # A start of the caller's own is for comparisons only: what is proved of "nothing" needs a random one.
    basis[0] = vectors.random_direction(x, generator) if start is None else start
    projection = Projection(basis.shape[0])
    unlucky = unlucky_component(dimension=d, delta=settings.delta)
    allowed = math.log(unlucky) if unlucky > 0.0 else -math.inf
    point = torch.empty_like(x)
    history: list[tuple[int, float]] = []
    largest = settings.first_curvature
    radius = settings.smallest_radius

    def gamma() -> float:
        return settings.relative_gamma * largest if settings.gamma is None else settings.gamma

    def candidate(status: Status, ritz: int | None = None, **extra: Any) -> KrylovCandidate:
        vector = None if ritz is None else _combine(basis, projection, ritz)
        lowest = float(projection.values[0]) if projection.size else math.inf
        # The measured σ, and what the rounding of the probe points can do, which a single measurement may miss.
        shares = (MEASURING_NOISE_SHARE, settings.noise_share, LARGEST_NOISE_SHARE)
        radii = {_radius(replace(settings, noise_share=min(share, LARGEST_NOISE_SHARE)), gamma()) for share in shares}
        noise = settings.noise + torch.finfo(x.dtype).eps * largest * (f_hat.x_norm + 16.0 * radius)
        scale = Scale(
            gamma=gamma(),
            smoothness=largest,
            noise=noise,
            radius=radius,
            measuring_radii=tuple(sorted(radii, reverse=True)),
        )
        return KrylovCandidate(
            vector=vector,
            status=status,
            lowest=lowest,
            history=tuple(history),
            scale=scale,
            asymmetry=projection.asymmetry,
            **extra,
        )

    def nothing() -> KrylovCandidate:
        lowest = range(min(LOWEST, projection.size - 1))
        deciding = tuple(_combine(basis, projection, i) for i in (*lowest, -1))
        return candidate(Status.NOTHING_FOUND, deciding=deciding)

    for step in range(settings.num_steps):
        j = projection.size
        radius = _radius(settings, gamma())
        g = f_hat.f.grad(torch.add(x, basis[j], alpha=radius, out=point))
        if settings.central:
            w = basis[j + 1].copy_(g)
            w.sub_(f_hat.f.grad(torch.sub(x, basis[j], alpha=radius, out=point))).div_(2.0 * radius)
        else:
            w = torch.sub(g, g0, out=basis[j + 1]).div_(radius)
        products, b, solved = _orthogonalise(basis[: j + 1], w, projection)
        if not (math.isfinite(b) and np.isfinite(products).all()):
            return candidate(Status.NOT_FINITE)
        largest = max(largest if step > 0 else 0.0, math.hypot(b, *products))
        projection.extend(products, b, solved)
        largest = max(largest, float(np.abs(projection.values).max()))
        lowest = float(projection.values[0])
        if keep_history:
            history.append((f_hat.f.ledger.gradients, lowest))
        if observer is not None:
            observer(step, _combine(basis, projection, 0))
        if largest == 0.0:
            return candidate(Status.FLAT)
        low_enough = lowest <= -gamma() / 2.0
        if low_enough and projection.residuals[0] <= settings.accuracy * abs(lowest):
            return candidate(Status.FOUND, 0)
        exhausted = projection.size == d or b <= _breakdown(x) * largest
        if exhausted:  # The space is everything, or invariant: its Ritz values are eigenvalues.
            return candidate(Status.FOUND, 0) if low_enough else nothing()
        if not low_enough and projection.log_missed(gamma()) <= allowed:
            return nothing()
        w.div_(b)
        if projection.size == m and step + 1 < settings.num_steps:
            _restart(basis, projection)
    deciding = (_combine(basis, projection, 0),) if projection.size else ()
    return candidate(Status.NOTHING_FOUND, exhausted=True, deciding=deciding)


def _radius(settings: KrylovSettings, gamma: float) -> float:
    wanted = wanted_radius(settings, gamma) if gamma > 0.0 else 0.0
    return min(max(wanted, settings.smallest_radius), settings.largest_radius)


def wanted_radius(settings: KrylovSettings, gamma: float) -> float:
    """r with √2σ/r = share·γ."""
    return math.sqrt(2.0) * settings.noise / (settings.noise_share * gamma)


def _breakdown(x: Tensor) -> float:
    return 10.0 * torch.finfo(x.dtype).eps


def _orthogonalise(basis: Tensor, w: Tensor, projection: Projection) -> tuple[Array, float, Array]:
    """Take the basis out of w in place; returns what was taken out, the length of what is left, and the Ritz pairs.

    The basis is read twice: once for h = Qᵀw, and once, block by block while it is in the cache, for w − Qh and for
    what rounding has left of the basis in that. Only if that matters is the basis taken out again ("twice is enough").
    Where there are several ranks, the Ritz pairs of the first come with the second of the two messages: processors of
    different kinds round eigenvalues differently, and all have to decide on the same.
    """
    taken = vectors.summed(basis @ w)
    left = torch.zeros_like(taken)
    for block, part in zip(_column_blocks(basis), torch.split(w, _columns(basis)), strict=True):
        torch.addmv(part, block.T, taken, alpha=-1.0, out=part)
        torch.addmv(left, block, part, out=left)
    products = np.array(taken.tolist())
    numbers = torch.cat([left, torch.dot(w, w).reshape(1)])
    (*leftover, squared), solved = vectors.summed_and_said(numbers, projection.solved(products))
    if not np.linalg.norm(leftover) <= LEFTOVER[w.dtype] * math.sqrt(squared):
        torch.addmv(w, basis.T, torch.tensor(leftover, dtype=w.dtype, device=w.device), alpha=-1.0, out=w)
        products = products + leftover
        (squared,), solved = vectors.summed_and_said(torch.dot(w, w).reshape(1), projection.solved(products))
    return products, math.sqrt(squared), solved


def _combine(basis: Tensor, projection: Projection, index: int) -> Tensor:
    """A Ritz vector in the big space, normalised."""
    coefficients = torch.from_numpy(np.ascontiguousarray(projection.vectors[:, index])).to(basis)
    v = basis[: projection.vectors.shape[0]].T @ coefficients
    return v.div_(vectors.norm(v))


def _restart(basis: Tensor, projection: Projection) -> None:
    """Thick restart in place, block by block, so that no second basis is needed."""
    size = projection.size
    lowest, highest = max(1, size * KEEP_LOWEST // 20), size * KEEP_HIGHEST // 20
    keep = lowest + highest
    coefficients = torch.from_numpy(np.ascontiguousarray(projection.restart(lowest, highest).T)).to(basis)
    for block in _column_blocks(basis):
        block[:keep] = coefficients @ block[:size]
    basis[keep] = basis[size]


def _columns(basis: Tensor) -> int:
    """Columns of a block that stays in the cache."""
    return max(4096, vectors.BLOCK_BYTES // (basis.shape[0] * basis.element_size()))


def _column_blocks(basis: Tensor) -> tuple[Tensor, ...]:
    return torch.split(basis, _columns(basis), dim=1)
