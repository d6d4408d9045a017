"""Functions and gradients written in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unsaddle.checks import called
from unsaddle.objective import Oracle
from unsaddle.objectives import derivatives, differences
from unsaddle.objectives.deterministic import Deterministic
from unsaddle.objectives.differences import Array
from unsaddle.objectives.wrong_gradient import GradientCheck


def numpy_function(fun: Callable[[Array], Any], jac: Callable[[Array], Array] | bool | None = None) -> NumpyFunction:
    """An objective from NumPy code, with SciPy's conventions for `jac`.

    Args:
        fun: `fun(x) -> float`, or `(float, gradient)` with `jac=True`. It gets its own copy of x.
        jac: `jac(x) -> gradient`; True if `fun` returns both; None for central differences, which cost 2d values per
            gradient (all counted) and have an error near 1e-10 instead of 1e-16. A `jac` that is not the gradient of
            `fun` raises a ValueError once two points far enough apart show it.

    >>> f = numpy_function(lambda x: x[0] ** 2 - x[1] ** 2, jac=lambda x: np.array([2 * x[0], -2 * x[1]]))
    >>> f.sample().grad(torch.tensor([1.0, 1.0], dtype=torch.float64)).tolist()
    [2.0, -2.0]
    """
    derivatives.check_callable(fun, "fun", ["x"])
    if callable(jac):
        derivatives.check_callable(jac, "jac", ["x"])
    elif not (jac is None or isinstance(jac, bool)):
        raise TypeError(f"jac must be a callable, True, or None, got {type(jac).__name__}")
    return NumpyFunction(fun, None if jac is False else jac)


class NumpyFunction(Deterministic):
    """The objective that `numpy_function` returns. It needs float64 vectors."""

    def __init__(self, fun: Callable[[Array], Any], jac: Callable[[Array], Array] | bool | None) -> None:
        super().__init__(_NumpyOracle(fun, jac), "a NumPy function")


class _NumpyOracle(Oracle):
    _name = "a NumPy function"

    def __init__(self, fun: Callable[[Array], Any], jac: Callable[[Array], Array] | bool | None) -> None:
        self._fun, self._jac, self._dimension = fun, jac, 1
        self._check = None if jac is None else GradientCheck(self._value)

    def value(self, x: Tensor) -> Tensor:
        return torch.tensor(self._value(_array(x)), dtype=torch.float64)

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        if self._jac is True:
            value, grad = self._both(_array(x))
        else:
            value = self._value(_array(x))
            point = _array(x)  # Again: fun may have written into the first copy.
            self._dimension = point.size
            jac: Any = self._jac
            by_values = jac is None
            grad = differences.gradient(self._value, point, "3-point") if by_values else called("jac(x)", jac, point)
        gradient = _gradient(grad, x)
        if self._check is not None:
            self._check.note(_array(x), value, gradient.cpu().numpy())
        return torch.tensor(value, dtype=torch.float64), gradient

    def gradient_error(self, value: float, grad_norm: float) -> float:
        return differences.rounding_error("3-point" if self._jac is None else None, value, grad_norm, self._dimension)

    def values_for_gradient(self, x: Tensor) -> int:
        if self._check is None:
            return 2 * x.numel()
        values, self._check.values = self._check.values, 0
        return values

    def _both(self, point: Array) -> tuple[float, Any]:
        result = called("fun(x)", self._fun, point)
        if not (isinstance(result, tuple) and len(result) == 2):
            raise TypeError(f"with jac=True, fun must return (value, gradient), got {type(result).__name__}")
        return number(result[0]), result[1]

    def _value(self, point: Array) -> float:
        return self._both(point)[0] if self._jac is True else number(called("fun(x)", self._fun, point))


def _array(x: Tensor) -> Array:
    if x.dtype != torch.float64:
        raise TypeError(f"a NumPy function works in float64, got x in {x.dtype}; use x.double()")
    return x.cpu().numpy().copy()


def number(value: Any) -> float:
    """The result of fun, a number or an array with one element, as a float."""
    if value is None or isinstance(value, (tuple, str)):
        hint = "; pass jac=True if it returns (value, gradient)" if isinstance(value, tuple) else ""
        raise TypeError(f"fun must return a number, got {type(value).__name__}{hint}")
    array = real_numbers(value, "fun must return a number")
    if array.size != 1:
        raise ValueError(f"fun must return a scalar, got an array of shape {array.shape}")
    return float(array.reshape(()))


def real_numbers(value: Any, expected: str) -> Array:
    """A copy of what NumPy code returned, in float64. The error begins with `expected`."""
    try:
        if not np.iscomplexobj(value):
            return np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        pass
    raise TypeError(f"{expected}, got {type(value).__name__} that is no real number or array of them")


def _gradient(grad: Any, x: Tensor) -> Tensor:
    array = real_numbers(grad, "the gradient must be an array")
    if array.shape != tuple(x.shape):
        raise ValueError(f"the gradient must have the shape of x, {tuple(x.shape)}, got {array.shape}")
    return torch.from_numpy(array).to(x.device)
