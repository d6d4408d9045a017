"""Neon2 det: negative curvature from noise by a Chebyshev iteration with gradients.

A Chebyshev polynomial of the shifted Hessian keeps curvatures above −3γ/4 bounded. Lower ones grow as fast as with any
polynomial.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.curvature.displaced import DisplacedFunction, curvature_bound
from unsaddle.curvature.extractor import by_settings
from unsaddle.curvature.result import Candidate, Status, Trail
from unsaddle.curvature.search import Observer, Search
from unsaddle.theory import neon2 as theory_neon2
from unsaddle.theory import quadratics
from unsaddle.theory.neon2 import DET_C1


@dataclass(frozen=True, kw_only=True)
class Neon2DetSettings:
    """Constants of Neon2 det: γ = `gamma` (the paper's δ), T = `num_steps`, σ = `noise_radius`."""

    smoothness: float
    """L1, at least γ. Curvatures up to 2L1 − 3γ/4 stay bounded."""
    gamma: float
    num_steps: int
    noise_radius: float
    escape_radius: float
    """r: a v_t that grows beyond it has negative curvature."""
    target: float | None = None
    """Also return the first y_t whose own gradient proves a curvature of at most −target. None: wait for r."""
    hessian_lipschitz: float = 0.0
    """L2, in the proof for `target`."""
    resolution: float = 0.0
    """The curvature along a shorter y_t is not tested, as it would be rounding."""


def theory_settings(
    *, gamma: float, delta: float, dimension: int, smoothness: float, hessian_lipschitz: float, c1: float = DET_C1
) -> Neon2DetSettings:
    """The constants of Neon2's theorem, at the caller's C1."""
    start: dict[str, Any] = {"delta": delta, "dimension": dimension, "c1": c1}
    scales: dict[str, Any] = {"gamma": gamma, "smoothness": smoothness}
    sigma = theory_neon2.det_noise_radius(hessian_lipschitz=hessian_lipschitz, **scales, **start)
    return Neon2DetSettings(
        num_steps=theory_neon2.det_num_steps(**scales, **start),
        noise_radius=sigma,
        escape_radius=theory_neon2.det_escape_radius(noise_radius=sigma, **start),
        **scales,
    )


def practical_settings(search: Search) -> Neon2DetSettings:
    """Usable constants, from `theory.quadratics`."""
    scales = {"smoothness": search.smoothness, "gamma": search.gamma}
    sigma = quadratics.neon2_det_noise_radius(
        smallest=search.smallest_radius, trust=search.trust_radius, noise=search.noise_radius, **scales
    )
    return Neon2DetSettings(
        num_steps=quadratics.neon2_det_num_steps(dimension=search.dimension, delta=search.delta, **scales),
        noise_radius=sigma,
        escape_radius=sigma * quadratics.neon2_det_escape_ratio(**scales),
        target=search.gamma / 2.0,
        hessian_lipschitz=search.hessian_lipschitz or 0.0,
        resolution=search.smallest_radius,
        **scales,
    )


def neon2_det(
    f_hat: DisplacedFunction,
    settings: Neon2DetSettings,
    generator: torch.Generator,
    *,
    keep_history: bool = False,
    observer: Observer | None = None,
) -> Candidate:
    """Find v with vᵀ∇²f(x)v/‖v‖² ≤ −γ/2, by a Chebyshev iteration from noise.

    Neon2 det (Allen-Zhu and Li, 2017), with its letters but γ for its δ:

        M(y) = −(∇f(x+y) − ∇f(x))/L1 + (1 − 3γ/(4L1))·y
        y_0 = 0;  y_1 = ξ, uniform on the sphere of radius σ
        for t = 1, …, T:
            y_{t+1} = 2M(y_t) − y_{t−1}
            v_t = y_{t+1} − M(y_t);  if ‖v_t‖ ≥ r: return v_t
        return nothing

    On a quadratic M is a matrix, and v_t = T_t(M)ξ with the Chebyshev polynomial T_t of the first kind. M maps
    λ ∈ [−3γ/4, 2L1 − 3γ/4] into [−1, 1], where |T_t| ≤ 1. It maps λ ≤ −γ beyond 1 + γ/(4L1), where T_t grows as
    cosh(tθ), θ ≈ √(γ/(2L1)). A v_t longer than r ≫ σ is therefore mostly below −3γ/4.

    Departure: gradients are taken at y_t = U_{t−1}(M)ξ, of the second kind, so the curvature along y_t costs nothing:
    yᵀ∇f̂(y)/‖y‖². With `target` set, the first y_t that proves it is returned, as in NEON. This takes about half the
    gradients: y_t is longer than v_t, and its curvature settles before v_t reaches r.

    The gradient is added to y_{t−1} in place, which becomes y_{t+1}. All y are held in units of −L1/2:

        −(L1/2)y_{t+1} = ∇f(x+y_t) + [−∇f(x) + 2(1 − 3γ/(4L1))·(−(L1/2)y_t) − (−(L1/2)y_{t−1})]

    As M is symmetric, inner products give the rest:

        y_tᵀM(y_t) = y_tᵀ(y_{t+1} + y_{t−1})/2,  hence y_tᵀ∇f̂(y_t)
        ‖v_t‖² = (‖y_{t+1}‖² − 2‖y_t‖² + ‖y_{t−1}‖²)/4 + σ²/2,  as T_t² = (U_t² − 2U_{t−1}² + U_{t−2}²)/4 + 1/2

    In float32 the error of the first is some 1e-6·L1; float32 gradients do not resolve a smaller γ.

    Cost: one gradient a step, at most T, and one more if v_t is returned. Memory: two y, ∇f(x) and, except for a model,
    the probe point and the gradient. `observer` gets (t, v_t). The history has the curvature along y_t.

    >>> from unsaddle import Function
    >>> f = Function(lambda x: x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4).sample()
    >>> saddle = DisplacedFunction(f, torch.zeros(2, dtype=torch.float64))
    >>> settings = Neon2DetSettings(smoothness=2.0, gamma=2.0, num_steps=20, noise_radius=1e-4, escape_radius=1e-2)
    >>> found = neon2_det(saddle, settings, torch.Generator().manual_seed(0))
    >>> bool(found.vector[1].abs() > found.vector[0].abs())
    True
    """
    L1, sigma = settings.smoothness, settings.noise_radius
    shift, unit = 1.0 - 0.75 * settings.gamma / L1, -2.0 / L1
    y = vectors.random_direction(f_hat.x, generator).mul_(sigma / unit)
    y_other = torch.zeros_like(y)  # y_{t−1} before a step, y_{t+1} after it; both in units of −L1/2
    before, yy, y_before = 0.0, sigma**2, 0.0  # ‖y_{t−1}‖², ‖y_t‖², y_tᵀy_{t−1}
    trail = Trail(keep_history)
    for t in range(1, settings.num_steps + 1):
        v = y_other.mul(-0.5 * unit) if observer is not None else None
        _step(f_hat, y, y_other, unit, shift)
        after, y_after = (unit**2 * product for product in vectors.dots((y_other, y_other), (y, y_other)))
        yg = L1 * (shift * yy - 0.5 * (y_after + y_before))
        vv = 0.25 * (after - 2.0 * yy + before) + 0.5 * sigma**2
        if not (math.isfinite(yg) and math.isfinite(vv)):
            return trail.end(Status.NOT_FINITE)
        if observer is not None and v is not None:
            observer(t, v.add_(y_other, alpha=0.5 * unit))
        is_long = vv >= settings.escape_radius**2
        has_vanished = yy <= torch.finfo(y.dtype).eps * max(before, after)  # At this t only.
        quotient = math.inf if has_vanished else yg / yy
        trail.note(f_hat.f.ledger.gradients, quotient)
        if not has_vanished and yy >= settings.resolution**2:
            trail.lowest = min(trail.lowest, quotient)
            if quotient > L1 * (1.0 + shift) or (is_long and quotient >= 0.0):
                return trail.end(Status.SMOOTHNESS_EXCEEDED)  # An eigenvalue of M below −1 grows too.
            bound = curvature_bound(squared_norm=yy, product=yg, hessian_lipschitz=settings.hessian_lipschitz)
            if settings.target is not None and bound <= -settings.target:
                return trail.end(Status.FOUND, y.mul_(unit))
        if is_long:
            return trail.end(Status.FOUND, _chebyshev(f_hat, y, y_other, unit, shift) if v is None else v)
        y, y_other = y_other, y
        before, yy, y_before = yy, after, y_after
    return trail.end(Status.NOTHING_FOUND, exhausted=True, deciding=(y.mul_(unit),))


def _step(f_hat: DisplacedFunction, y: Tensor, y_other: Tensor, unit: float, shift: float) -> None:
    """`y_other`, y_{t−1}, becomes y_{t+1} in place."""
    for y_, z_, g0_ in vectors.blocks(y, y_other, f_hat.grad0):
        torch.sub(y_, z_, alpha=0.5 / shift, out=z_).mul_(2.0 * shift).sub_(g0_)
    f_hat.f.add_grad_at_sum(y_other, f_hat.x, y, unit)


def _chebyshev(f_hat: DisplacedFunction, y: Tensor, y_next: Tensor, unit: float, shift: float) -> Tensor:
    """`y_next` becomes v_t = y_{t+1} − M(y_t) in place, by one more gradient at y_t."""
    for y_, z_, g0_ in vectors.blocks(y, y_next, f_hat.grad0):
        z_.sub_(y_, alpha=shift).mul_(2.0).add_(g0_)
    return f_hat.f.add_grad_at_sum(y_next, f_hat.x, y, unit, subtract=True).mul_(0.5 * unit)


NEON2_DET = by_settings(
    neon2_det,
    settings=Neon2DetSettings,
    practical=practical_settings,
    theory=theory_settings,
    extra_calls=lambda settings: 1,
)
