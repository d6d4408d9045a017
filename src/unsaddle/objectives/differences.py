"""Gradients from differences of values: one-sided, central, or along the imaginary axis."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Scheme = Literal["2-point", "3-point", "cs"]
"""SciPy's names: forward, central, complex step."""

EPS = float(np.finfo(np.float64).eps)
FORWARD, CENTRAL = float(np.sqrt(EPS)), float(np.cbrt(EPS))
"""SciPy's steps: √ε for one-sided differences, ∛ε·max(1, |x_i|) for central ones."""
IMAGINARY = 1e-40
"""The complex step. It may be this short, because no digits cancel."""


def gradient(
    value: Callable[[NDArray[Any]], Any],
    x: Array,
    scheme: Scheme,
    lower: float | Array = -math.inf,
    upper: float | Array = math.inf,
) -> Array:
    """∇f(x) by differences. Every point that is evaluated is within the bounds.

    Args:
        value: x ↦ f(x). It gets a new array each time.
        x: the point.
        scheme: "2-point": (f(x+h) − f(x))/h towards the farther bound, d + 1 values. "3-point": (f(x+h) − f(x−h))/(2h)
            cut off at the bounds, 2d values. "cs": Im f(x+ih)/h, d values at complex points.
        lower, upper: bounds.

    >>> gradient(lambda x: x[0] ** 2 + 3.0 * x[1], np.array([1.0, 0.0]), "3-point").round(9).tolist()
    [2.0, 3.0]
    """
    if scheme == "cs":
        return np.array([value(_moved(x, i, x[i] + IMAGINARY * 1j)).imag / IMAGINARY for i in range(x.size)])
    size = np.maximum(1.0, np.abs(x))
    if scheme == "3-point":
        above, below = np.minimum(x + CENTRAL * size, upper), np.maximum(x - CENTRAL * size, lower)
    else:
        side = np.where(upper - x >= x - lower, 1.0, -1.0)
        above, below = x + FORWARD * side, x
        above = np.where(above == x, x + FORWARD * side * size, above)  # A large x rounds the step away.
        here = value(x.copy())
    grad = np.empty_like(x)
    for i in range(x.size):
        high = value(_moved(x, i, above[i]))
        low = here if scheme == "2-point" else value(_moved(x, i, below[i]))
        grad[i] = (high - low) / (above[i] - below[i])
    return grad


def rounding_error(scheme: Scheme | None, value: float, grad_norm: float, dimension: int) -> float:
    """The norm of the error that rounding of f makes in a gradient by differences; 0 for other gradients.

    In each component, both values are off by ε|f|, and their difference is divided by their distance.
    """
    if scheme is None or scheme == "cs":
        return 0.0
    step, distance = (FORWARD, FORWARD) if scheme == "2-point" else (CENTRAL, 2.0 * CENTRAL)
    return 2.0 * EPS * (abs(value) + grad_norm * step) / distance * math.sqrt(dimension)


def _moved(x: Array, i: int, to: complex) -> NDArray[Any]:
    """A copy of x with the i-th component changed."""
    point = x.astype(complex) if isinstance(to, complex) else x.copy()
    point[i] = to
    return point
