"""The function of the variables that may move, at a point within bounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unsaddle.cost import Ledger
from unsaddle.interop.scipy.counted_function import CountedFunction
from unsaddle.objective import Oracle
from unsaddle.objectives import differences
from unsaddle.objectives.deterministic import Deterministic
from unsaddle.objectives.differences import Array

Mask = NDArray[np.bool_]
TINY = float(np.finfo(np.float64).tiny)
"""The least normal number. Smaller ones have fewer digits."""

AT_BOUND = 1e-8
"""A variable is at a bound within this distance, times max(1, |x_i|)."""

VANISHING = 1e-5
"""Derivatives up to this count as zero. It is the default tolerance of SciPy's methods."""

SHORT, SHORT_BY_DIFFERENCES = 1e-7, 1e-4
"""The first probe radius, as a share of `FreeFunction.size`, with jac and by differences, which have half of the
digits. Rounding and truncation are then far below γ, unless fun loses half of its digits."""

PRESSED = 1e-3
"""Within this distance, times max(1, |x_i|), a variable is also at a bound if the derivative towards it is at least the
distance. Interior-point methods end at a distance of μ/|∂f/∂x_i| from an active bound."""


class _ProductLedger(Ledger):
    """Counts gradients as Hessian products, from which they are made."""

    def add_gradient(self, size: int) -> None:
        self.add_hessian_product(size)


@dataclass(frozen=True, kw_only=True)
class EndPoint:
    """The point where SciPy has converged."""

    function: CountedFunction
    x: Array
    value: float
    start: Array
    """Where SciPy began. Its distance from x gives a scale."""
    spent: int = 0
    """The gradients that SciPy's run took."""
    suspicious: bool = False
    """Whether a saddle is likely here: fun did not fall in SciPy's run, or a saddle was left before it."""
    inverse: Array | None = None
    """The inverse Hessian that BFGS leaves behind."""

    @cached_property
    def grad(self) -> Array:
        """∇f(x), mostly from memory."""
        return self.function.gradient(self.x)

    @cached_property
    def product(self) -> Callable[[Array], Any] | None:
        """p ↦ ∇²f(x)p for all variables; None without `hess` and `hessp`."""
        return self.function.products(self.x)

    def ledger(self) -> Ledger:
        """A new ledger. It counts Hessian products if gradients are made of them."""
        return Ledger() if self.product is None else _ProductLedger()

    @cached_property
    def free(self) -> Mask:
        """The variables that are at no bound.

        >>> grad, bounds = np.array([1.0, 1.0, 0.0, 0.0]), (np.zeros(4), np.full(4, np.inf))
        >>> x, function = np.array([0.0, 1e-5, 1e-5, 3.0]), CountedFunction(sum, lambda x: grad, (), *bounds)
        >>> EndPoint(function=function, x=x, value=3.0, start=x).free
        array([False, False,  True,  True])
        """
        held = np.zeros(self.x.shape, dtype=np.bool_)
        for slack, push in self._sides:
            held |= (slack <= AT_BOUND * self._scale) | ((slack <= PRESSED * self._scale) & (slack <= push))
        return ~held

    @cached_property
    def doubtful(self) -> Mask:
        """The variables at a bound, with room to leave it, whose derivative does not press them to it.

        >>> grad, bounds = np.array([1.0, 0.0, -1e-7, 0.0]), (np.zeros(4), np.full(4, np.inf))
        >>> x, function = np.array([0.0, 0.0, 0.0, 3.0]), CountedFunction(sum, lambda x: grad, (), *bounds)
        >>> EndPoint(function=function, x=x, value=3.0, start=x).doubtful
        array([False,  True,  True, False])
        """
        doubtful = np.zeros(self.x.shape, dtype=np.bool_)
        for slack, push in self._sides:
            doubtful |= (slack <= AT_BOUND * self._scale) & (push <= VANISHING)
        return doubtful & (self.function.upper - self.function.lower > 2.0 * AT_BOUND * self._scale)

    @property
    def inwards(self) -> Array:
        """±1 for each doubtful variable, away from its bound; 0 for the others."""
        (below, _), (above, _) = self._sides
        return np.where(below <= above, 1.0, -1.0) * self.doubtful

    @property
    def _sides(self) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        """For the lower bound, then for the upper one: the distance, and how hard the gradient presses towards it."""
        return (self.x - self.function.lower, self.grad), (self.function.upper - self.x, -self.grad)

    @property
    def _scale(self) -> Array:
        return np.maximum(1.0, np.abs(self.x))


class FreeFunction(Deterministic):
    """f as a function of its free variables z: an objective with a `point`.

    Without Hessian products z are the variables, and the gradient is jac's. With them z is the displacement from x, and
    the gradient is ∇f(x) + Hz: so H multiplies z itself, without the rounding of x + z. No point outside of the bounds
    is evaluated: the gradient there is ∇f(x+in) − ∇f(x−out) + ∇f(x), which for a quadratic is the same.

    Attributes:
        at, free: the end point, and the variables that may move.
        size: the larger of ‖x‖ and the distance that SciPy has come.
        first_radius: the radius of the first probes.
        source: the source of its curvature, "jac" or "hess".
        by_differences: whether gradients are differences of values.
    """

    def __init__(self, at: EndPoint, free: Mask) -> None:
        super().__init__(_Oracle(self), "a function of free variables")
        x = at.x[free]
        self.at, self.free = at, free
        self._point = torch.from_numpy(x if at.product is None else np.zeros_like(x))
        self.size = float(np.nan_to_num(np.linalg.norm([x, x - at.start[free]], axis=1).max())) or 1.0
        self.source = "jac" if at.product is None else "hess"
        self.by_differences = at.product is None and at.function.differences in ("2-point", "3-point")
        share = SHORT_BY_DIFFERENCES if self.by_differences else SHORT
        # Products are linear, so any length will do.
        self.first_radius = max(share * self.size, TINY) if at.product is None else 1.0

    @property
    def point(self) -> Tensor:
        """z at x."""
        return self._point

    def all_variables(self, z: Tensor) -> Array:
        """All variables, with the free ones at z."""
        variables = self.at.x.copy()
        variables[self.free] = z.numpy() if self.at.product is None else variables[self.free] + z.numpy()
        return variables

    def inside(self, z: Tensor) -> Array:
        """All variables, with the free ones at z, clipped to the bounds."""
        return np.clip(self.all_variables(z), self.at.function.lower, self.at.function.upper)

    def offset(self, p: Tensor) -> Tensor:
        """The offset nearest to p within the bounds."""
        return torch.from_numpy((self.inside(self.point + p) - self.inside(self.point))[self.free])

    def embedded(self, v: Tensor) -> Array:
        """A direction of the free variables as one of all variables."""
        direction = np.zeros_like(self.at.x)
        direction[self.free] = v.numpy()
        return direction


class _Oracle(Oracle):
    def __init__(self, f: FreeFunction) -> None:
        self._f = f

    def value(self, z: Tensor) -> Tensor:
        f = self._f
        value = f.at.value if torch.equal(z, f.point) else f.at.function.value(f.inside(z))
        return torch.tensor(value, dtype=torch.float64)

    def value_and_grad(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """∇f(z), and f at x only: a probe reads no other value, and fun may be costly."""
        at, here = self._f.at, torch.equal(z, self._f.point)
        grad = at.grad if here else self._gradient_at(z)
        return torch.tensor(at.value if here else np.nan, dtype=torch.float64), torch.from_numpy(grad[self._f.free])

    def _gradient_at(self, z: Tensor) -> Array:
        at, f = self._f.at, self._f.at.function
        if at.product is not None:
            return at.grad + np.asarray(at.product(self._f.embedded(z)), dtype=np.float64).ravel()
        point = self._f.all_variables(z)
        if f.inside(point):
            return f.gradient(point)
        leads_out = (point < f.lower) | (point > f.upper)
        inner, mirrored = np.where(leads_out, at.x, point), np.where(leads_out, 2.0 * at.x - point, at.x)
        if not f.inside(mirrored):  # There is less room than a probe needs.
            return np.full_like(at.x, np.nan)
        there = at.grad if np.array_equal(inner, at.x) else f.gradient(inner)
        return there - f.gradient(mirrored) + at.grad

    def gradient_error(self, value: float, grad_norm: float) -> float:
        """The rounding of differences of values."""
        scheme = self._f.at.function.differences if self._f.by_differences else None
        return differences.rounding_error(scheme, value, grad_norm, len(self._f.point))
