"""The problems that methods are compared on, each with a check of its own that a run has no part in.

A case says where a run starts, what counts as arrival, and how F, its gradient and its Hessian are computed exactly.
These are written out here, apart from the objective that the methods sample, so that arrival is judged by other code
than the one that is being judged, and at no cost to the run.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from unsaddle import FiniteSum, Stream
from unsaddle.objective import Objective
from unsaddle.problems import Problem, matrix_sensing, saddle_chain, sigmoid_least_squares

DATA = ("phishing", "mushrooms", "a9a", "w8a")
ROWS = 10_000
"""At most so many rows of a data set are used, drawn once with seed 0."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One problem, with the question that is asked about it."""

    name: str
    objective: Objective
    start: Callable[[int], Tensor]
    """x0 of a seed."""
    value: Callable[[Tensor], float]
    gradient: Callable[[Tensor], Tensor]
    hessian: Callable[[Tensor], Tensor]
    """Of F, exactly."""
    eps: float
    gamma: float
    max_samples: int
    """Of one run: component gradients, values and Hessian products together."""

    def is_reached(self, x: Tensor) -> bool:
        """‖∇F(x)‖ ≤ ε and λ_min(∇²F(x)) ≥ −γ."""
        if not float(self.gradient(x).norm()) <= self.eps:
            return False
        return float(torch.linalg.eigvalsh(self.hessian(x))[0]) >= -self.gamma


# --- Known problems ---------------------------------------------------------------------------------------------------


def chain() -> Case:
    """The chain of saddles itself: one function, so that a sample is a gradient of F."""
    problem = saddle_chain(length=10)
    return _case("chain", problem, problem.objective, eps=1e-2, gamma=0.1, max_samples=20_000)


def noisy_chain() -> Case:
    """The chain with noise in every gradient: f(x; ξ) = F(x) + ξᵀx, ξ ~ N(0, I/d), so that V = 1 everywhere."""
    problem = saddle_chain(length=10)
    d = problem.dimension
    f = problem.objective.sample(hessian=True)

    def loss(x: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        value, grad = f.value_and_grad(x)
        mean = noise.mean(dim=0)
        return value + mean @ x, grad + mean

    def draw(size: int, generator: torch.Generator) -> tuple[Tensor]:
        return (torch.randn(size, d, generator=generator, dtype=torch.float64) / d**0.5,)

    stream = Stream(loss, draw, gradient=True, hvp=lambda x, v, _: f.hvp(x, v))  # type: ignore[attr-defined]
    return _case("noisy chain", problem, stream, eps=0.05, gamma=0.1, max_samples=500_000)


def sensing() -> Case:
    """Matrix sensing from 0, where the gradients of all components vanish."""
    problem = matrix_sensing(size=15, rank=3, measurements=3000)
    return _case("matrix sensing", problem, problem.objective, eps=1e-2, gamma=0.1, max_samples=600_000)


def phases() -> Case:
    """Phase retrieval from 0 with errors ~ N(0, 1) in the squares: noise vanishes at the start, and not at the end."""
    n, d = 5000, 30
    random = torch.Generator().manual_seed(0)
    A = torch.randn(n, d, generator=random, dtype=torch.float64)
    target = torch.randn(d, generator=random, dtype=torch.float64)
    squares = (A @ target / target.norm()) ** 2 + torch.randn(n, generator=random, dtype=torch.float64)

    def value_and_grad(x: Tensor, A: Tensor, squares: Tensor) -> tuple[Tensor, Tensor]:
        z = torch.mv(A, x)
        residuals = z * z - squares
        return 0.25 * residuals.square().mean(), torch.mv(A.T, residuals * z) / len(z)

    def hvp(x: Tensor, v: Tensor, A: Tensor, squares: Tensor) -> Tensor:
        z = torch.mv(A, x)
        return torch.mv(A.T, (3.0 * z * z - squares) * torch.mv(A, v)) / len(z)

    return Case(
        name="noisy phases",
        objective=FiniteSum(value_and_grad, A, squares, gradient=True, hvp=hvp),
        start=lambda seed: torch.zeros(d, dtype=torch.float64),
        value=lambda x: 0.25 * float((((A @ x) ** 2 - squares) ** 2).mean()),
        gradient=lambda x: A.T @ (((A @ x) ** 2 - squares) * (A @ x)) / n,
        hessian=lambda x: (A.T * (3.0 * (A @ x) ** 2 - squares)) @ A / n,
        eps=1e-2,
        gamma=0.1,
        max_samples=1_000_000,
    )


def _case(name: str, problem: Problem, objective: Objective, *, eps: float, gamma: float, max_samples: int) -> Case:
    f = problem.objective.sample(hessian=True)
    basis = torch.eye(problem.dimension, dtype=problem.dtype)

    def hessian(x: Tensor) -> Tensor:
        columns = torch.stack([f.hvp(x, e) for e in basis])  # type: ignore[attr-defined]
        return (columns + columns.T) / 2.0

    return Case(
        name=name,
        objective=objective,
        start=lambda seed: problem.saddles[0].point.clone(),
        value=lambda x: float(f.value(x)),
        gradient=lambda x: f.grad(x),
        hessian=hessian,
        eps=eps,
        gamma=gamma,
        max_samples=max_samples,
    )


# --- Real data --------------------------------------------------------------------------------------------------------


def rows_of(name: str, folder: Path) -> tuple[Tensor, Tensor]:
    """Features, dense, and labels in {0, 1}; at most `ROWS` rows."""
    file = np.load(folder / f"{name}.npz")
    n, d = (int(k) for k in file["shape"])
    features = np.zeros((n, d))
    rows = np.repeat(np.arange(n), np.diff(file["indptr"]))
    features[rows, file["indices"].astype(np.int64)] = file["data"]
    labels = (file["y"] == file["y"].max()).astype(np.float64)
    if n > ROWS:
        kept = np.random.default_rng(0).choice(n, ROWS, replace=False)
        features, labels = features[kept], labels[kept]
    return torch.from_numpy(features), torch.from_numpy(labels)


def sigmoid(name: str, folder: Path) -> Case:
    """The paper's function, Σ_j x_j²/(1 + x_j²) + (3/n) Σ_i (b_i − σ(xᵀa_i))², from x0 ~ N(0, I)."""
    A, b = rows_of(name, folder)
    n, d = A.shape

    def slopes(x: Tensor) -> tuple[Tensor, Tensor]:
        p = torch.sigmoid(A @ x)
        return p, p * (1.0 - p)

    def value(x: Tensor) -> float:
        return float((x**2 / (1 + x**2)).sum() + 3.0 * ((b - slopes(x)[0]) ** 2).mean())

    def gradient(x: Tensor) -> Tensor:
        p, dp = slopes(x)
        return 2 * x / (1 + x**2) ** 2 + 6.0 / n * (A.T @ ((p - b) * dp))

    def hessian(x: Tensor) -> Tensor:
        p, dp = slopes(x)
        weights = 6.0 / n * (dp**2 + (p - b) * dp * (1.0 - 2.0 * p))
        return torch.diag((2 - 6 * x**2) / (1 + x**2) ** 3) + (A.T * weights) @ A

    return Case(
        name=f"sigmoid, {name}",
        objective=sigmoid_least_squares(A, b).objective,
        start=lambda seed: torch.randn(d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64),
        value=value,
        gradient=gradient,
        hessian=hessian,
        eps=1e-2,
        gamma=0.1,
        max_samples=1_000_000,
    )


def product(name: str, folder: Path) -> Case:
    """Least squares with weights u∘v, (1/n) Σ_i (a_iᵀ(u∘v) ± 1)², from 0, where all components' gradients vanish."""
    A, labels = rows_of(name, folder)
    b = 2.0 * labels - 1.0
    n, p = A.shape
    M, g, constant = 2.0 / n * (A.T @ A), 2.0 / n * (A.T @ b), float((b**2).mean())

    def value(x: Tensor) -> float:
        w = x[:p] * x[p:]
        return float(0.5 * w @ M @ w - g @ w) + constant

    def gradient(x: Tensor) -> Tensor:
        u, v = x[:p], x[p:]
        slope = M @ (u * v) - g
        return torch.cat([slope * v, slope * u])

    def hessian(x: Tensor) -> Tensor:
        u, v = x[:p], x[p:]
        slope = torch.diag(M @ (u * v) - g)
        cross = v[:, None] * M * u + slope
        return torch.cat(
            [torch.cat([v[:, None] * M * v, cross], dim=1), torch.cat([cross.T, u[:, None] * M * u], dim=1)]
        )

    return Case(
        name=f"u∘v, {name}",
        objective=FiniteSum(_product_gradient, A, b, gradient=True, hvp=_product_hvp),
        start=lambda seed: torch.zeros(2 * p, dtype=torch.float64),
        value=value,
        gradient=gradient,
        hessian=hessian,
        eps=1e-2,
        gamma=0.05,
        max_samples=1_000_000,
    )


def _product_gradient(x: Tensor, A: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    u, v = x.chunk(2)
    residuals = torch.mv(A, u * v) - b
    slope = torch.mv(A.T, residuals) * (2.0 / len(b))
    return residuals.square().mean(), torch.cat([slope * v, slope * u])


def _product_hvp(x: Tensor, direction: Tensor, A: Tensor, b: Tensor) -> Tensor:
    (u, v), (p, q) = x.chunk(2), direction.chunk(2)
    slope = torch.mv(A.T, torch.mv(A, u * v) - b) * (2.0 / len(b))
    change = torch.mv(A.T, torch.mv(A, u * q + v * p)) * (2.0 / len(b))
    return torch.cat([change * v + slope * q, change * u + slope * p])


KNOWN = {"chain": chain, "noisy chain": noisy_chain, "matrix sensing": sensing, "noisy phases": phases}


def names(data: Path | None) -> list[str]:
    """Of all cases; those on real data only where the data are."""
    found = [name for name in DATA if data is not None and (data / f"{name}.npz").exists()]
    return [*KNOWN, *(f"sigmoid, {name}" for name in found), *(f"u∘v, {name}" for name in found)]


@functools.lru_cache(maxsize=2)
def case(name: str, data: Path | None) -> Case:
    """The case of that name; a process keeps the last two, as runs come in order."""
    if name in KNOWN:
        return KNOWN[name]()
    kind, file = name.split(", ")
    assert data is not None
    return (sigmoid if kind == "sigmoid" else product)(file, data)
