"""fun and jac as SciPy's users write them: checked, counted, and with the last gradients remembered."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from unsaddle.objectives import differences
from unsaddle.objectives.differences import Array, Scheme
from unsaddle.objectives.numpy_function import number

REMEMBERED = 8
"""Gradients kept, so that the one at the point where SciPy stops need not be taken again."""

DIFFERENCES: dict[Any, Scheme] = {
    None: "2-point",
    False: "2-point",
    "2-point": "2-point",
    "3-point": "3-point",
    "cs": "cs",
}


class CountedFunction:
    """The function that SciPy minimises, within bounds.

    SciPy is given `value`, `gradient` or `both`; whoever probes calls `probe_value` and `probe_gradient`, which alone
    count in `nfev` and `njev`, since SciPy counts its own.

    Args:
        fun: `fun(x, *args) -> float`, or `(float, gradient)` with `jac=True`.
        jac: `jac(x, *args) -> gradient`, True, None or False for SciPy's one-sided differences, or "2-point",
            "3-point" or "cs".
        args: further arguments of both.
        lower, upper: the bounds, infinite where there are none.
    """

    def __init__(self, fun: Callable[..., Any], jac: Any, args: tuple[Any, ...], lower: Array, upper: Array) -> None:
        if not callable(fun):
            raise TypeError(f"fun must be a callable, got {type(fun).__name__}")
        if not (callable(jac) or jac is True or jac in DIFFERENCES):
            raise ValueError(f"jac must be a callable, True, None, '2-point', '3-point' or 'cs', got {jac!r}")
        self._fun, self._args, self.lower, self.upper = fun, args, lower, upper
        self._jac = jac
        self.differences: Scheme | None = None if callable(jac) or jac is True else DIFFERENCES[jac]
        self._remembered: deque[tuple[Array, float, Array]] = deque(maxlen=REMEMBERED)
        self._first: tuple[Array, float] | None = None
        self.nfev = self.njev = 0

    @property
    def scipy_functions(self) -> tuple[Callable[[Array], Any], Any]:
        """What SciPy is given as fun and jac."""
        if self._jac is True:
            return self.both, True
        return self.value, self._jac if self.differences else self.gradient

    def begin(self, x: Array) -> tuple[float, Array | None]:
        """f(x) and, unless they are differences or there is no f(x), ∇f(x), which SciPy will be given from memory."""
        if self._jac is True:
            return self.both(x)
        value = float(self.value(x))
        self.nfev += 1  # Until SciPy asks for it, and counts it as its own.
        self._first = np.copy(x), value
        return value, None if self.differences or np.isnan(value) else self.gradient(x)

    def value(self, x: Array) -> Any:
        """f(x); complex at a complex x, which SciPy's "cs" asks for."""
        if self._first is not None and np.array_equal(self._first[0], x):
            value, self._first = self._first[1], None
            self.nfev -= 1
            return value
        result = self._fun(np.copy(x), *self._args)
        if np.iscomplexobj(x):
            return np.asarray(result).item()
        return number(_pair(result)[0] if self._jac is True else result)

    def both(self, x: Array) -> tuple[float, Array]:
        """f(x) and ∇f(x) of a function that returns both."""
        known = self._recall(x)
        if known is not None:
            return known[1], known[2].copy()
        result, grad = _pair(self._fun(np.copy(x), *self._args))
        value = number(result)
        return value, self._remember(x, grad, value)

    def gradient(self, x: Array) -> Array:
        """∇f(x)."""
        if self._jac is True:
            return self.both(x)[1]
        known = self._recall(x)
        return self._remember(x, self._jac(np.copy(x), *self._args)) if known is None else known[2].copy()

    def probe_value(self, x: Array) -> Any:
        """f(x), counted as ours."""
        self.nfev += 1
        return self.value(x)

    def probe_gradient(self, x: Array) -> Array:
        """∇f(x), counted as ours, unless it is remembered."""
        known = self._recall(x)
        if known is not None:
            return known[2]
        self.njev += 1
        self.nfev += self._jac is True
        if self.differences is None:
            return self.gradient(x)
        by_values = differences.gradient(self.probe_value, x, self.differences, self.lower, self.upper)
        return self._remember(x, by_values)

    def inside(self, x: Array) -> bool:
        """Whether x is within the bounds."""
        return bool(np.all(x >= self.lower) and np.all(x <= self.upper))

    def _recall(self, x: Array) -> tuple[Array, float, Array] | None:
        return next((known for known in self._remembered if np.array_equal(known[0], x)), None)

    def _remember(self, x: Array, grad: Any, value: float = np.nan) -> Array:
        array = np.atleast_1d(np.array(grad, dtype=np.float64))
        if array.shape != x.shape:
            raise ValueError(
                f"jac must return an array of the shape of x, {x.shape}, got {array.shape}; "
                "return one partial derivative for each variable, e.g. with .ravel()"
            )
        self._remembered.append((np.copy(x), value, array))
        return array.copy()  # Some of SciPy's methods write into what they are given.


def _pair(result: Any) -> tuple[Any, Any]:
    if not (isinstance(result, (tuple, list)) and len(result) == 2):
        raise TypeError(f"with jac=True, fun must return (value, gradient), got {type(result).__name__}")
    return result[0], result[1]
