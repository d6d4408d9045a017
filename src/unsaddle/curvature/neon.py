"""NEON (Algorithm 1): negative curvature originated from noise, with a test on one gradient.

Gradient descent on f̂ from noise is a power iteration with I − η∇²f(x) that needs no Hessian. Directions of negative
curvature grow, all others shrink.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.curvature.displaced import DisplacedFunction, curvature_bound
from unsaddle.curvature.extractor import by_settings
from unsaddle.curvature.neon_settings import NeonSettings
from unsaddle.curvature.printed import neon_as_printed
from unsaddle.curvature.renormalisation import renormalised
from unsaddle.curvature.result import Candidate, Status, Trail
from unsaddle.curvature.search import Observer, Search
from unsaddle.theory import extraction, quadratics
from unsaddle.theory import renormalised as theory_renormalised

N = TypeVar("N", bound=NeonSettings)


def theory_settings(**question: Any) -> NeonSettings:
    """The constants of Theorem 1, errata applied, from the arguments of `Theorem.settings`."""
    return NeonSettings(**extraction.THEOREM_1.settings(**question))


def usable(search: Search, step_size: float, num_steps: Callable[..., int]) -> dict[str, Any]:
    """The practical settings that NEON and NEON⁺ share, from `theory.quadratics`."""
    return {
        "step_size": step_size,
        "num_steps": num_steps(step_size=step_size, gamma=search.gamma, dimension=search.dimension, delta=search.delta),
        "noise_radius": search.noise_radius,
        "trust_radius": search.trust_radius,
        "target": search.gamma / 2.0,
        "hessian_lipschitz": search.hessian_lipschitz or 0.0,
        "gamma": search.gamma,
        "least_start": quadratics.least_start(
            noise_radius=search.noise_radius,
            rounding=search.noise / search.gamma,
            dimension=search.dimension,
            delta=search.delta,
        ),
        "resolution": search.smallest_radius,
    }


def practical_settings(search: Search) -> NeonSettings:
    """η = 1/(2·L1), and the steps that the worst quadratic needs."""
    eta = quadratics.step_size(smoothness=search.smoothness)
    return NeonSettings(**usable(search, eta, quadratics.neon_num_steps))


def theory_renormalised_settings(
    *, gamma: float, delta: float, dimension: int, smoothness: float, hessian_lipschitz: float
) -> NeonSettings:
    """Zhang and Li (2021), Algorithm 1: η = 1/L1, with their T and r, for a curvature of −γ/4."""
    scales: dict[str, Any] = {"gamma": gamma, "delta": delta, "dimension": dimension, "smoothness": smoothness}
    return NeonSettings(
        step_size=1.0 / smoothness,
        num_steps=theory_renormalised.num_steps(**scales),
        noise_radius=theory_renormalised.noise_radius(hessian_lipschitz=hessian_lipschitz, **scales),
        target=gamma / 4.0,
        hessian_lipschitz=hessian_lipschitz,
        renormalise=True,
    )


def between_rounding_and_truncation(settings: N, search: Search) -> N:
    """The same settings, with iterates rescaled to one radius that suits every probe."""
    radius = quadratics.renormalised_radius(smallest=search.smallest_radius, measurement=search.measurement_radius)
    least = settings.least_start * radius / settings.noise_radius
    return replace(settings, noise_radius=radius, least_start=least, trust_radius=math.inf, renormalise=True)


def neon(
    f_hat: DisplacedFunction,
    settings: NeonSettings,
    generator: torch.Generator,
    *,
    keep_history: bool = False,
    observer: Observer | None = None,
) -> Candidate:
    """Find u with uᵀ∇²f(x)u/‖u‖² ≤ −target, by gradient descent on f̂ from noise.

    Algorithm 1, with the paper's letters:

        u_0 ~ Unif(ball of radius r)
        u_{τ+1} = u_τ − η(∇f(x + u_τ) − ∇f(x)),  τ = 0, …, t−1                (12)
        return the first u_τ with ‖u_τ‖ ≤ U that passes the test, else nothing

    With 𝓕 (`decrease`), this is `neon_as_printed`. Without it one gradient is the test, and no value is needed:

        uᵀ∇f̂(u)/‖u‖² + L2‖u‖/2 ≤ −target, which bounds uᵀ∇²f(x)u/‖u‖² from above

    Other departures: The noise fills the ball, not the sphere (E2). For ηL1 ≤ 1, f̂ never increases along (12), so the
    first iterate that passes is returned instead of the argmin over all, and an iterate beyond U ends the run. A run
    also ends with nothing at ‖u_τ‖ < (1 + ηγ)^τ·s, where s is the length that the noise has at least along a lowest
    eigenvector, with probability 1 − δ (`least_start`): curvature −γ would have made it longer. u_0 … u_{t−1} are
    tested, as a test of u_t would take one gradient more, except those shorter than `resolution`. A quotient above 2/η
    ends the run: the step is too long.

    With `renormalise`, u is rescaled to ‖u‖ = r whenever it leaves [r/2, 2r]. Zhang and Li (2021, Algorithm 1) rescale
    at every step. On a quadratic only the length of the iterates changes. Elsewhere they stay where f̂ is nearly
    quadratic, however long the run. So r can be chosen for the accuracy of a gradient difference, and U and 𝓕 are not
    needed. The noise still comes from the ball, so its direction is that of plain NEON at the same seed.

    Cost: one gradient a step, at most t. Memory: u, ∇f(x) and, except for a model, the probe point. A step passes once
    over its vectors, so u_{τ+1} has replaced u_τ when u_τ is tested. If u_τ passes, the gradient takes it back.

    >>> from unsaddle import Function
    >>> f = Function(lambda x: x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4).sample()
    >>> saddle = DisplacedFunction(f, torch.zeros(2, dtype=torch.float64))
    >>> settings = NeonSettings(step_size=0.25, num_steps=50, noise_radius=1e-3, target=1.0)
    >>> found = neon(saddle, settings, torch.Generator().manual_seed(0))
    >>> bool(found.vector[1].abs() > found.vector[0].abs())
    True
    """
    if settings.decrease is not None:
        return neon_as_printed(f_hat, settings, generator, keep_history=keep_history, observer=observer)
    assert settings.target is not None
    x, g0 = f_hat.x, f_hat.grad0
    eta, L2 = settings.step_size, settings.hessian_lipschitz
    least, growth = settings.least_start, 1.0 + eta * (settings.gamma or 0.0)
    u = vectors.random_in_ball(x, settings.noise_radius, generator)
    point = f_hat.sum_with(u)
    (next_uu,) = vectors.dots((u, u))
    trail = Trail(keep_history)
    for tau in range(settings.num_steps):
        uu = renormalised(next_uu, settings.noise_radius, x, point, u) if settings.renormalise else next_uu
        least *= math.sqrt(uu / next_uu) if next_uu > 0.0 else 1.0
        if uu < least**2:
            return trail.end(Status.NOTHING_FOUND, deciding=(u,))
        least *= growth
        if observer is not None:
            observer(tau, u)
        g = None  # Frees the last gradient before the next one comes.
        g = f_hat.f.grad_at_sum(x, u) if point is None else f_hat.f.grad(point)
        ug, next_uu = _sweep(x, u, g, g0, point, eta)  # u is now u_{τ+1}
        if uu == 0.0:
            break  # u has shrunk to zero.
        if not math.isfinite(ug):
            return trail.end(Status.NOT_FINITE)
        quotient = ug / uu
        trail.note(f_hat.f.ledger.gradients, quotient)
        if uu < settings.resolution**2:
            continue
        trail.lowest = min(trail.lowest, quotient)
        if math.sqrt(uu) > settings.trust_radius:
            # Only negative curvature, or a step that overshoots, makes u grow.
            return trail.end(Status.NOTHING_FOUND if quotient < 0.0 else Status.SMOOTHNESS_EXCEEDED)
        if quotient * eta > 2.0:
            return trail.end(Status.SMOOTHNESS_EXCEEDED)
        if curvature_bound(squared_norm=uu, product=ug, hessian_lipschitz=L2) <= -settings.target:
            return trail.end(Status.FOUND, u.add_(g, alpha=eta).sub_(g0, alpha=eta))
    else:
        return trail.end(Status.NOTHING_FOUND, exhausted=True, deciding=(u,))
    return trail.end(Status.NOTHING_FOUND)


def _sweep(x: Tensor, u: Tensor, g: Tensor, g0: Tensor, point: Tensor | None, eta: float) -> list[float]:
    """One step of (12) in place; returns u_τᵀ∇f̂(u_τ) and ‖u_{τ+1}‖²."""
    products = []
    for x_, u_, g_, g0_, p_ in vectors.blocks(x, u, g, g0, point):
        torch.sub(g_, g0_, out=p_)  # ∇f̂(u)
        ug = torch.dot(u_, p_)
        u_.sub_(p_, alpha=eta)
        products.append((ug, torch.dot(u_, u_)))
        torch.add(x_, u_, out=p_)  # where the next gradient is taken
    return vectors.total(products)


NEON = by_settings(neon, settings=NeonSettings, practical=practical_settings, theory=theory_settings)
NEON_RENORMALISED = by_settings(
    neon,
    settings=NeonSettings,
    practical=lambda search: between_rounding_and_truncation(practical_settings(search), search),
    theory=theory_renormalised_settings,
)
