"""Stationary points of functions that others wrote: found in float64, with the dense Hessian as the truth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.verdict_cases.case import Case, randomness
from unsaddle.objective import Objective

Array = np.ndarray[Any, np.dtype[np.float64]]
Derivative = Callable[[Array], Array]


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


def is_saddle(hessian: Array, share: float) -> bool:
    """Whether λ_min is below zero by this share of λ_max."""
    values = np.linalg.eigvalsh(hessian)
    return bool(values[0] < -share * values[-1])


def dense_case(objective: Objective, x: Tensor, hessian: Array, gradient_norm: float, seed: int) -> Case:
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


def searched(make: Callable[[torch.Generator], Array | None], name: str, index: int) -> Array:
    """The first start that leads somewhere."""
    for attempt in range(200):
        x = make(randomness(name, 1000 * index + attempt))
        if x is not None:
            return x
    raise RuntimeError(f"no stationary point found for {name} {index}")
