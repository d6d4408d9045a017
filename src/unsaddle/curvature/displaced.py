"""f̂_x(u) = f(x+u) − f(x) − ∇f(x)ᵀu, eq. (13): the function that NEON descends.

Its gradient is ∇f(x+u) − ∇f(x), so with ∇f(x) cached it costs one gradient of f; its Hessian at zero is that of f at x.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.objective import SampledFunction

VALUE_ROUNDING = 16.0
"""Rounding of a computed value, in units of the precision times its size: a few for the sum, a few for the formula."""


class DisplacedFunction:
    """f̂_x for one f and one x, with ∇f(x) cached. Making it costs one gradient.

    Attributes:
        f: the function.
        x: the point.
        value0: f(x).
        grad0: ∇f(x), our own copy, since the function may reuse its memory.
        grad_norm: ‖∇f(x)‖.
        x_norm: ‖x‖.
    """

    def __init__(self, f: SampledFunction, x: Tensor) -> None:
        self.f = f
        self.x = x
        value, grad = f.value_and_grad(x)
        self.value0 = float(value)
        self.grad0 = grad.clone()
        gg, xx = vectors.dots((self.grad0, self.grad0), (x, x))
        self.grad_norm, self.x_norm = math.sqrt(gg), math.sqrt(xx)

    @property
    def is_finite(self) -> bool:
        """Whether f, ∇f and x are finite here."""
        return math.isfinite(self.value0) and math.isfinite(self.grad_norm) and math.isfinite(self.x_norm)

    def grad(self, u: Tensor) -> Tensor:
        """∇f̂(u) = ∇f(x+u) − ∇f(x), in a new vector."""
        return self.f.grad_at_sum(self.x, u) - self.grad0

    def sum_with(self, u: Tensor) -> Tensor | None:
        """x + u in a new vector; None if f forms it in memory of its own, and no vector is needed."""
        return None if self.f.adds else self.x + u

    def value_and_grad_of_f(self, u: Tensor, point: Tensor | None, *, with_value: bool) -> tuple[float, Tensor]:
        """f, if it is wanted, else nan, and ∇f at x + u, which is `point` where there is one."""
        if not with_value:
            return math.nan, self.f.grad_at_sum(self.x, u) if point is None else self.f.grad(point)
        value, grad = self.f.value_and_grad_at_sum(self.x, u) if point is None else self.f.value_and_grad(point)
        return float(value), grad

    def product(self, v: Tensor, radius: float, out: Tensor | None = None) -> Tensor:
        """∇²f(x)v for a unit v, by a gradient difference at the given radius; the error is at most L2·radius/2."""
        return torch.sub(self.f.grad_at_sum(self.x, v, radius), self.grad0, out=out).div_(radius)

    def replace_by_product(self, v: Tensor, radius: float) -> Tensor:
        """v ← ∇²f(x)v for a unit v, as `product` has it; for a model, v is all the memory that it takes."""
        return self.f.add_grad_at_sum(v, self.x, v, radius, afresh=True).sub_(self.grad0).div_(radius)

    def central_product(self, v: Tensor, radius: float, out: Tensor | None = None) -> Tensor:
        """∇²f(x)v for a unit v, by the gradients on either side of x, without ∇f(x)."""
        out = self.f.add_grad_at_sum(torch.empty_like(v) if out is None else out, self.x, v, radius, afresh=True)
        return self.f.add_grad_at_sum(out, self.x, v, -radius, subtract=True).div_(2.0 * radius)

    def let_go(self) -> None:
        """Free ∇f(x), once nothing but measuring is left to do."""
        self.grad0 = self.grad0.new_empty(0)

    def value(self, *, value: float, slope: float, product: float, cubic: float) -> float:
        """f̂(u), from values where they are exact enough, else from gradients.

        By definition f̂(u) = f(x+u) − f(x) − ∇f(x)ᵀu, which in float32 usually cancels to noise. The trapezoidal rule
        ½uᵀ∇f̂(u) has no such trouble, and is off by at most L2‖u‖³/12. The first is taken where its rounding, as far as
        the size of the terms tells, is below one percent, and where the second does not contradict it: a function whose
        intermediate results are larger than its value loses more digits than its value shows.

        Args:
            value: f(x+u).
            slope: ∇f(x)ᵀu.
            product: uᵀ∇f̂(u).
            cubic: L2‖u‖³.
        """
        by_gradients = product / 2.0
        by_values = value - self.value0 - slope
        size = abs(value) + abs(self.value0) + abs(slope)
        rounding = VALUE_ROUNDING * torch.finfo(self.x.dtype).eps * size
        exact_enough = rounding <= 1e-2 * abs(by_values)
        return by_values if exact_enough and abs(by_values - by_gradients) <= cubic / 12.0 + rounding else by_gradients


def descend(f: SampledFunction, x: Tensor, u: Tensor, step_size: float) -> None:
    """u ← u − η(∇f(x+u) − ∇f(x)) in place, where no product with the difference is wanted.

    With u in units of −η, both gradients are added to it as they are computed, and for a model no vector is needed but
    u. That rounds by η·eps·‖∇f(x)‖, as each of the gradients does.

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
    """uᵀ∇f̂(u)/‖u‖² + L2‖u‖/2, an upper bound on uᵀ∇²f(x)u/‖u‖² by eq. (5), from one gradient at x+u.

    Args:
        squared_norm: ‖u‖².
        product: uᵀ∇f̂(u).
        hessian_lipschitz: L2.
    """
    return product / squared_norm + hessian_lipschitz * math.sqrt(squared_norm) / 2.0
