"""hess and hessp as SciPy's users write them: counted, and as the products that a search may use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from unsaddle.objectives.differences import Array


class Products:
    """One or the other, or neither."""

    def __init__(self, hess: Any, hessp: Any, args: tuple[Any, ...]) -> None:
        self._hess, self._hessp, self._args = hess, hessp, args
        self._last: tuple[Array, Any] | None = None
        self.nhev = 0
        self.hess = self._evaluate if callable(hess) else hess
        self.hessp = None if hessp is None else self._multiply

    def at(self, x: Array) -> Callable[[Array], Any] | None:
        """p ↦ ∇²f(x)p; None where neither was given."""
        if callable(self._hess):
            if self._last is None or not np.array_equal(self._last[0], x):
                self.nhev += 1
                self._evaluate(x)
            assert self._last is not None
            matrix = self._last[1]
            return lambda p: matrix @ p
        if self._hessp is None:
            return None

        def product(p: Array) -> Any:
            self.nhev += 1
            return self._multiply(x, p)

        return product

    def _evaluate(self, x: Array) -> Any:
        matrix = self._hess(np.copy(x), *self._args)
        self._last = np.copy(x), matrix
        return matrix

    def _multiply(self, x: Array, p: Array) -> Any:
        return self._hessp(np.copy(x), np.copy(p), *self._args)
