"""The problems on which methods are compared.

A case says where a run starts, what counts as arrival, and how to compute F, ∇F and λ_min exactly. That exact code is
apart from the objective that the methods sample: it judges the run independently, and costs the run nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from unsaddle.experiments import data_cases
from unsaddle.experiments.case import Case
from unsaddle.objective import Objective
from unsaddle.objectives import FiniteSum, Stream
from unsaddle.problems import Problem, matrix_sensing, saddle_chain

__all__ = ["Case", "case", "known_cases", "names_of_data"]


def chain() -> Case:
    """The chain of saddles without noise: a sample is a gradient of F."""
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
    """Phase retrieval from 0 with errors ~ N(0, 1) in the squares. Noise vanishes at the start, but not at the end."""
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
        dimension=d,
        start=lambda seed: torch.zeros(d, dtype=torch.float64),
        value=lambda x: 0.25 * float((((A @ x) ** 2 - squares) ** 2).mean()),
        gradient=lambda x: A.T @ (((A @ x) ** 2 - squares) * (A @ x)) / n,
        hessian=lambda x: (A.T * (3.0 * (A @ x) ** 2 - squares)) @ A / n,
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
        dimension=problem.dimension,
        start=lambda seed: problem.saddles[0].point.clone(),
        value=lambda x: float(f.value(x)),
        gradient=lambda x: f.grad(x),
        hessian=hessian,
        eps=eps,
        gamma=gamma,
        max_samples=max_samples,
    )


KNOWN: dict[str, Callable[[], Case]] = {
    "chain": chain,
    "noisy chain": noisy_chain,
    "matrix sensing": sensing,
    "noisy phases": phases,
    "sigmoid, digits": lambda: data_cases.sigmoid("digits", *data_cases.digits()),
    "u∘v, digits": lambda: data_cases.product("digits", *data_cases.digits()),
}
"""Cases that need no files."""


def names_of_data(folder: Path | None) -> list[str]:
    """The cases on data sets of a folder, two each."""
    found = [] if folder is None else data_cases.data_sets(folder)
    return [*(f"sigmoid, {name}" for name in found), *(f"u∘v, {name}" for name in found)]


def known_cases(folder: Path | None = None) -> list[str]:
    """All names that `case` takes."""
    return [*KNOWN, *names_of_data(folder)]


def unknown(names: Sequence[str], known: Sequence[str], what: str) -> None:
    """Refuse names that are not known.

    >>> unknown(["chain", "chian"], ["chain"], "problem")
    Traceback (most recent call last):
    ValueError: 'chian' is not a problem; known are: chain
    """
    for name in names:
        if name not in known:
            raise ValueError(f"{name!r} is not a {what}; known are: {'; '.join(known)}")


@functools.lru_cache(maxsize=2)
def case(name: str, folder: Path | None = None) -> Case:
    """The case of that name. A process keeps the last two: runs come problem by problem."""
    unknown([name], known_cases(folder), "problem")
    if name in KNOWN:
        return KNOWN[name]()
    kind, data = name.split(", ", 1)
    assert folder is not None
    return (data_cases.sigmoid if kind == "sigmoid" else data_cases.product)(data, *data_cases.rows_of(data, folder))
