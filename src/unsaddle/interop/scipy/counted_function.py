"""fun, jac, hess and hessp as SciPy's users write them: checked, counted, with the last gradients in memory."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from unsaddle import checks
from unsaddle.objectives import derivatives, differences
from unsaddle.objectives.differences import Array, Scheme
from unsaddle.objectives.numpy_function import number, real_numbers

REMEMBERED = 8
"""Gradients kept in memory, so that the one where SciPy stops is not computed again."""

SCHEMES: dict[Any, Scheme] = {None: "2-point", False: "2-point", "2-point": "2-point", "3-point": "3-point", "cs": "cs"}


class BudgetSpent(Exception):  # noqa: N818  (an outcome, not an error)
    """Raised if a look would call fun more often than `maxfun` allows."""


class CountedFunction:
    """The function that SciPy minimises, within bounds. Every call of fun and jac is counted.

    The arguments are as for SciPy, with infinite bounds where there are none. jac is a callable, True, or a scheme of
    differences; None and False are "2-point".

    Attributes:
        nfev, njev: calls of fun and jac, or differences taken here.
        nhev: Hessians and products for our searches. SciPy counts its own.
        differences: the scheme of differences; None with a gradient.
        lowest: the lowest finite value so far, and its point; both within the bounds. None if there is none.
    """

    def __init__(
        self, fun: Any, jac: Any, args: tuple[Any, ...], lower: Array, upper: Array, hess: Any = None, hessp: Any = None
    ) -> None:
        taken = ("x", *(f"args[{i}]" for i in range(len(args))))
        derivatives.check_callable(fun, "fun", taken)
        if callable(jac):
            derivatives.check_callable(jac, "jac", taken)
        elif not (jac is True or (isinstance(jac, (str, bool, type(None))) and jac in SCHEMES)):
            raise ValueError(f"jac must be a callable, True, None, '2-point', '3-point' or 'cs', got {jac!r}")
        self._fun, self._jac, self._hess, self._hessp, self._args = fun, jac, hess, hessp, args
        self.lower, self.upper = lower, upper
        self.differences: Scheme | None = None if callable(jac) or jac is True else SCHEMES[jac]
        self._remembered: deque[tuple[Array, float, Array]] = deque(maxlen=REMEMBERED)
        self._first: tuple[Array, float] | None = None
        self._last_hessian: tuple[Array, Any] | None = None
        self.nfev = self.njev = self.nhev = 0
        self.lowest: tuple[Array, float] | None = None
        self._most_values = math.inf

    @contextmanager
    def no_more_than(self, values: float) -> Iterator[None]:
        """Inside, a call of fun raises BudgetSpent if `values` have been made. For our looks, not for SciPy's runs."""
        self._most_values = values
        try:
            yield
        finally:
            self._most_values = math.inf

    def for_scipy(self) -> dict[str, Any]:
        """The arguments fun, jac, hess and hessp for SciPy. It takes differences by itself."""
        return {
            "fun": self.both if self._jac is True else self.value,
            "jac": True if self._jac is True else self._jac if self.differences else self.gradient,
            "hess": self._hessian if callable(self._hess) else self._hess,
            "hessp": None if self._hessp is None else self._product,
        }

    def begin(self, x: Array) -> tuple[float, Array | None]:
        """f(x) and, with jac and a finite f(x), ∇f(x). SciPy then gets both from memory."""
        if self._jac is True:
            return self.both(x)
        value = float(self.value(x))
        self._first = np.copy(x), value
        return value, None if self.differences or np.isnan(value) else self.gradient(x)

    def value(self, x: Array) -> Any:
        """f(x); complex at a complex x, as "cs" needs it."""
        if self._first is not None and np.array_equal(self._first[0], x):
            value, self._first = self._first[1], None
            return value
        result = self._called(x)
        if np.iscomplexobj(x):
            return np.asarray(result).item()
        return self._noted(x, number(_pair(result)[0] if self._jac is True else result))

    def both(self, x: Array) -> tuple[float, Array]:
        """f(x) and ∇f(x), with `jac=True`."""
        known = self._recall(x)
        if known is not None:
            return known[1], known[2].copy()
        result, grad = _pair(self._called(x))
        self.njev += 1
        value = self._noted(x, number(result))
        return value, self._remember(x, grad, value)

    def gradient(self, x: Array) -> Array:
        """∇f(x), by differences without jac."""
        known = self._recall(x)
        if known is not None:
            return known[2].copy()
        if self._jac is True:
            return self.both(x)[1]
        self.njev += 1
        if self.differences is None:
            return self._remember(x, checks.called("jac", self._jac, np.copy(x), *self._args))
        return self._remember(x, differences.gradient(self.value, x, self.differences, self.lower, self.upper))

    def products(self, x: Array) -> Callable[[Array], Any] | None:
        """p ↦ ∇²f(x)p; None without hess and hessp."""
        if callable(self._hess):
            known = self._last_hessian
            if known is None or not np.array_equal(known[0], x):
                self.nhev += 1
                known = x, self._hessian(x)
            return lambda p: known[1] @ p
        if self._hessp is None:
            return None

        def product(p: Array) -> Any:
            self.nhev += 1
            return self._product(x, p)

        return product

    @property
    def has_matrix(self) -> bool:
        """Whether `products` are with a Hessian, evaluated once."""
        return callable(self._hess)

    def inside(self, x: Array) -> bool:
        """Whether x is within the bounds."""
        return bool(np.all(x >= self.lower) and np.all(x <= self.upper))

    def _called(self, x: Array) -> Any:
        if self.nfev >= self._most_values:
            raise BudgetSpent
        self.nfev += 1
        return checks.called("fun", self._fun, np.copy(x), *self._args)

    def _noted(self, x: Array, value: float) -> float:
        if math.isfinite(value) and (self.lowest is None or value < self.lowest[1]) and self.inside(x):
            self.lowest = np.copy(x), value
        return value

    def _hessian(self, x: Array) -> Any:
        matrix = checks.called("hess", self._hess, np.copy(x), *self._args)
        self._last_hessian = np.copy(x), matrix
        return matrix

    def _product(self, x: Array, p: Array) -> Any:
        return checks.called("hessp", self._hessp, np.copy(x), np.copy(p), *self._args)

    def _recall(self, x: Array) -> tuple[Array, float, Array] | None:
        return next((known for known in self._remembered if np.array_equal(known[0], x)), None)

    def _remember(self, x: Array, grad: Any, value: float = np.nan) -> Array:
        array = np.atleast_1d(real_numbers(grad, "jac must return an array"))
        if array.shape != x.shape:
            advice = "return one partial derivative for each variable, e.g. with .ravel()"
            raise ValueError(f"jac must return an array of the shape of x, {x.shape}, got {array.shape}; {advice}")
        self._remembered.append((np.copy(x), value, array))
        return array.copy()  # Some of SciPy's methods write into it.


def _pair(result: Any) -> tuple[Any, Any]:
    if not (isinstance(result, (tuple, list)) and len(result) == 2):
        raise TypeError(f"with jac=True, fun must return (value, gradient), got {type(result).__name__}")
    return result[0], result[1]
