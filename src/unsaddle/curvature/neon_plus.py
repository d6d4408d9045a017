"""NEON⁺ (Algorithms 2 and 3): negative curvature from noise, accelerated.

Nesterov's method on f̂ finds curvature −γ in O(1/√γ) gradients where gradient descent takes O(1/γ).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.constants import practice, theory, theory_renormalised
from unsaddle.curvature.displaced import DisplacedFunction, curvature_bound
from unsaddle.curvature.neon import NeonSettings
from unsaddle.curvature.renormalise import renormalised
from unsaddle.curvature.result import Candidate, Status
from unsaddle.curvature.search import Observer, Search


@dataclass(frozen=True, kw_only=True)
class NeonPlusSettings(NeonSettings):
    """Constants of NEON⁺; `theory_settings` and `practical_settings` make them."""

    momentum: float
    """ζ."""
    gamma: float
    """γ, in the test that calls NCFind."""


def theory_settings(
    *,
    gamma: float,
    delta: float,
    dimension: int,
    smoothness: float,
    hessian_lipschitz: float,
    step_size: float | None = None,
) -> NeonPlusSettings:
    """Theorem 2, errata applied. `step_size` overrides c_max/L1, for experiments with the other constants."""
    eta = theory.neon_plus_max_step(smoothness=smoothness) if step_size is None else step_size
    ell = theory.log_factor(dimension=dimension, smoothness=smoothness, gamma=gamma, delta=delta)
    scales = {
        "step_size": eta,
        "gamma": gamma,
        "smoothness": smoothness,
        "hessian_lipschitz": hessian_lipschitz,
        "log_factor": ell,
    }
    return NeonPlusSettings(
        step_size=eta,
        num_steps=theory.neon_plus_num_steps(
            step_size=eta, gamma=gamma, dimension=dimension, smoothness=smoothness, delta=delta
        ),
        noise_radius=theory.noise_radius(**scales),
        trust_radius=theory.neon_plus_trust_radius(length_scale=theory.length_scale(**scales)),
        target=theory.neon_plus_guarantee(gamma=gamma, log_factor=ell),
        hessian_lipschitz=hessian_lipschitz,
        decrease=theory.decrease(**scales),
        momentum=theory.neon_plus_momentum(step_size=eta, gamma=gamma),
        gamma=gamma,
    )


def practical_settings(search: Search) -> NeonPlusSettings:
    """Usable constants: see `constants.practice`."""
    eta = min(practice.step_size(smoothness=search.smoothness), 0.25 / search.gamma)  # √(ηγ) ≤ 1/2
    return NeonPlusSettings(
        step_size=eta,
        num_steps=practice.neon_plus_num_steps(
            step_size=eta, gamma=search.gamma, dimension=search.dimension, delta=search.delta
        ),
        noise_radius=search.noise_radius,
        trust_radius=search.trust_radius,
        target=search.gamma / 2.0,
        hessian_lipschitz=search.hessian_lipschitz or 0.0,
        resolution=search.smallest_radius,
        momentum=theory.neon_plus_momentum(step_size=eta, gamma=search.gamma),
        gamma=search.gamma,
    )


def theory_renormalised_settings(
    *, gamma: float, delta: float, dimension: int, smoothness: float, hessian_lipschitz: float
) -> NeonPlusSettings:
    """Zhang and Li (2021), the accelerated loop: η = 1/(4L1), 1 − ζ = ¼√(γ/L1), their T and r, for −γ/4."""
    return NeonPlusSettings(
        step_size=0.25 / smoothness,
        num_steps=theory_renormalised.accelerated_num_steps(
            gamma=gamma, delta=delta, dimension=dimension, smoothness=smoothness
        ),
        noise_radius=theory_renormalised.accelerated_noise_radius(
            gamma=gamma, delta=delta, dimension=dimension, hessian_lipschitz=hessian_lipschitz
        ),
        target=gamma / 4.0,
        hessian_lipschitz=hessian_lipschitz,
        renormalise=True,
        momentum=theory_renormalised.accelerated_momentum(gamma=gamma, smoothness=smoothness),
        gamma=gamma,
    )


def practical_renormalised_settings(search: Search) -> NeonPlusSettings:
    """The practical constants, with every probe at a radius between rounding and truncation."""
    return replace(
        practical_settings(search),
        noise_radius=practice.renormalised_radius(
            smallest=search.smallest_radius, measurement=search.measurement_radius
        ),
        trust_radius=math.inf,
        renormalise=True,
    )


@dataclass(frozen=True)
class _Products:
    """Inner products at step τ, with g = ∇f̂(u_τ) and h = ∇f̂(y_τ), from which everything that the tests need follows."""

    uu: float
    uv: float
    vv: float
    uh: float
    vh: float
    vg: float

    def yy(self, zeta: float) -> float:
        """‖y_τ‖², y = u − ζv."""
        return self.uu - 2.0 * zeta * self.uv + zeta**2 * self.vv

    def y_grad_y(self, zeta: float) -> float:
        """y_τᵀ∇f̂(y_τ)."""
        return self.uh - zeta * self.vh

    def below_tangent(self, zeta: float) -> float:
        """½(y_τ − u_τ)ᵀ(∇f̂(y_τ) − ∇f̂(u_τ)): f̂(y_τ) less its tangent at u_τ, on a quadratic."""
        return 0.5 * zeta * (self.vg - self.vh)


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

    NCFind (Algorithm 3, E7) returns the first y_j with ‖y_j − u_j‖ ≥ ζ√(6η𝓕) if there was one, else y_τ − u_τ.

    The state is (u_τ, v_τ) with v_τ = y_τ − y_{τ−1}, so that y_τ = u_τ − ζv_τ and (14) reads v ← ζv − η∇f̂(u),
    u ← u − η∇f̂(u) + ζv. The difference y − u = −ζv is then never a difference of nearly equal vectors.

    Departures. (i) No history is kept: NCFind needs only the first y_j past its threshold. (ii) As in NEON, the first
    iterate that passes is returned, the noise fills the ball, and iterates beyond U end the run. (iii) The printed test
    takes the value of f at y_τ, one more evaluation a step. y_τ = (u_τ + ζy_{τ−1})/(1+ζ) is a convex combination of
    points whose gradients are known, so the same combination h of gradients is ∇f̂(y_τ) up to L2·max‖u‖²/2, exactly so
    on quadratics; the practical setting takes ½(y−u)ᵀ(h − ∇f̂(u)) for the left side, at the price of one vector instead
    of one evaluation a step. With 𝓕 set, the values are taken as printed.

    With `renormalise`, (u, v, h) are rescaled together so that ‖u‖ = r whenever u, where the gradients are taken, has
    left [r/2, 2r]: the accelerated loop of Zhang and Li (2021), who rescale at every step; see `neon`. On a quadratic
    all tests are as before. Elsewhere h is still off by what it was before the rescaling, L2‖u‖²/2 with the longer u,
    half of it forgotten at each step; what is found is measured again in any case.

    Cost: one gradient a step, at most t; with 𝓕 set also one value a step but the first. Memory: u, v, h, the probe
    point and ∇f(x), and one more once NCFind has something to remember.

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
    x, g0 = f_hat.x, f_hat.grad0
    eta, zeta = settings.step_size, settings.momentum
    u = vectors.random_in_ball(x, settings.noise_radius, generator)
    w, h = torch.zeros_like(x), torch.zeros_like(x)  # v = −ηw
    point = f_hat.sum_with(u)
    (next_uu,) = vectors.dots((u, u))
    first_far: Tensor | None = None  # NCFind's y_j
    far = (
        math.inf
        if settings.decrease is None
        else theory.neon_plus_momentum_threshold(momentum=zeta, step_size=eta, decrease=settings.decrease)
    )
    overshoots = (2.0 + 2.0 * zeta) / (1.0 + 2.0 * zeta)  # (14) diverges along an eigenvalue λ > overshoots/η.
    history: list[tuple[int, float]] = []
    lowest = math.inf

    def candidate(status: Status, vector: Tensor | None = None) -> Candidate:
        return Candidate(vector=vector, status=status, lowest=lowest, history=tuple(history))

    for tau in range(settings.num_steps):
        uu = renormalised(next_uu, settings.noise_radius, x, point, u, w, h) if settings.renormalise else next_uu
        if observer is not None:
            observer(tau, torch.add(u, w, alpha=zeta * eta))
        at_y = _ValueAtY.of(f_hat, u, w * -eta, zeta) if settings.decrease is not None and tau > 0 else None
        g = None  # The last gradient goes before the next one comes.
        value, g = f_hat.value_and_grad_of_f(u, point, with_value=settings.decrease is not None)
        *at_tau, next_uu = _sweep(x, u, w, h, g, g0, point, eta, zeta, first=tau == 0)  # (u, w) is now at τ+1
        at = _Products(uu, *at_tau)
        if at.uu == 0.0:
            break  # Everything has shrunk away.
        if not (math.isfinite(at.uh) and math.isfinite(at.vg)):
            return candidate(Status.NOT_FINITE)
        yy, ygy = at.yy(zeta), at.y_grad_y(zeta)
        quotient = ygy / yy
        if keep_history:
            history.append((f_hat.f.ledger.gradients, quotient))
        if yy < settings.resolution**2:
            continue
        lowest = min(lowest, quotient)
        if math.sqrt(yy) > settings.trust_radius:
            # Only negative curvature, or a step that overshoots, makes y grow.
            return candidate(Status.NOTHING_FOUND if quotient < 0.0 else Status.SMOOTHNESS_EXCEEDED)
        if quotient * eta > overshoots:
            return candidate(Status.SMOOTHNESS_EXCEEDED)
        if tau == 0:
            continue
        if first_far is None and zeta * math.sqrt(at.vv) >= far:
            first_far = torch.add(u, w, alpha=(1.0 + zeta) * eta)  # y_τ, from the state at τ+1
        if _calls_ncfind(settings, at, at_y, value):
            # NCFind; w_τ is taken back from w_{τ+1} = ζw_τ + ∇f̂(u_τ), up to its length.
            return candidate(Status.FOUND, w.sub_(g).add_(g0) if first_far is None else first_far)
        if _passes(f_hat, settings, at, at_y, yy, ygy):
            return candidate(Status.FOUND, u.add_(w, alpha=(1.0 + zeta) * eta))
    else:
        return replace(candidate(Status.NOTHING_FOUND), exhausted=True)
    return candidate(Status.NOTHING_FOUND)


def _sweep(
    x: Tensor,
    u: Tensor,
    w: Tensor,
    h: Tensor,
    g: Tensor,
    g0: Tensor,
    point: Tensor | None,
    eta: float,
    zeta: float,
    first: bool,
) -> list[float]:
    """One step of (14), in place: all `_Products` but ‖u‖² at the (u, v, h) that it leaves, and ‖u‖² at the next.

    w = −v/η stands for v, since w ← ζw + ∇f̂(u) is one pass where v ← ζv − η∇f̂(u) is two.
    """
    products = []
    for x_, u_, w_, h_, g_, g0_, p_ in vectors.blocks(x, u, w, h, g, g0, point):
        torch.sub(g_, g0_, out=p_)  # ∇f̂(u)
        h_.lerp_(p_, 1.0 if first else 1.0 / (1.0 + zeta))  # ∇f̂(y); at the start y = u
        products.append([torch.dot(a, b) for a, b in ((u_, w_), (w_, w_), (u_, h_), (w_, h_), (w_, p_))])
        torch.add(p_, w_, alpha=zeta, out=w_)
        u_.sub_(p_, alpha=eta).sub_(w_, alpha=eta * zeta)
        products[-1].append(torch.dot(u_, u_))
        torch.add(x_, u_, out=p_)  # where the next gradient is taken
    uw, ww, uh, wh, wg, next_uu = vectors.total(products)
    return [-eta * uw, eta**2 * ww, uh, -eta * wh, -eta * wg, next_uu]


@dataclass(frozen=True)
class _ValueAtY:
    """f(x + y_τ) and the slopes ∇f(x)ᵀu_τ and ∇f(x)ᵀv_τ, for the test as it is printed."""

    value: float
    slope_u: float
    slope_v: float

    @classmethod
    def of(cls, f_hat: DisplacedFunction, u: Tensor, v: Tensor, zeta: float) -> _ValueAtY:
        value = f_hat.f.value(f_hat.x + torch.sub(u, v, alpha=zeta))
        return cls(float(value), *vectors.dots((f_hat.grad0, u), (f_hat.grad0, v)))


def _calls_ncfind(settings: NeonPlusSettings, at: _Products, at_y: _ValueAtY | None, value_u: float) -> bool:
    """Line 4 of Algorithm 2: is f̂ below its tangent at u_τ by more than (γ/2)‖y_τ − u_τ‖² at y_τ?"""
    zeta = settings.momentum
    squared_distance = zeta**2 * at.vv
    if squared_distance < settings.resolution**2:
        return False
    below_tangent = at.below_tangent(zeta)
    if at_y is not None:  # As printed: f̂(y) − f̂(u) − ∇f̂(u)ᵀ(y − u) = f(x+y) − f(x+u) + ζ∇f(x+u)ᵀv
        below_tangent = at_y.value - value_u + zeta * (at.vg + at_y.slope_v)
    return below_tangent < -0.5 * settings.gamma * squared_distance


def _passes(
    f_hat: DisplacedFunction,
    settings: NeonPlusSettings,
    at: _Products,
    at_y: _ValueAtY | None,
    yy: float,
    ygy: float,
) -> bool:
    if settings.decrease is not None and at_y is not None:
        f_hat_y = f_hat.value(
            value=at_y.value,
            slope=at_y.slope_u - settings.momentum * at_y.slope_v,
            product=ygy,
            cubic=settings.hessian_lipschitz * yy**1.5,
        )
        return f_hat_y <= -2.0 * settings.decrease
    # ∇f̂(y) is known up to L2·max(‖u‖, ‖y‖)²/2.
    widened = settings.hessian_lipschitz * max(1.0, at.uu / yy)
    return curvature_bound(squared_norm=yy, product=ygy, hessian_lipschitz=widened) <= -settings.target


def extract(search: Search) -> Candidate:
    """NEON⁺ as `negative_curvature` calls it."""
    return search.within_budget(
        search.settings(theory_settings, practical_settings),
        lambda settings: neon_plus(search.f_hat, settings, search.generator, keep_history=search.keep_history),
    )


def extract_renormalised(search: Search) -> Candidate:
    """NEON⁺ with iterates of bounded length, as `negative_curvature` calls it."""
    return search.within_budget(
        search.settings(theory_renormalised_settings, practical_renormalised_settings),
        lambda settings: neon_plus(search.f_hat, settings, search.generator, keep_history=search.keep_history),
    )
