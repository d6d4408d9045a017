"""NEON⁺ (Algorithm 2): negative curvature from noise, accelerated, with a test on lengths.

Nesterov's method on f̂ finds curvature −γ with O(1/√γ) gradients; gradient descent takes O(1/γ).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.curvature.displaced import DisplacedFunction
from unsaddle.curvature.extractor import by_settings
from unsaddle.curvature.neon import between_rounding_and_truncation, usable
from unsaddle.curvature.neon_settings import NeonPlusSettings
from unsaddle.curvature.printed import neon_plus_as_printed
from unsaddle.curvature.renormalisation import renormalised
from unsaddle.curvature.result import Candidate, Status, Trail
from unsaddle.curvature.search import Observer, Search
from unsaddle.theory import extraction, quadratics
from unsaddle.theory import renormalised as theory_renormalised

SAME_LENGTH = 1e-3
"""The length of the noise may change by this share when it is brought to units of −η."""


def theory_settings(*, gamma: float, **question: Any) -> NeonPlusSettings:
    """The constants of Theorem 2, errata applied, from the arguments of `Theorem.settings`."""
    settings = extraction.THEOREM_2.settings(gamma=gamma, **question)
    momentum = extraction.neon_plus_momentum(step_size=settings["step_size"], gamma=gamma)
    return NeonPlusSettings(momentum=momentum, gamma=gamma, **settings)


def practical_settings(search: Search) -> NeonPlusSettings:
    """η of NEON, but √(ηγ) ≤ 1/2, and the steps that the worst quadratic needs."""
    eta = min(quadratics.step_size(smoothness=search.smoothness), 0.25 / search.gamma)
    return NeonPlusSettings(
        momentum=extraction.neon_plus_momentum(step_size=eta, gamma=search.gamma),
        **usable(search, eta, quadratics.neon_plus_num_steps),
    )


def theory_renormalised_settings(
    *, gamma: float, delta: float, dimension: int, smoothness: float, hessian_lipschitz: float
) -> NeonPlusSettings:
    """Zhang and Li (2021), the accelerated loop, for −γ/4: η = 1/(4L1), 1 − ζ = ¼√(γ/L1), their T and r."""
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
        return the first y_τ that passes the test, else nothing

    With 𝓕 (`decrease`), this is `neon_plus_as_printed`. Without it a test on lengths replaces NCFind and f̂ ≤ −2𝓕. It
    needs no value, no history and no product with a gradient:

        return y_{τ+1} if ‖y_{τ+1}‖ ≥ (1 + ηc)‖u_τ‖ and y_τᵀy_{τ+1} ≥ (1 + ηc)·y_τᵀu_τ > 0, twice in a row,
        with c = target + L2‖u_τ‖/2

    The first inequality proves the curvature. Let H be the mean of ∇²f from x to x + u_τ, within L2‖u_τ‖/2 of ∇²f(x),
    and M = I − ηH. Then y_{τ+1} = Mu_τ, and M ⪰ 0 if ηL1 ≤ 1. The moments μ_k = u_τᵀM^k u_τ are log-convex, so

        y_{τ+1}ᵀMy_{τ+1}/‖y_{τ+1}‖² = μ_3/μ_2 ≥ √(μ_2/μ_0) = ‖y_{τ+1}‖/‖u_τ‖

    The `quotient` of the history, (1 − ‖y_{τ+1}‖/‖u_τ‖)/η, is thus at least the curvature along y_{τ+1}. It is at most
    the curvature along u_τ, so the product u_τᵀ∇f̂(u_τ) would prove no more. In float32 its error is some 1e-6·L1.

    Other departures are those of NEON: the first iterate that passes is returned, the noise fills the ball, an iterate
    beyond U ends the run unless it passes (the proof needs only u_τ), and so does one that is too short. A u_τ shorter
    than `resolution` is not tested. With s of `neon`, curvature −γ would give ‖y_τ‖ ≥ a_τ·s, where a_0 = b_0 = 1,
    a_{τ+1} = (1 + ηγ)b_τ and b_{τ+1} = a_{τ+1} + ζ(a_{τ+1} − a_τ) is (14) for one mode at −γ.

    A step that is too long also makes y grow. Two tests detect it. First, M ⪰ 0 implies y_τᵀMu_τ ≥ −‖y_τ − u_τ‖²/4: for
    eigenvalues of M in [0, 1] because yu ≥ −(y − u)²/4, for larger ones because y and u only grow and keep their sign.
    ηγ‖y‖² more is allowed for rounding and for a Hessian that changes by γ. If (14) diverges, λ > (2 + 2ζ)/((1 + 2ζ)η),
    y changes sign and grows at every step. This violates the bound once that direction dominates. Until then the second
    inequality rejects it: for an eigenvalue m < 0 of M, y and u have the same sign and contribute (m − 1 − ηc)yu < 0.
    Just after the start, directions in which y and u differ in sign can outweigh this for one step, hence twice in a
    row.

    (14) is made in place, in units of −η: the gradient at x + u_τ is added to u_τ, which becomes y_{τ+1}, and y_τ
    becomes u_{τ+1}. With an η near the machine precision, as in Theorem 2, y_{τ+1} − y_τ is mostly rounding.

    With `renormalise`, (u, y) are rescaled together to ‖u‖ = r whenever ‖u‖ leaves [r/2, 2r]; see `neon`. Zhang and Li
    (2021, the accelerated loop) rescale at every step. On a quadratic this changes no test.

    Cost: one gradient a step, at most t. Memory: u, y, ∇f(x) and, except for a model, the probe point and the gradient.

    >>> from unsaddle import Function
    >>> f = Function(lambda x: x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4).sample()
    >>> saddle = DisplacedFunction(f, torch.zeros(2, dtype=torch.float64))
    >>> settings = NeonPlusSettings(step_size=0.1, num_steps=50, noise_radius=0.1, target=1.0, momentum=0.55, gamma=2.0)
    >>> found = neon_plus(saddle, settings, torch.Generator().manual_seed(0))
    >>> bool(found.vector[1].abs() > found.vector[0].abs())
    True
    """
    if settings.decrease is not None:
        return neon_plus_as_printed(f_hat, settings, generator, keep_history=keep_history, observer=observer)
    assert settings.target is not None
    x, eta, zeta, L2 = f_hat.x, settings.step_size, settings.momentum, settings.hessian_lipschitz
    u = vectors.random_in_ball(x, settings.noise_radius, generator)
    point = f_hat.sum_with(u)
    (start,) = vectors.dots((u, u))
    u.div_(-eta)
    y = u.clone()
    uu = yu = yy = eta**2 * vectors.dots((u, u))[0]
    least_y = least_u = settings.least_start
    growth_at_gamma = 1.0 + eta * (settings.gamma or 0.0)
    trail, passed = Trail(keep_history), False
    if not math.isclose(uu, start, rel_tol=SAME_LENGTH):
        return trail.end(Status.PRECISION_TOO_LOW)  # Units of −η exceed the range of the dtype.
    for tau in range(settings.num_steps):
        if uu == 0.0:
            break  # u has shrunk to zero.
        if settings.renormalise:
            before, uu = uu, renormalised(uu, settings.noise_radius, x, point, u, y, unit=-eta)
            yu, yy = yu * uu / before, yy * uu / before
            least_y, least_u = (least * math.sqrt(uu / before) for least in (least_y, least_u))
        if yy < least_y**2:
            return trail.end(Status.NOTHING_FOUND, deciding=(y.mul_(-eta),))
        least_next = growth_at_gamma * least_u
        least_y, least_u = least_next, least_next + zeta * (least_next - least_y)
        if observer is not None:
            observer(tau, y * -eta)
        g = None  # Frees the last gradient before the next one comes.
        if point is not None:
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
            growth = 1.0 + eta * (settings.target + L2 * math.sqrt(uu) / 2.0)
            passes = next_yy >= growth**2 * uu and y_dot_next >= growth * yu > 0.0
            if passes and passed:
                return trail.end(Status.FOUND, y.mul_(-eta))
            passed = passes
            if math.sqrt(next_yy) > settings.trust_radius:
                # Only negative curvature, or a step that overshoots, makes y grow.
                return trail.end(Status.NOTHING_FOUND if y_dot_next >= yu else Status.SMOOTHNESS_EXCEEDED)
        uu, yu, yy = next_uu, (1.0 + zeta) * next_yy - zeta * y_dot_next, next_yy
    else:
        return trail.end(Status.NOTHING_FOUND, exhausted=True, deciding=(y.mul_(-eta),))
    return trail.end(Status.NOTHING_FOUND)


def _sweep(
    f_hat: DisplacedFunction, u: Tensor, y: Tensor, g: Tensor | None, point: Tensor | None, eta: float, zeta: float
) -> list[float]:
    """u_τ ← y_{τ+1} and y_τ ← u_{τ+1} in place, in units of −η; returns y_τᵀy_{τ+1}, ‖y_{τ+1}‖² and ‖u_{τ+1}‖².

    If g is None, the gradient has already been added to u.
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


NEON_PLUS = by_settings(
    neon_plus,
    settings=NeonPlusSettings,
    practical=practical_settings,
    theory=theory_settings,
    extra_calls=lambda settings: int(settings.decrease is not None),
)
NEON_PLUS_RENORMALISED = by_settings(
    neon_plus,
    settings=NeonPlusSettings,
    practical=lambda search: between_rounding_and_truncation(practical_settings(search), search),
    theory=theory_renormalised_settings,
)
