"""The tests of NEON⁺ as they are printed (line 4 and the last one of Algorithm 2), and NCFind (Algorithm 3)."""

from __future__ import annotations

import math

from torch import Tensor

from unsaddle import vectors
from unsaddle.curvature.displaced import DisplacedFunction
from unsaddle.curvature.result import Status
from unsaddle.theory import extraction


class PrintedTests:
    """With which direction, if any, the iterates (u_τ, y_τ) end NEON⁺; shown one after the other.

        f̂(y_τ) − f̂(u_τ) − ∇f̂(u_τ)ᵀ(y_τ − u_τ) < −(γ/2)‖y_τ − u_τ‖²: what NCFind returns
        f̂(y_τ) ≤ −2𝓕: y_τ

    NCFind (Algorithm 3, E7) returns the first y_j with ‖y_j − u_j‖ ≥ ζ√(6η𝓕) if there was one, else y_τ − u_τ. So no
    history is kept but that one y_j.

    Values of f̂ can cancel to noise, see `DisplacedFunction.value`, which then asks for yᵀ∇f̂(y). As y_τ = (u_τ +
    ζy_{τ−1})/(1+ζ) is a convex combination of points whose gradients are known, the same combination h of these is
    ∇f̂(y_τ) up to L2·max‖u‖²/2, and exactly on quadratics.

    Args:
        f_hat: f̂.
        gamma: γ.
        decrease: 𝓕.
        momentum: ζ.
        step_size: η.
        hessian_lipschitz: L2.
    """

    def __init__(
        self,
        f_hat: DisplacedFunction,
        *,
        gamma: float,
        decrease: float,
        momentum: float,
        step_size: float,
        hessian_lipschitz: float,
    ) -> None:
        self._f_hat, self._gamma, self._decrease, self._zeta = f_hat, gamma, decrease, momentum
        self._hessian_lipschitz = hessian_lipschitz
        self._far = extraction.neon_plus_momentum_threshold(momentum=momentum, step_size=step_size, decrease=decrease)
        self._first_far: Tensor | None = None
        self._h: Tensor | None = None

    def test(self, u: Tensor, y: Tensor) -> tuple[Tensor, Status | None, Tensor | None]:
        """∇f(x + u_τ); how the run ends here, None if it goes on; and the direction, if that is by finding one.

        The first call is for u_0 = y_0, and takes a gradient; each further one takes f(x + y_τ) beside it.
        """
        f, x, g0 = self._f_hat.f, self._f_hat.x, self._f_hat.grad0
        value_u, g = f.value_and_grad_at_sum(x, u)
        if self._h is None:
            self._h = g - g0
            return g, None, None
        self._h.lerp_(g - g0, 1.0 / (1.0 + self._zeta))
        value_y, difference = float(f.value(x + y)), y - u
        squared_distance, slope, slope0, yy, yh = vectors.dots(
            (difference, difference), (g, difference), (g0, y), (y, y), (y, self._h)
        )
        below_tangent = value_y - float(value_u) - slope  # The terms with ∇f(x) cancel.
        if not (math.isfinite(below_tangent) and math.isfinite(yh)):
            return g, Status.NOT_FINITE, None
        if self._first_far is None and math.sqrt(squared_distance) >= self._far:
            self._first_far = y.clone()
        if below_tangent < -0.5 * self._gamma * squared_distance:
            return g, Status.FOUND, difference if self._first_far is None else self._first_far
        f_hat_y = self._f_hat.value(value=value_y, slope=slope0, product=yh, cubic=self._hessian_lipschitz * yy**1.5)
        return (g, Status.FOUND, y) if f_hat_y <= -2.0 * self._decrease else (g, None, None)
