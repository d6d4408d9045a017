"""Functions and networks that nobody here wrote: SciPy's Rosenbrock function, scikit-learn's Gaussian processes, ASE's
Lennard-Jones clusters, and layers of `torch.nn`, each at a stationary point that Newton's method found in float64.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.verdict_cases.case import DTYPES, Case, integer, normal, randomness, uniform
from benchmarks.verdict_cases.networks import network
from benchmarks.verdict_cases.stationary import (
    Array,
    Derivative,
    dense_case,
    derivatives,
    descended,
    is_saddle,
    newton,
    searched,
)
from unsaddle import Function, numpy_function
from unsaddle.objective import Objective

POINTS = 12
"""Stationary points of each kind of function. Further indices take them again, with another seed."""


def by_differences(gradient: Derivative, x: Array, width: float = 1e-4) -> Array:
    """The Hessian by central differences of fourth order: good to 1e-10 of its size, where the width is 1."""
    rows = []
    for e in np.eye(x.size) * width * max(1.0, float(np.abs(x).max())):
        near, far = gradient(x + e) - gradient(x - e), gradient(x + 2 * e) - gradient(x - 2 * e)
        rows.append((8.0 * near - far) / (12.0 * np.linalg.norm(e)))
    matrix = np.array(rows)
    return (matrix + matrix.T) / 2.0


def _numpy_case(
    fun: Callable[[Array], float],
    gradient: Derivative,
    hessian: Derivative,
    x: Array,
    precision: str,
    seed: int,
) -> Case:
    """In float32 the point, the value and the gradient are rounded to it: the function itself stays as it is."""
    point = torch.from_numpy(x).to(DTYPES[precision])
    objective: Objective = numpy_function(fun, gradient)
    if precision != "float64":

        def rounded(x: Tensor) -> tuple[Tensor, Tensor]:
            y = x.double().numpy()
            return torch.tensor(fun(y), dtype=x.dtype), torch.from_numpy(gradient(y)).to(x.dtype)

        objective = Function(rounded, gradient=True)
    here = point.double().numpy()
    return dense_case(objective, point, hessian(here), float(np.linalg.norm(gradient(here))), seed)


# --- Rosenbrock -----------------------------------------------------------------------------------------------------


@functools.cache
def _rosenbrock_point(index: int) -> Array:
    """A minimum or, for odd indices, a saddle of SciPy's Rosenbrock function in 2 to 30 variables.

    Saddles exist from four variables on (Kok and Sandrock 2009).
    """
    from scipy.optimize import rosen, rosen_der, rosen_hess

    def make(g: torch.Generator) -> Array | None:
        if index % 2 == 0:
            d = integer(g, 2, 30)
            return descended(rosen, rosen_der, rosen_hess, (0.5 * normal(g, d)).numpy())
        x = newton(rosen_der, rosen_hess, (0.7 * normal(g, integer(g, 4, 30))).numpy(), 300)
        return x if x is not None and is_saddle(rosen_hess(x), 1e-4) else None

    return searched(make, "rosenbrock", index)


def _rosenbrock(index: int, precision: str, seed: int) -> Case:
    from scipy.optimize import rosen, rosen_der, rosen_hess

    return _numpy_case(lambda x: float(rosen(x)), rosen_der, rosen_hess, _rosenbrock_point(index), precision, seed)


# --- Gaussian processes ----------------------------------------------------------------------------------------------


@functools.cache
def _process(index: int) -> tuple[Callable[[Array], float], Derivative, Array]:
    """The negative log marginal likelihood of a regression, and a stationary point: 3 or 4 logarithms of lengths."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    for attempt in range(200):
        g = randomness("process", 1000 * index + attempt)
        columns = integer(g, 1, 2)
        inputs = (3.0 * normal(g, 25, columns)).numpy()
        targets = np.sin(inputs).sum(1) + uniform(g, 0.1, 1.0) * normal(g, 25).numpy()
        kernel = ConstantKernel(1.0) * RBF(np.ones(columns)) + WhiteKernel(0.1)
        model = GaussianProcessRegressor(kernel, optimizer=None).fit(inputs, targets)

        def fun(x: Array, model: Any = model) -> float:
            return -float(model.log_marginal_likelihood(x))

        def gradient(x: Array, model: Any = model) -> Array:
            return -model.log_marginal_likelihood(x, eval_gradient=True)[1]

        def hessian(x: Array, gradient: Derivative = gradient) -> Array:
            return by_differences(gradient, x)

        start = normal(g, columns + 2).numpy()
        x = newton(gradient, hessian, start, uphill=True) if index % 2 else descended(fun, gradient, hessian, start)
        if x is None or np.abs(x).max() > 8.0:
            continue
        if is_saddle(hessian(x), 1e-3) == bool(index % 2):
            return fun, gradient, x
    raise RuntimeError(f"no stationary point found for process {index}")


def _gaussian_process(index: int, precision: str, seed: int) -> Case:
    fun, gradient, x = _process(index)
    return _numpy_case(fun, gradient, lambda x: by_differences(gradient, x), x, precision, seed)


# --- Clusters --------------------------------------------------------------------------------------------------------


def _pairs(x: Tensor) -> Tensor:
    """The energy of a Lennard-Jones cluster, for the search and its Hessian. The verdict gets ASE's."""
    first, second = torch.triu_indices(x.numel() // 3, x.numel() // 3, 1)
    atoms = x.view(-1, 3)
    inverse = (atoms[first] - atoms[second]).square().sum(1) ** -3
    return 4.0 * (inverse * inverse - inverse).sum()


@functools.cache
def _cluster(index: int) -> Array:
    """A minimum or, for odd indices, a saddle of 3 to 10 atoms; rigid motions have zero curvature."""

    def make(g: torch.Generator) -> Array | None:
        count = integer(g, 3, 10)
        fun, gradient, hessian = derivatives(_pairs)
        x = descended(fun, gradient, hessian, (0.6 * count ** (1 / 3) * normal(g, 3 * count)).numpy())
        if x is not None and index % 2:
            x = newton(gradient, hessian, x + 0.1 * normal(g, 3 * count).numpy(), uphill=True)
        if x is None or np.abs(x).max() > 10.0:
            return None
        return x if is_saddle(hessian(x), 1e-3) == bool(index % 2) else None

    return searched(make, "cluster", index)


def _lennard_jones(index: int, precision: str, seed: int) -> Case:
    from ase import Atoms
    from ase.calculators.lj import LennardJones

    x = _cluster(index)
    atoms = Atoms(f"Ar{x.size // 3}", calculator=LennardJones(rc=1e3))

    def fun(x: Array) -> float:
        atoms.set_positions(x.reshape(-1, 3))
        return float(atoms.get_potential_energy())

    def gradient(x: Array) -> Array:
        atoms.set_positions(x.reshape(-1, 3))
        return -atoms.get_forces().ravel()

    return _numpy_case(fun, gradient, derivatives(_pairs)[2], x, precision, seed)


def published(index: int, precision: str) -> Case:
    """By turns: Rosenbrock (SciPy), a Gaussian process (scikit-learn), a cluster (ASE), a network (torch.nn)."""
    make = (_rosenbrock, _gaussian_process, _lennard_jones, network)[index // 2 % 4]
    which = 2 * (index // 8 % (POINTS // 2)) + index % 2
    return make(which, precision, index)
