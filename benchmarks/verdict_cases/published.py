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
from unsaddle import Function, numpy_function
from unsaddle.objective import Objective

Array = np.ndarray[Any, np.dtype[np.float64]]
Derivative = Callable[[Array], Array]

POINTS = 12
"""Stationary points of each kind of function. Further indices take them again, with another seed."""


def newton(
    gradient: Derivative, hessian: Derivative, x: Array, steps: int = 60, *, uphill: bool = False
) -> Array | None:
    """A stationary point near x, minimum or saddle, by short Newton steps; None if they do not arrive.

    `uphill` leads to a saddle: against the gradient along all eigenvectors but the lowest one.
    """
    for _ in range(steps):
        g, (values, basis) = gradient(x), np.linalg.eigh(hessian(x))
        size = np.abs(values).max()
        if not np.isfinite(g).all() or size == 0.0:
            return None
        kept = np.abs(values) > 1e-7 * size  # Rigid motions stay as they are.
        if uphill:
            values = np.abs(values)
            values[np.argmax(kept)] *= -1.0
        step = -(basis[:, kept] @ ((basis[:, kept].T @ g) / values[kept]))
        length, most = np.linalg.norm(step), 0.1 * max(1.0, float(np.linalg.norm(x)))
        x = x + step * min(1.0, most / length) if length > 0.0 else x
        if length <= 1e-13 * max(1.0, float(np.linalg.norm(x))):
            break
    # It has arrived if rounding is all that is left.
    return x if np.linalg.norm(gradient(x)) <= 1e-9 * size * max(1.0, float(np.linalg.norm(x))) else None


def descended(fun: Callable[[Array], float], gradient: Derivative, hessian: Derivative, x: Array) -> Array | None:
    """A minimum: SciPy's BFGS, then Newton."""
    from scipy.optimize import minimize

    return newton(gradient, hessian, minimize(fun, x, jac=gradient, method="BFGS").x)


def derivatives(loss: Callable[[Tensor], Tensor]) -> tuple[Callable[[Array], float], Derivative, Derivative]:
    """A loss, its gradient and its Hessian, for arrays."""
    grad, hess = torch.func.grad(loss), torch.func.hessian(loss)

    def array(of: Callable[[Tensor], Tensor]) -> Derivative:
        return lambda x: of(torch.from_numpy(x)).detach().numpy()

    return lambda x: float(loss(torch.from_numpy(x))), array(grad), array(hess)


def by_differences(gradient: Derivative, x: Array, width: float = 1e-4) -> Array:
    """The Hessian by central differences of fourth order: good to 1e-10 of its size, where the width is 1."""
    rows = []
    for e in np.eye(x.size) * width * max(1.0, float(np.abs(x).max())):
        near, far = gradient(x + e) - gradient(x - e), gradient(x + 2 * e) - gradient(x - 2 * e)
        rows.append((8.0 * near - far) / (12.0 * np.linalg.norm(e)))
    matrix = np.array(rows)
    return (matrix + matrix.T) / 2.0


def _is_saddle(hessian: Array, share: float) -> bool:
    """Whether λ_min is below zero by this share of λ_max."""
    values = np.linalg.eigvalsh(hessian)
    return bool(values[0] < -share * values[-1])


def _case(objective: Objective, x: Tensor, hessian: Array, gradient_norm: float, seed: int) -> Case:
    truth = torch.from_numpy(hessian)
    eigenvalues = torch.linalg.eigvalsh(truth)
    return Case(
        objective=objective,
        x=x,
        lowest=float(eigenvalues[0]),
        largest=float(eigenvalues.abs().max()),
        curvature=lambda v: float(v @ truth @ v),
        gradient_norm=gradient_norm,
        seed=seed,
    )


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
    return _case(objective, point, hessian(here), float(np.linalg.norm(gradient(here))), seed)


def _searched(make: Callable[[torch.Generator], Array | None], name: str, index: int) -> Array:
    """The first start that leads somewhere."""
    for attempt in range(200):
        x = make(randomness(name, 1000 * index + attempt))
        if x is not None:
            return x
    raise RuntimeError(f"no stationary point found for {name} {index}")


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
        return x if x is not None and _is_saddle(rosen_hess(x), 1e-4) else None

    return _searched(make, "rosenbrock", index)


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
        if _is_saddle(hessian(x), 1e-3) == bool(index % 2):
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
        return x if _is_saddle(hessian(x), 1e-3) == bool(index % 2) else None

    return _searched(make, "cluster", index)


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


# --- Networks --------------------------------------------------------------------------------------------------------


def _module(index: int, g: torch.Generator) -> tuple[torch.nn.Module, Tensor]:
    """A network of torch's own layers in float64, and its inputs."""
    with torch.random.fork_rng():
        torch.manual_seed(index)
        smooth = (torch.nn.Tanh, torch.nn.GELU, torch.nn.Softplus, torch.nn.SiLU)[index // 8 % 4]
        if index // 2 % 4 == 0:
            net: torch.nn.Module = torch.nn.Sequential(
                torch.nn.Linear(3, 4), smooth(), torch.nn.Linear(4, 4), smooth(), torch.nn.Linear(4, 1)
            )
            return net.double(), normal(g, 20, 3)
        if index // 2 % 4 == 1:
            net = torch.nn.Sequential(torch.nn.Linear(3, 6), smooth(), torch.nn.Linear(6, 1))
            return net.double(), normal(g, 20, 3)
        if index // 2 % 4 == 2:
            net = torch.nn.Sequential(torch.nn.Conv1d(2, 3, 3), smooth(), torch.nn.Flatten(), torch.nn.Linear(9, 1))
            return net.double(), normal(g, 20, 2, 5)
        net = torch.nn.Sequential(torch.nn.Bilinear(2, 3, 4), smooth(), torch.nn.Linear(4, 1))
        return _Pair(net).double(), normal(g, 20, 5)


class _Pair(torch.nn.Module):
    """`Bilinear` takes two inputs."""

    def __init__(self, net: torch.nn.Sequential) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        first, *rest = self.net
        out = first(x[:, :2], x[:, 2:])
        for layer in rest:
            out = layer(out)
        return out


@functools.cache
def _network_point(index: int) -> tuple[Callable[[Tensor], Tensor], Array]:
    """Mean squared error or logistic loss with a weight decay, and a stationary point."""
    for attempt in range(100):
        g = randomness("network", 1000 * index + attempt)
        net, inputs = _module(index, g)
        labels = normal(g, 20)
        names = [(name, p.shape) for name, p in net.named_parameters()]
        start = torch.cat([p.detach().flatten() for p in net.parameters()])
        loss_of = (
            torch.nn.functional.mse_loss if index // 4 % 2 else torch.nn.functional.binary_cross_entropy_with_logits
        )
        if not index // 4 % 2:
            labels = (labels > 0.0).double()

        def loss(
            x: Tensor,
            net: Any = net,
            inputs: Tensor = inputs,
            labels: Tensor = labels,
            names: Any = names,
            of: Any = loss_of,
        ) -> Tensor:
            parts = x.split([shape.numel() for _, shape in names])
            parameters = {name: part.view(shape) for (name, shape), part in zip(names, parts, strict=True)}
            outputs = torch.func.functional_call(net, parameters, inputs.to(x.dtype))[:, 0]
            return of(outputs, labels.to(x.dtype)) + 0.01 * x.square().sum()

        fun, gradient, hessian = derivatives(loss)
        x0 = start.numpy()
        x = newton(gradient, hessian, x0, uphill=True) if index % 2 else descended(fun, gradient, hessian, 3.0 * x0)
        if x is None:
            continue
        if _is_saddle(hessian(x), 1e-3) == bool(index % 2):
            return loss, x
    raise RuntimeError(f"no stationary point found for network {index}")


def _network(index: int, precision: str, seed: int) -> Case:
    loss, x = _network_point(index)
    point = torch.from_numpy(x).to(DTYPES[precision])
    hessian = torch.func.hessian(loss)(point.double()).detach().numpy()
    norm = float(torch.func.grad(loss)(point.double()).norm())
    return _case(Function(loss), point, hessian, norm, seed)


def published(index: int, precision: str) -> Case:
    """By turns: Rosenbrock (SciPy), a Gaussian process (scikit-learn), a cluster (ASE), a network (torch.nn)."""
    make = (_rosenbrock, _gaussian_process, _lennard_jones, _network)[index // 2 % 4]
    which = 2 * (index // 8 % (POINTS // 2)) + index % 2
    return make(which, precision, index)
