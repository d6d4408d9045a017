"""The function of the variables that may move: what a verdict at a point within bounds is about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unsaddle import vectors
from unsaddle.curvature.krylov.extractor import NOISE_SHARE
from unsaddle.curvature.question import RELATIVE_GAMMA
from unsaddle.interop.scipy.problem import CENTRAL, Array, Problem
from unsaddle.objective import Oracle
from unsaddle.objectives.deterministic import Deterministic

AT_BOUND = 1e-8
"""A variable so near to a bound, times max(1, |x_i|), is at it."""

VANISHING = 1e-5
"""A derivative that counts as zero: the tolerance that SciPy's methods have by default."""

SHORT = 1e-7
"""Probes of the short look, as a share of how large x is or how far SciPy has come, whichever is more: rounding and
truncation are both far below γ for a function that does not lose half of its digits."""

SHORT_BY_DIFFERENCES = 1e-4
"""The same where gradients are differences of values, which have half of the digits."""

PRESSED = 1e-3
"""So near, times max(1, |x_i|), it is at it if the gradient presses it there harder than its distance: interior-point
methods end at a distance of μ/|∂f/∂x_i| from an active bound."""


def free_variables(x: Array, grad: Array, lower: Array, upper: Array) -> NDArray[np.bool_]:
    """Which variables are at no bound.

    >>> x, gradient = np.array([0.0, 1e-5, 1e-5, 3.0]), np.array([1.0, 1.0, 0.0, 0.0])
    >>> free_variables(x, gradient, lower=np.zeros(4), upper=np.full(4, np.inf))
    array([False, False,  True,  True])
    """
    scale = np.maximum(1.0, np.abs(x))
    held = np.zeros(x.shape, dtype=np.bool_)
    for slack, push in ((x - lower, grad), (upper - x, -grad)):
        held |= (slack <= AT_BOUND * scale) | ((slack <= PRESSED * scale) & (slack <= push))
    return ~held


def doubtful_variables(x: Array, grad: Array, lower: Array, upper: Array) -> NDArray[np.bool_]:
    """Which variables are at a bound that no derivative presses them to, and could leave it.

    >>> x, gradient = np.array([0.0, 0.0, 0.0, 3.0]), np.array([1.0, 0.0, -1e-7, 0.0])
    >>> doubtful_variables(x, gradient, lower=np.zeros(4), upper=np.full(4, np.inf))
    array([False,  True,  True, False])
    """
    scale = np.maximum(1.0, np.abs(x))
    doubtful = np.zeros(x.shape, dtype=np.bool_)
    for slack, push in ((x - lower, grad), (upper - x, -grad)):
        doubtful |= (slack <= AT_BOUND * scale) & (push <= VANISHING)
    return doubtful & (upper - lower > 2.0 * AT_BOUND * scale)


class FreeFunction(Deterministic):
    """f as a function of its free variables z: an objective with a `point` of its own.

    Where a Hessian product was given, z is the displacement from x and the gradient is ∇f(x) + Hz, so that H multiplies
    z itself and not what rounding leaves of it in x + z. Else z are the variables, and the gradient is jac's. Where a
    point is outside of the bounds, the offsets that lead out are taken the other way, and the gradient is
    ∇f(x+in) − ∇f(x−out) + ∇f(x): the same for a quadratic, and no point outside is evaluated.

    Args:
        problem: f and its bounds.
        x: where.
        value: f(x).
        grad: ∇f(x).
        free: which variables may move.
        product: p ↦ ∇²f(x)p for all variables, or None.
        start: where SciPy began, which tells a scale beside x.

    Attributes:
        point: z at x.
        size: how large x is, or how far SciPy has come, whichever is more.
        short_radius: how far the probes of a short look go.
        source: what its curvature comes from, "jac" or "hess".
        by_differences: whether gradients are differences of values, off by their rounding.
    """

    def __init__(
        self,
        problem: Problem,
        x: Array,
        value: float,
        grad: Array,
        free: NDArray[np.bool_],
        product: Callable[[Array], Any] | None = None,
        start: Array | None = None,
    ) -> None:
        z = x[free] if product is None else np.zeros(int(free.sum()))
        self._point, self._free = torch.from_numpy(z), free
        self._here = _Oracle(problem, x, value, grad, free, product, z)
        super().__init__(self._here, "a function of free variables")
        moved = 0.0 if start is None else float(np.linalg.norm(x[free] - start[free]))
        self.size = max(float(np.linalg.norm(x[free])), moved) or 1.0
        share = SHORT if problem.differences in (None, "cs") else SHORT_BY_DIFFERENCES
        # Products are linear: any length will do.
        self.short_radius = share * self.size if product is None else 1.0
        self.source = "jac" if product is None else "hess"
        self.by_differences = product is None and problem.differences not in (None, "cs")

    @property
    def point(self) -> Tensor:
        return self._point

    def look_farther(self, gamma: float | None) -> None:
        """Have the next look probe at the cube root of the precision, times max(1, ‖z‖): with one gradient.

        A function that computes through terms much larger than x, as cos does near zero, moves in steps that a shift by
        some roundings of x does not see; its gradients then seem exact, and the probes chosen by that are too short.
        """
        r = CENTRAL * max(1.0, vectors.norm(self.point))
        v = vectors.random_direction(self.point, torch.Generator().manual_seed(0))
        f = self.sample()
        change = vectors.norm(f.grad(torch.add(self.point, v, alpha=r)) - f.grad(self.point)) / r
        # The radius is chosen as √2σ/(share·γ).
        sought = RELATIVE_GAMMA * change if gamma is None else gamma
        self._here.noise_floor = NOISE_SHARE[torch.float64] * sought * r / 2.0**0.5

    def full(self, z: Tensor) -> Array:
        """All variables, with the free ones at z or, if that is outside, at the bounds."""
        return self._here.clipped(z)

    def offset(self, p: Tensor, here: Array) -> Tensor:
        """The offset nearest to p that stays within the bounds; `here` are all variables at the point."""
        return torch.from_numpy((self.full(self.point + p) - here)[self._free])

    def embedded(self, v: Tensor) -> Array:
        """A direction of the free variables among all."""
        return self._here.embedded(v)


class _Oracle(Oracle):
    def __init__(
        self,
        problem: Problem,
        x: Array,
        value: float,
        grad: Array,
        free: NDArray[np.bool_],
        product: Callable[[Array], Any] | None,
        start: Array,
    ) -> None:
        self._problem, self._x, self._value, self._grad, self._free = problem, x, value, grad, free
        self._product, self._start = product, start
        self.noise_floor = 0.0

    def value(self, z: Tensor) -> Tensor:
        if np.array_equal(z.numpy(), self._start):
            return torch.tensor(self._value, dtype=torch.float64)
        return torch.tensor(self._problem.probe_value(self.clipped(z)), dtype=torch.float64)

    def value_and_grad(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """∇f, and f at x only: a probe reads no other value, and fun may be costly."""
        here = np.array_equal(z.numpy(), self._start)
        grad = self._grad if here else self._gradient_at(z)
        return torch.tensor(self._value if here else np.nan, dtype=torch.float64), torch.from_numpy(grad[self._free])

    def _gradient_at(self, z: Tensor) -> Array:
        problem, x = self._problem, self._x
        if self._product is not None:
            product: Array = np.asarray(self._product(self.embedded(z)), dtype=np.float64).ravel()
            return self._grad + product
        point = self._at(z)
        if problem.inside(point):
            return problem.probe_gradient(point)
        leads_out = (point < problem.lower) | (point > problem.upper)
        inner, mirrored = np.where(leads_out, x, point), np.where(leads_out, 2.0 * x - point, x)
        if not problem.inside(mirrored):  # There is less room than a probe needs.
            return np.full_like(x, np.nan)
        there = self._grad if np.array_equal(inner, x) else problem.probe_gradient(inner)
        return there - problem.probe_gradient(mirrored) + self._grad

    def gradient_error(self, value: float, grad_norm: float) -> float:
        """Of differences of values: their rounding."""
        known = 0.0 if self._product is not None else self._problem.gradient_error(value, self._start.size)
        return max(known, self.noise_floor)

    def clipped(self, z: Tensor) -> Array:
        return np.clip(self._at(z), self._problem.lower, self._problem.upper)

    def embedded(self, v: Tensor) -> Array:
        full = np.zeros_like(self._x)
        full[self._free] = v.numpy()
        return full

    def _at(self, z: Tensor) -> Array:
        point = self._x.copy()
        point[self._free] += z.numpy() - self._start
        if self._product is None:
            point[self._free] = z.numpy()
        return point
