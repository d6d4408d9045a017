"""Algorithms 1 to 3 as printed: NEON, NEON⁺ and NCFind, with 𝓕 and U of the theorems or your own.

They differ from the practical `neon` and `neon_plus` in their tests. These compare values of f̂ with 𝓕, take every step
that they are given, and return the best iterate within U. Errata E2 (noise in the ball), E3 and E7 are applied.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.curvature.displaced import DisplacedFunction, Tangent, above_tangent
from unsaddle.curvature.neon_settings import NeonPlusSettings, NeonSettings
from unsaddle.curvature.result import Candidate, Status, Trail
from unsaddle.curvature.search import Observer
from unsaddle.theory import extraction, quadratics

GRADIENT_ROUNDING = 4.0
"""Rounding of a gradient difference, in units of `quadratics.gradient_noise`."""


def neon_as_printed(
    f_hat: DisplacedFunction,
    settings: NeonSettings,
    generator: torch.Generator,
    *,
    keep_history: bool = False,
    observer: Observer | None = None,
) -> Candidate:
    """Algorithm 1, with 𝓕 = `decrease`.

        u_0 ~ Unif(ball of radius r)
        u_{τ+1} = u_τ − η(∇f(x + u_τ) − ∇f(x)),  τ = 0, …, t−1
        τ' = argmin over 1 ≤ τ ≤ t, ‖u_τ‖ ≤ U of f̂(u_τ);  return u_τ' if f̂(u_τ') ≤ −2.5𝓕, else nothing

    Departures, for floating point: where values cancel to noise, f̂(u_τ) comes from gradients (`above_tangent`), and
    u_t, where no gradient is taken, does not count. −2.5𝓕 has to be passed by more than the rounding, else the
    precision is called too low. Numbers that are not finite end the run, and nothing found at curvatures beyond 2/η is
    called a step that is too long.

    Cost: t gradients with their values, and one value. Memory: x + u, u, the best u, ∇f(x) and a gradient.

    >>> from unsaddle import Function
    >>> f = Function(lambda x: x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4).sample()
    >>> saddle = DisplacedFunction(f, torch.zeros(2, dtype=torch.float64))
    >>> settings = NeonSettings(step_size=0.1, num_steps=40, noise_radius=0.01, trust_radius=0.5, decrease=0.01)
    >>> found = neon_as_printed(saddle, settings, torch.Generator().manual_seed(0))
    >>> bool(found.vector[1].abs() > found.vector[0].abs()), bool(found.vector.norm() <= 0.5)
    (True, True)
    """
    assert settings.decrease is not None
    x, g0, eta, last = f_hat.x, f_hat.grad0, settings.step_size, settings.num_steps
    u = vectors.random_in_ball(x, settings.noise_radius, generator)
    seen = _Seen(f_hat, settings.trust_radius, longest_step=2.0, trail=Trail(keep_history))
    for tau in range(last + 1):
        if observer is not None:
            observer(tau, u)
        if tau == last:
            uu, slope = vectors.dots((u, u), (g0, u))
            f_hat_u = seen.tangent(float(f_hat.f.value(x + u)), slope, uu)
            if f_hat_u.rounding <= 1e-2 * abs(f_hat_u.value):  # No gradient is taken here that could tell.
                seen.offer(u, uu, f_hat_u)
            break
        value, g = f_hat.f.value_and_grad_at_sum(x, u)
        h = g - g0  # ∇f̂(u_τ)
        uu, uh, hh, slope = vectors.dots((u, u), (u, h), (h, h), (g0, u))
        if not seen.learn(uu, uh, hh, float(value)):
            break
        if tau > 0:
            seen.offer(
                u, uu, seen.tangent(float(value), slope, uu, uh, settings.hessian_lipschitz * math.sqrt(uu) * uu)
            )
        u = torch.sub(u, h, alpha=eta)
    return seen.end(2.5 * settings.decrease, eta, u)


def neon_plus_as_printed(
    f_hat: DisplacedFunction,
    settings: NeonPlusSettings,
    generator: torch.Generator,
    *,
    keep_history: bool = False,
    observer: Observer | None = None,
) -> Candidate:
    """Algorithm 2 with NCFind, Algorithm 3, with 𝓕 = `decrease`.

        y_0 = u_0 ~ Unif(ball of radius r)
        for τ = 0, …, t:
            if f̂(y_τ) − f̂(u_τ) − ∇f̂(u_τ)ᵀ(y_τ − u_τ) < −(γ/2)‖y_τ − u_τ‖²: return NCFind(y_0 … y_τ, u_0 … u_τ)
            y_{τ+1} = u_τ − η∇f̂(u_τ);  u_{τ+1} = y_{τ+1} + ζ(y_{τ+1} − y_τ)             (14)
        τ' = argmin over 1 ≤ τ ≤ t, ‖y_τ‖ ≤ U of f̂(y_τ);  return y_τ' if f̂(y_τ') ≤ −2𝓕, else nothing

    NCFind returns the first y_j with ‖y_j − u_j‖ ≥ ζ√(6η𝓕) if there was one, else y_τ − u_τ. So one y_j is all the
    history that is kept. The test is left out at τ = 0, where y = u.

    Values can cancel to noise, so f̂(y_τ) and the left-hand side are guarded by gradients (`above_tangent`). Both need
    ∇f̂(y_τ). y_τ = (u_τ + ζy_{τ−1})/(1+ζ) is a convex combination of points whose gradients are known. The same
    combination of the gradients is ∇f̂(y_τ) up to L2·max‖u‖²/2, and exactly on quadratics. As in `neon_as_printed`, both
    tests have to be passed by more than the rounding.

    Cost: t + 1 gradients, and t values at y. Memory: u, y, the first far and the best y, ∇f(x) and four vectors more.

    >>> from unsaddle import Function
    >>> f = Function(lambda x: x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4).sample()
    >>> saddle = DisplacedFunction(f, torch.zeros(2, dtype=torch.float64))
    >>> own = {"step_size": 0.1, "num_steps": 40, "noise_radius": 0.01, "trust_radius": 0.5, "decrease": 0.01}
    >>> settings = NeonPlusSettings(momentum=0.6, gamma=1.5, **own)
    >>> found = neon_plus_as_printed(saddle, settings, torch.Generator().manual_seed(0))
    >>> bool(found.vector[1].abs() > found.vector[0].abs())
    True
    """
    assert settings.decrease is not None
    assert settings.gamma is not None
    x, g0, f = f_hat.x, f_hat.grad0, f_hat.f
    eta, zeta, L2, last = settings.step_size, settings.momentum, settings.hessian_lipschitz, settings.num_steps
    far = extraction.neon_plus_momentum_threshold(momentum=zeta, step_size=eta, decrease=settings.decrease)
    y = u = vectors.random_in_ball(x, settings.noise_radius, generator)
    longest_step = (2.0 + 2.0 * zeta) / (1.0 + 2.0 * zeta)
    seen = _Seen(f_hat, settings.trust_radius, longest_step=longest_step, trail=Trail(keep_history))
    first_far: Tensor | None = None
    at_y, longest = torch.zeros_like(x), 0.0  # ∇f̂(y_τ), estimated; the largest ‖u‖²
    for tau in range(last + 1):
        if observer is not None:
            observer(tau, y)
        value_u, g = f.value_and_grad_at_sum(x, u)
        h = g - g0  # ∇f̂(u_τ)
        at_y = h.clone() if tau == 0 else at_y.lerp_(h, 1.0 / (1.0 + zeta))
        value_y = f.value(x + y) if tau > 0 else value_u
        off = y - u
        uu, uh, hh, yy, yh, slope0, oo, slope, rise = vectors.dots(
            (u, u), (u, h), (h, h), (y, y), (y, at_y), (g0, y), (off, off), (g, off), (off, at_y - h)
        )
        if not seen.learn(uu, uh, hh, float(value_u)) or not math.isfinite(float(value_y) + yh):
            seen.finite = False
            break
        if tau > 0:
            longest = max(longest, uu)
            if first_far is None and math.sqrt(oo) >= far:
                first_far = y.clone()
            change = L2 * math.sqrt(oo) * (oo + 6.0 * longest)
            below = seen.tangent(float(value_y), slope, oo, rise, change, start=float(value_u))
            if below.value + below.rounding < -0.5 * settings.gamma * oo:
                return seen.trail.end(Status.FOUND, off if first_far is None else first_far)
            change = L2 * math.sqrt(yy) * (yy + 6.0 * longest)
            seen.offer(y, yy, seen.tangent(float(value_y), slope0, yy, yh, change))
        next_y = torch.sub(u, h, alpha=eta)
        y, u = next_y, next_y + zeta * (next_y - y)
    return seen.end(2.0 * settings.decrease, eta, y)


@dataclass
class _Seen:
    """What a run has seen: its best iterate within U, and how large gradients, and so their rounding, are."""

    f_hat: DisplacedFunction
    trust_radius: float
    longest_step: float
    """A curvature beyond this over η makes the iteration diverge."""
    trail: Trail
    best: Tensor | None = None
    lowest: Tangent = field(default_factory=lambda: Tangent(math.inf, 0.0))
    smoothness: float = 0.0
    """The largest ‖∇f̂(u)‖/‖u‖: rounding moves x in directions as random as the noise is."""
    steepest: float = -math.inf
    distance: float = 0.0
    """‖u‖."""
    finite: bool = True

    @property
    def noise(self) -> float:
        """The rounding of ∇f̂(u)."""
        f_hat, farthest = self.f_hat, self.f_hat.x_norm + self.distance
        return GRADIENT_ROUNDING * quadratics.gradient_noise(
            dtype=f_hat.x.dtype, grad_norm=f_hat.grad_norm, smoothness=self.smoothness, x_norm=farthest
        )

    def learn(self, uu: float, uh: float, hh: float, value: float) -> bool:
        """Notes the curvature along u, from ‖u‖², uᵀ∇f̂(u) and ‖∇f̂(u)‖². False if something is not finite."""
        self.finite = math.isfinite(uu + uh + hh + value)
        if self.finite and uu > 0.0:
            self.smoothness, self.distance = max(self.smoothness, math.sqrt(hh / uu)), math.sqrt(uu)
            self.trail.note(self.f_hat.f.ledger.gradients, uh / uu)
            if self.noise <= 0.1 * self.smoothness * math.sqrt(uu):  # Else the quotient is rounding.
                self.trail.lowest = min(self.trail.lowest, uh / uu)
                self.steepest = max(self.steepest, uh / uu)
        return self.finite

    def tangent(
        self,
        value: float,
        slope: float,
        squared_distance: float,
        product: float | None = None,
        change: float = 0.0,
        *,
        start: float | None = None,
    ) -> Tangent:
        """`above_tangent`, from f(x) by default, with the noise of this run.

        If L2 is not known, the definition has only to agree with a curvature of ten times the largest seen.
        """
        change = change if change > 0.0 else 120.0 * self.smoothness * squared_distance
        return above_tangent(
            value=value,
            start=self.f_hat.value0 if start is None else start,
            slope=slope,
            product=product,
            change=change,
            gradient_rounding=self.noise * math.sqrt(squared_distance),
            point_rounding=self._point_rounding,
            dtype=self.f_hat.x.dtype,
        )

    @property
    def _point_rounding(self) -> float:
        """How much rounding x + u changes f there."""
        f_hat = self.f_hat
        off = torch.finfo(f_hat.x.dtype).eps * (f_hat.x_norm + self.distance)
        return off * (f_hat.grad_norm + self.smoothness * self.distance)

    def offer(self, u: Tensor, uu: float, f_hat_u: Tangent) -> None:
        """Keeps u if it lies within U and f̂(u) is the smallest so far."""
        if math.sqrt(uu) <= self.trust_radius and f_hat_u.value < self.lowest.value:
            self.best, self.lowest = u.clone(), f_hat_u

    def end(self, threshold: float, step_size: float, u: Tensor) -> Candidate:
        """The last lines: the best iterate, if f̂ ≤ −threshold there whatever rounding did."""
        if self.lowest.value + self.lowest.rounding <= -threshold:
            return self.trail.end(Status.FOUND, self.best)
        if not self.finite:
            return self.trail.end(Status.NOT_FINITE)
        if self.lowest.value <= -threshold:
            return self.trail.end(Status.PRECISION_TOO_LOW)
        if self.steepest * step_size > self.longest_step:
            return self.trail.end(Status.SMOOTHNESS_EXCEEDED)
        spacing = torch.finfo(u.dtype).eps * self.f_hat.x_norm
        hidden = self.steepest == -math.inf if self.smoothness > 0.0 else vectors.norm(u) <= spacing
        if hidden:  # All iterates were shorter than rounding.
            return self.trail.end(Status.PRECISION_TOO_LOW)
        return self.trail.end(Status.NOTHING_FOUND, exhausted=True, deciding=(u,))
