"""The tests of NEON⁺ as printed (line 4 and the last line of Algorithm 2), and NCFind (Algorithm 3)."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass

from torch import Tensor

from unsaddle import vectors
from unsaddle.curvature.displaced import DisplacedFunction
from unsaddle.curvature.result import Status
from unsaddle.theory import extraction


@dataclass
class PrintedTests:
    """The printed tests, for the iterates (u_τ, y_τ) of one run in order.

        f̂(y_τ) − f̂(u_τ) − ∇f̂(u_τ)ᵀ(y_τ − u_τ) < −(γ/2)‖y_τ − u_τ‖²: return NCFind's direction
        f̂(y_τ) ≤ −2𝓕: return y_τ

    NCFind (Algorithm 3, E7) returns the first y_j with ‖y_j − u_j‖ ≥ ζ√(6η𝓕) if there was one, else y_τ − u_τ. So that
    one y_j is all the history that is kept.

    Values of f̂ can cancel to noise. `DisplacedFunction.value` then needs yᵀ∇f̂(y). y_τ = (u_τ + ζy_{τ−1})/(1+ζ) is a
    convex combination of points whose gradients are known. The same combination h of the gradients is ∇f̂(y_τ) up to
    L2·max‖u‖²/2, and exactly on quadratics.
    """

    f_hat: DisplacedFunction
    _: KW_ONLY
    gamma: float
    decrease: float
    """𝓕."""
    momentum: float
    """ζ."""
    step_size: float
    hessian_lipschitz: float
    first_far: Tensor | None = None
    """The first y_j with ‖y_j − u_j‖ ≥ ζ√(6η𝓕)."""
    h: Tensor | None = None
    """An estimate of ∇f̂(y_τ)."""

    def test(self, u: Tensor, y: Tensor) -> tuple[Tensor, Status | None, Tensor | None]:
        """Returns ∇f(x + u_τ), the status if the run ends here, and the direction if one is found.

        The first call, for u_0 = y_0, takes one gradient. Each later call takes a gradient and f(x + y_τ).
        """
        f, x, g0 = self.f_hat.f, self.f_hat.x, self.f_hat.grad0
        value_u, g = f.value_and_grad_at_sum(x, u)
        if self.h is None:
            self.h = g - g0
            return g, None, None
        self.h.lerp_(g - g0, 1.0 / (1.0 + self.momentum))
        value_y, difference = float(f.value(x + y)), y - u
        squared_distance, slope, slope0, yy, yh = vectors.dots(
            (difference, difference), (g, difference), (g0, y), (y, y), (y, self.h)
        )
        below_tangent = value_y - float(value_u) - slope  # The terms with ∇f(x) cancel.
        if not (math.isfinite(below_tangent) and math.isfinite(yh)):
            return g, Status.NOT_FINITE, None
        far = extraction.neon_plus_momentum_threshold(
            momentum=self.momentum, step_size=self.step_size, decrease=self.decrease
        )
        if self.first_far is None and math.sqrt(squared_distance) >= far:
            self.first_far = y.clone()
        if below_tangent < -0.5 * self.gamma * squared_distance:
            return g, Status.FOUND, difference if self.first_far is None else self.first_far
        f_hat_y = self.f_hat.value(value=value_y, slope=slope0, product=yh, cubic=self.hessian_lipschitz * yy**1.5)
        return (g, Status.FOUND, y) if f_hat_y <= -2.0 * self.decrease else (g, None, None)
