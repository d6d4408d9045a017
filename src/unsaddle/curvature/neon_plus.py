"""NEON⁺ (Algorithms 2 and 3): negative curvature from noise, accelerated.

Nesterov's method on f̂ finds curvature −γ in O(1/√γ) gradients where gradient descent takes O(1/γ).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.curvature.displaced import DisplacedFunction
from unsaddle.curvature.extractor import by_settings
from unsaddle.curvature.ncfind import PrintedTests
from unsaddle.curvature.neon import NeonSettings, between_rounding_and_truncation, usable
from unsaddle.curvature.renormalisation import renormalised
from unsaddle.curvature.result import Candidate, Status, Trail
from unsaddle.curvature.search import Observer, Search
from unsaddle.theory import extraction, quadratics
from unsaddle.theory import renormalised as theory_renormalised

SAME_LENGTH = 1e-3
"""How far the length of the noise may change, as a share, when it is brought to units of −η."""


@dataclass(frozen=True, kw_only=True)
class NeonPlusSettings(NeonSettings):
    """Constants of NEON⁺; `theory_settings` and `practical_settings` make them."""

    momentum: float
    """ζ."""
    gamma: float
    """γ, in the printed test that calls NCFind."""


def theory_settings(*, gamma: float, **question: Any) -> NeonPlusSettings:
    """Theorem 2, errata applied; takes what `Theorem.settings` takes."""
    settings = extraction.THEOREM_2.settings(gamma=gamma, **question)
    momentum = extraction.neon_plus_momentum(step_size=settings["step_size"], gamma=gamma)
    return NeonPlusSettings(momentum=momentum, gamma=gamma, **settings)


def practical_settings(search: Search) -> NeonPlusSettings:
    """Usable constants: η as NEON has it, but √(ηγ) ≤ 1/2, and the steps that the worst quadratic needs."""
    eta = min(quadratics.step_size(smoothness=search.smoothness), 0.25 / search.gamma)
    return NeonPlusSettings(
        momentum=extraction.neon_plus_momentum(step_size=eta, gamma=search.gamma),
        gamma=search.gamma,
        **usable(search, eta, quadratics.neon_plus_num_steps),
    )


def theory_renormalised_settings(
    *, gamma: float, delta: float, dimension: int, smoothness: float, hessian_lipschitz: float
) -> NeonPlusSettings:
    """Zhang and Li (2021), the accelerated loop: η = 1/(4L1), 1 − ζ = ¼√(γ/L1), their T and r, for −γ/4."""
    scales: dict[str, Any] = {"gamma": gamma, "delta": delta, "dimension": dimension}
    return NeonPlusSettings(
        step_size=0.25 / smoothness,
        num_steps=theory_renormalised.accelerated_num_steps(smoothness=smoothness, **scales),
        noise_radius=theory_renormalised.accelerated_noise_radius(hessian_lipschitz=hessian_lipschitz, **scales),
        target=gamma / 4.0,
        hessian_lipschitz=hessian_lipschitz,
        renormalise=True,
        momentum=theory_renormalised.accelerated_momentum(gamma=gamma, smoothness=smoothness),
        gamma=gamma,
    )


def neon_plus(
    f_hat: DisplacedFunction,
    settings: NeonPlusSettings,
    generator: torch.Generator,
    *,
    keep_history: bool = False,
    observer: Observer | None = None,
) -> Candidate:
    """Find y with yᵀ∇²f(x)y/‖y‖² ≤ −target, by Nesterov's accelerated gradient method on f̂ from noise.

    Algorithm 2, with the paper's letters:

        y_0 = u_0 ~ Unif(ball of radius r)
        for τ = 0, …, t−1:
            if f̂(y_τ) − f̂(u_τ) − ∇f̂(u_τ)ᵀ(y_τ − u_τ) < −(γ/2)‖y_τ − u_τ‖²: return NCFind
            y_{τ+1} = u_τ − η∇f̂(u_τ);  u_{τ+1} = y_{τ+1} + ζ(y_{τ+1} − y_τ)             (14)
        return the first y_τ with ‖y_τ‖ ≤ U that passes the test, else nothing

    With 𝓕 set, both tests are made as printed, see `ncfind`. Departures: as in NEON, the first iterate that passes is
    returned, the noise fills the ball, and iterates beyond U end the run. Without 𝓕 one test takes the place of both,
    and needs no value, no history and no product with a gradient:

        return y_{τ+1} if ‖y_{τ+1}‖ ≥ (1 + ηc)‖u_τ‖ and y_τᵀy_{τ+1} ≥ (1 + ηc)·y_τᵀu_τ > 0, twice in a row,
        with c = target + L2‖u_τ‖/2

    The first inequality proves what is wanted. y_{τ+1} = Mu_τ with M = I − ηH and H the mean of ∇²f from x to x + u_τ,
    symmetric, within L2‖u_τ‖/2 of ∇²f(x), and M ⪰ 0 if ηL1 ≤ 1. The moments μ_k = u_τᵀM^k u_τ are log-convex, so

        y_{τ+1}ᵀMy_{τ+1}/‖y_{τ+1}‖² = μ_3/μ_2 ≥ √(μ_2/μ_0) = ‖y_{τ+1}‖/‖u_τ‖

    and (1 − ‖y_{τ+1}‖/‖u_τ‖)/η, the `quotient` of the history, is at least the curvature along y_{τ+1}. It is also at
    most the curvature along u_τ, so nothing is lost by not taking the product u_τᵀ∇f̂(u_τ). In float32 it is good to
    some 1e-6·L1.

    A step that is too long makes y grow as well, and is told apart in two ways. Where M ⪰ 0,
    y_τᵀMu_τ ≥ −‖y_τ − u_τ‖²/4: along eigenvalues of M in [0, 1] since yu ≥ −(y − u)²/4, and along those beyond since y
    and u only grow there and keep their sign; ηγ‖y‖² more is allowed for rounding and for a Hessian that changes by γ.
    Where the step is too long for (14) to converge, λ > (2 + 2ζ)/((1 + 2ζ)η), y turns around and gets longer at every
    step, which is less, once that direction dominates. Before it does, the second inequality keeps it out: where M has
    an eigenvalue m < 0, y and u are of the same sign, so that it contributes (m − 1 − ηc)yu < 0. Directions just after
    the start in which y and u differ in sign can outweigh that, for a step; hence twice in a row.

    (14) is made in place. The gradient at x + u_τ adds up in u_τ, which turns it into y_{τ+1}, and y_τ, which is not
    needed any more, becomes u_{τ+1}; both are held in units of −η. With an η near the precision of the numbers, as
    Theorem 2 has it, y_{τ+1} − y_τ is mostly rounding.

    With `renormalise`, (u, y) are rescaled together so that ‖u‖ = r whenever u, where the gradients are taken, has left
    [r/2, 2r]: the accelerated loop of Zhang and Li (2021), who rescale at every step; see `neon`. On a quadratic all
    tests are as before.

    Cost: one gradient a step, at most t; with 𝓕 set also one value a step but the first. Memory: u, y, ∇f(x) and, but
    for a model, the probe point and the gradient; with 𝓕 set some more.

    >>> from unsaddle import Function
    >>> f = Function(lambda x: x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4).sample()
    >>> saddle = DisplacedFunction(f, torch.zeros(2, dtype=torch.float64))
    >>> settings = NeonPlusSettings(
    ...     step_size=0.1, num_steps=50, noise_radius=1e-3, target=1.0, momentum=0.55, gamma=2.0
    ... )
    >>> found = neon_plus(saddle, settings, torch.Generator().manual_seed(0))
    >>> bool(found.vector[1].abs() > found.vector[0].abs())
    True
    """
    x, eta, zeta = f_hat.x, settings.step_size, settings.momentum
    u = vectors.random_in_ball(x, settings.noise_radius, generator)
    point = f_hat.sum_with(u)
    (start,) = vectors.dots((u, u))
    u.div_(-eta)
    y = u.clone()
    uu = yu = yy = eta**2 * vectors.dots((u, u))[0]
    printed: PrintedTests | None = None
    if settings.decrease is not None:
        printed = PrintedTests(
            f_hat,
            gamma=settings.gamma,
            decrease=settings.decrease,
            momentum=zeta,
            step_size=eta,
            hessian_lipschitz=settings.hessian_lipschitz,
        )
    passed = False
    trail = Trail(keep_history)
    if not math.isclose(uu, start, rel_tol=SAME_LENGTH):
        return trail.end(Status.PRECISION_TOO_LOW)  # Numbers in units of −η are beyond the range of the precision.
    for tau in range(settings.num_steps):
        if uu == 0.0:
            break  # Everything has shrunk away.
        if settings.renormalise:
            before, uu = uu, renormalised(uu, settings.noise_radius, x, point, u, y, unit=-eta)
            yu, yy = yu * uu / before, yy * uu / before
        if observer is not None:
            observer(tau, y * -eta)
        g = None  # The last gradient goes before the next one comes.
        if printed is not None:
            g, ends, direction = printed.test(u * -eta, y * -eta)
            if ends is not None:
                return trail.end(ends, direction)
        elif point is not None:
            g = f_hat.f.grad(point)
        else:
            f_hat.f.add_grad_at_sum(u, x, u, -eta)
        y_dot_next, next_yy, next_uu = _sweep(f_hat, u, y, g, point, eta, zeta)
        u, y = y, u  # at τ+1
        if not (math.isfinite(next_yy) and math.isfinite(next_uu)):
            return trail.end(Status.NOT_FINITE)
        quotient = (1.0 - math.sqrt(next_yy / uu)) / eta
        trail.note(f_hat.f.ledger.gradients, quotient)
        if uu >= settings.resolution**2:
            if y_dot_next < -0.25 * (yy - 2.0 * yu + uu) - (1.0 - zeta) ** 2 * yy:
                return trail.end(Status.SMOOTHNESS_EXCEEDED)
            trail.lowest = min(trail.lowest, quotient)
            growth = 1.0 + eta * (settings.target + settings.hessian_lipschitz * math.sqrt(uu) / 2.0)
            passes = printed is None and next_yy >= growth**2 * uu and y_dot_next >= growth * yu > 0.0
            if passes and passed:
                return trail.end(Status.FOUND, y.mul_(-eta))
            passed = passes
            if math.sqrt(next_yy) > settings.trust_radius:
                # Only negative curvature, or a step that overshoots, makes y grow.
                return trail.end(Status.NOTHING_FOUND if y_dot_next >= yu else Status.SMOOTHNESS_EXCEEDED)
        uu, yu, yy = next_uu, (1.0 + zeta) * next_yy - zeta * y_dot_next, next_yy
    else:
        return trail.end(Status.NOTHING_FOUND, exhausted=True)
    return trail.end(Status.NOTHING_FOUND)


def _sweep(
    f_hat: DisplacedFunction, u: Tensor, y: Tensor, g: Tensor | None, point: Tensor | None, eta: float, zeta: float
) -> list[float]:
    """From u_τ, or u_τ − ηg where g is None, to y_{τ+1}, and from y_τ to u_{τ+1}, in place and in units of −η.

    Returns:
        y_τᵀy_{τ+1}, ‖y_{τ+1}‖² and ‖u_{τ+1}‖².
    """
    products = []
    for x_, g0_, u_, y_, g_, p_ in vectors.blocks(f_hat.x, f_hat.grad0, u, y, g, point):
        if g is None:
            u_.sub_(g0_)
        else:
            u_.add_(torch.sub(g_, g0_, out=p_))
        now = [torch.dot(y_, u_), torch.dot(u_, u_)]
        y_.lerp_(u_, 1.0 + zeta)
        products.append([*now, torch.dot(y_, y_)])
        if point is not None:
            torch.add(x_, y_, alpha=-eta, out=p_)  # where the next gradient is taken
    return [eta**2 * product for product in vectors.total(products)]


def _run(search: Search, settings: NeonPlusSettings) -> Candidate:
    return neon_plus(search.f_hat, settings, search.generator, keep_history=search.question.keep_history)


NEON_PLUS = by_settings(_run, practical=practical_settings, theory=theory_settings)
NEON_PLUS_RENORMALISED = by_settings(
    _run,
    practical=lambda search: between_rounding_and_truncation(practical_settings(search), search),
    theory=theory_renormalised_settings,
)
