"""The unconstrained problems of CUTEst, by sif2jax: functions, gradients and Hessians of flat NumPy vectors."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import sys
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

os.environ.setdefault("JAX_PLATFORMS", "cpu")  # Or JAX looks for other devices first.
jax.config.update("jax_enable_x64", True)


def unconstrained() -> tuple[Any, ...]:
    """The list of sif2jax alone: to import all of it builds the constrained problems, too, which takes minutes."""
    found = importlib.util.find_spec("sif2jax")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("this benchmark needs sif2jax; pip install -c constraints.txt -e '.[cutest]'")
    folder = Path(next(iter(found.submodule_search_locations)))
    for name, path in ("sif2jax", folder), ("sif2jax.cutest", folder / "cutest"):
        package = types.ModuleType(name)
        package.__path__ = [str(path)]
        sys.modules.setdefault(name, package)
    problems: tuple[Any, ...] = importlib.import_module(
        "sif2jax.cutest._unconstrained_minimisation"
    ).unconstrained_minimisation_problems
    return problems


Array = NDArray[np.float64]

LARGEST = 1000
SMALLER = 120
"""Where a problem is larger than that and has its number of variables as a parameter, it is taken with this many."""

NUMBERS = frozenset(
    {"k", "scal", "zeta", "alpha", "scale", "extra_term", "objscale"} | {f"kappa{i}" for i in ("", 1, 2, 3)}
)
"""Parameters that may stay as they are when the number of variables is changed."""


class Late(Exception):  # noqa: N818  (an outcome, not an error)
    """The time for one run is over."""


class Timed:
    """One problem: counted, and ended when its time is over."""

    def __init__(self, name: str, problem: Any) -> None:
        self.name = name
        self.x0: Array = np.array(problem.y0, dtype=np.float64)
        args = problem.args

        def objective(x: Any) -> Any:
            return problem.objective(x, args)

        self._both = jax.jit(jax.value_and_grad(objective))
        self._hessian = jax.jit(jax.hessian(objective))
        self.until = np.inf
        self._last: tuple[Array, float, Array] | None = None

    @property
    def dimension(self) -> int:
        return self.x0.size

    def both(self, x: Array) -> tuple[float, Array]:
        if time.process_time() > self.until:
            raise Late
        value, grad = self._both(x)
        self._last = np.copy(x), float(value), np.array(grad)
        return self._last[1], self._last[2].copy()

    def value(self, x: Array) -> float:
        return self.both(x)[0]

    def gradient(self, x: Array) -> Array:
        """∇f(x), from memory if f(x) was the last that was asked for."""
        known = self._last
        return known[2].copy() if known is not None and np.array_equal(known[0], x) else self.both(x)[1]

    def hessian(self, x: Array) -> Array:
        if time.process_time() > self.until:
            raise Late
        return np.array(self._hessian(x))


def problems() -> Iterator[tuple[str, int, Callable[[], Timed]]]:
    """Every problem with at most `LARGEST` variables, or that can be made smaller: name, d, how to make it."""
    seen = set()
    for problem in unconstrained():
        name = type(problem).__name__
        if problem.y0.size > LARGEST:
            fields = {field.name for field in dataclasses.fields(problem) if field.init} - {"y0_iD", "provided_y0s"}
            key = next((key for key in ("n", "_n") if key in fields), None)
            if key is None or fields - {key} - NUMBERS:
                continue
            try:
                problem = type(problem)(**{key: SMALLER})
            except ValueError:  # Some are tabulated for certain numbers of variables only.
                continue
            if problem.y0.size != SMALLER:
                continue
            name += f", n={SMALLER}"
        if name not in seen:
            seen.add(name)
            yield name, problem.y0.size, lambda name=name, problem=problem: Timed(name, problem)
