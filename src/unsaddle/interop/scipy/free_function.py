"""The function of the variables that may move: what a verdict at a point within bounds is about."""

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

TINY = float(np.finfo(np.float64).tiny)
"""Numbers below have lost digits."""

AT_BOUND = 1e-8
"""A variable so near to a bound, times max(1, |x_i|), is at it."""

VANISHING = 1e-5
"""A derivative that counts as zero: the tolerance that SciPy's methods have by default."""

SHORT = 1e-7
"""The first probe radius, as a share of how large x is or how far SciPy has come, whichever is more: rounding and
truncation are both far below γ for a function that does not lose half of its digits."""

SHORT_BY_DIFFERENCES = 1e-4
"""The same where gradients are differences of values, which have half of the digits."""

PRESSED = 1e-3
"""So near, times max(1, |x_i|), it is at it if the gradient presses it there harder than its distance: interior-point
methods end at a distance of μ/|∂f/∂x_i| from an active bound."""


class _ProductLedger(Ledger):
    """For gradients that are made of Hessian products."""

    def add_gradient(self, size: int) -> None:
        self.add_hessian_product(size)


@dataclass(frozen=True, kw_only=True)
class EndPoint:
    """Where SciPy has converged, and what is known there."""

    function: CountedFunction
    x: Array
    value: float
    start: Array
    """Where SciPy began, which tells a scale beside x."""

    @cached_property
    def grad(self) -> Array:
        """∇f(x), which the function mostly remembers."""
        return self.function.gradient(self.x)

    @cached_property
    def product(self) -> Callable[[Array], Any] | None:
        """p ↦ ∇²f(x)p for all variables, where `hess` or `hessp` was given."""
        return self.function.products(self.x)

    def ledger(self) -> Ledger:
        """A new ledger, which counts Hessian products as such."""
        return Ledger() if self.product is None else _ProductLedger()

    @cached_property
    def free(self) -> NDArray[np.bool_]:
        """Which variables are at no bound.

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
    def doubtful(self) -> NDArray[np.bool_]:
        """Which variables are at a bound that no derivative presses them to, and could leave it.

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
        """±1 for each doubtful variable, whichever leads away from its bound; 0 for the others."""
        (below, _), (above, _) = self._sides
        return np.where(below <= above, 1.0, -1.0) * self.doubtful

    @property
    def _sides(self) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        """How far the lower bound is and how hard the gradient presses towards it; the same of the upper one."""
        return (self.x - self.function.lower, self.grad), (self.function.upper - self.x, -self.grad)

    @property
    def _scale(self) -> Array:
        return np.maximum(1.0, np.abs(self.x))


class FreeFunction(Deterministic):
    """f as a function of its free variables z: an objective with a `point` of its own.

    Where a Hessian product was given, z is the displacement from x and the gradient is ∇f(x) + Hz, so that H multiplies
    z itself and not what rounding leaves of it in x + z. Else z are the variables, and the gradient is jac's. Where a
    point is outside of the bounds, the offsets that lead out are taken the other way, and the gradient is
    ∇f(x+in) − ∇f(x−out) + ∇f(x): the same for a quadratic, and no point outside is evaluated.

    Args:
        at: where.
        free: which variables may move.

    Attributes:
        at, free: the same.
        size: how large x is, or how far SciPy has come, whichever is more.
        first_radius: how far the first probes go.
        source: what its curvature comes from, "jac" or "hess".
        by_differences: whether gradients are differences of values, off by their rounding.
    """

    def __init__(self, at: EndPoint, free: NDArray[np.bool_]) -> None:
        super().__init__(_Oracle(self), "a function of free variables")
        x = at.x[free]
        self.at, self.free = at, free
        self._point = torch.from_numpy(x if at.product is None else np.zeros_like(x))
        self.size = float(np.nan_to_num(np.linalg.norm([x, x - at.start[free]], axis=1).max())) or 1.0
        self.source = "jac" if at.product is None else "hess"
        self.by_differences = at.product is None and at.function.differences in ("2-point", "3-point")
        share = SHORT_BY_DIFFERENCES if self.by_differences else SHORT
        # Products are linear: any length will do.
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
        """All variables, with the free ones at z or, if that is outside, at the bounds."""
        return np.clip(self.all_variables(z), self.at.function.lower, self.at.function.upper)

    def offset(self, p: Tensor) -> Tensor:
        """The offset nearest to p that stays within the bounds."""
        return torch.from_numpy((self.inside(self.point + p) - self.inside(self.point))[self.free])

    def embedded(self, v: Tensor) -> Array:
        """A direction of the free variables among all."""
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
        """∇f, and f at x only: a probe reads no other value, and fun may be costly."""
        at, here = self._f.at, torch.equal(z, self._f.point)
        grad = at.grad if here else self._gradient_at(z)
        return torch.tensor(at.value if here else np.nan, dtype=torch.float64), torch.from_numpy(grad[self._f.free])

    def _gradient_at(self, z: Tensor) -> Array:
        at, f = self._f.at, self._f.at.function
        if at.product is not None:
            product: Array = np.asarray(at.product(self._f.embedded(z)), dtype=np.float64).ravel()
            return at.grad + product
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
        """Of differences of values: their rounding."""
        scheme = self._f.at.function.differences if self._f.by_differences else None
        return differences.rounding_error(scheme, value, grad_norm, len(self._f.point))
