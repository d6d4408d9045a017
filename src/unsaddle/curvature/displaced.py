"""f̂_x(u) = f(x+u) − f(x) − ∇f(x)ᵀu, eq. (13): the function that NEON descends.

Its gradient is ∇f(x+u) − ∇f(x), one gradient of f if ∇f(x) is cached. Its Hessian at zero is that of f at x.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.measure.values import VALUE_ROUNDING
from unsaddle.objective import SampledFunction


class DisplacedFunction:
    """f̂_x for one f and one x, with value0 = f(x), grad0 = ∇f(x) and two norms cached. Making it costs one gradient."""

    def __init__(self, f: SampledFunction, x: Tensor) -> None:
        self.f, self.x = f, x
        value, grad = f.value_and_grad(x)
        self.value0, self.grad0 = float(value), grad.clone()  # f may reuse the memory of its gradient.
        self.grad_norm, self.x_norm = vectors.norm(self.grad0), vectors.norm(x)
        precision = torch.finfo(x.dtype)
        if self.x_norm < precision.tiny / precision.eps**2:  # A rounding of it is no number to move by: it counts as 0.
            self.x_norm = 0.0

    @property
    def is_finite(self) -> bool:
        """Whether f(x), ∇f(x) and x are finite."""
        return math.isfinite(self.value0) and math.isfinite(self.grad_norm) and math.isfinite(self.x_norm)

    @property
    def value_rounding(self) -> float:
        """The rounding of f(x), and of values near it."""
        return VALUE_ROUNDING * torch.finfo(self.x.dtype).eps * abs(self.value0)

    def grad(self, u: Tensor) -> Tensor:
        """∇f̂(u) = ∇f(x+u) − ∇f(x), in a new vector."""
        return self.f.grad_at_sum(self.x, u) - self.grad0

    def sum_with(self, u: Tensor) -> Tensor | None:
        """x + u in a new vector; None if f forms it in its own memory."""
        return None if self.f.adds else self.x + u

    def product(self, v: Tensor, radius: float, out: Tensor | None = None) -> Tensor:
        """∇²f(x)v for a unit v, by a gradient difference with an error of at most L2·radius/2."""
        return torch.sub(self.f.grad_at_sum(self.x, v, radius), self.grad0, out=out).div_(radius)

    def replace_by_product(self, v: Tensor, radius: float) -> Tensor:
        """v ← ∇²f(x)v for a unit v, by the formula of `product`. For a model it needs no memory but v."""
        return self.f.add_grad_at_sum(v, self.x, v, radius, afresh=True).sub_(self.grad0).div_(radius)

    def central_product(self, v: Tensor, radius: float, out: Tensor | None = None) -> Tensor:
        """∇²f(x)v for a unit v, by two gradients, one on each side of x. ∇f(x) is not used."""
        out = self.f.add_grad_at_sum(torch.empty_like(v) if out is None else out, self.x, v, radius, afresh=True)
        return self.f.add_grad_at_sum(out, self.x, v, -radius, subtract=True).div_(2.0 * radius)

    def renew(self, grad: Tensor) -> None:
        """Takes another gradient at x, one that was computed after a move, as ∇f(x)."""
        self.grad0, self.grad_norm = grad, vectors.norm(grad)

    def let_go(self) -> None:
        """Frees ∇f(x)."""
        self.grad0 = self.grad0.new_empty(0)


def descend(f: SampledFunction, x: Tensor, u: Tensor, step_size: float) -> None:
    """u ← u − η(∇f(x+u) − ∇f(x)) in place.

    u is held in units of −η, and both gradients are added to it as they are computed. So a model needs no vector but u.
    This rounds by η·eps·‖∇f(x)‖, as each gradient does.

    >>> from unsaddle import Function
    >>> u = torch.tensor([2.0, 3.0])
    >>> descend(Function(lambda x: 0.5 * x @ x).sample(), torch.ones(2), u, 0.5)
    >>> u.tolist()
    [1.0, 1.5]
    """
    u.div_(-step_size)
    f.add_grad_at_sum(u, x, u, -step_size)
    f.add_grad_at_sum(u, x, None, subtract=True)
    u.mul_(-step_size)


def curvature_bound(*, squared_norm: float, product: float, hessian_lipschitz: float) -> float:
    """uᵀ∇f̂(u)/‖u‖² + L2‖u‖/2 ≥ uᵀ∇²f(x)u/‖u‖², by eq. (5); squared_norm = ‖u‖², product = uᵀ∇f̂(u)."""
    return product / squared_norm + hessian_lipschitz * math.sqrt(squared_norm) / 2.0


class Tangent(NamedTuple):
    """How far f lies above a tangent, and how much of that may be rounding."""

    value: float
    rounding: float


def above_tangent(
    *,
    value: float,
    start: float,
    slope: float,
    product: float | None,
    change: float,
    gradient_rounding: float,
    point_rounding: float = 0.0,
    dtype: torch.dtype,
) -> Tangent:
    """f(b) − f(a) − ∇f(a)ᵀ(b − a), of value = f(b), start = f(a) and slope = ∇f(a)ᵀ(b − a).

    f̂(u) is this from a = x to b = x + u. Line 4 of NEON⁺ asks for it from x + u to x + y.

    The definition cancels to noise if the distance is small, in float32 nearly always. The trapezoidal rule, half of
    product = (∇f(b) − ∇f(a))ᵀ(b − a), does not cancel. It is off by at most a twelfth of change = L2‖b − a‖³. The
    definition is used if its rounding, estimated from the size of its terms and from what rounding of the points does
    to f (`point_rounding`), is below one percent, and if the rule does not contradict it: a function with intermediate
    results larger than its value loses more digits than its value shows. Without a rule (None), the definition has to
    do.
    """
    by_values = value - start - slope
    rounding = VALUE_ROUNDING * torch.finfo(dtype).eps * (abs(value) + abs(start) + abs(slope)) + point_rounding
    if product is None:
        return Tangent(by_values, rounding)
    by_gradients = product / 2.0
    exact = rounding <= 1e-2 * abs(by_values)
    agrees = abs(by_values - by_gradients) <= change / 12.0 + rounding
    return Tangent(by_values, rounding) if exact and agrees else Tangent(by_gradients, gradient_rounding / 2.0)
