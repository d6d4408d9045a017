"""A question of which the right answer is known, and the random numbers that every family draws.

In bf16 the tensors that the library sees are float32, and what the objective computes with is bfloat16.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from unsaddle import Function, Verdict
from unsaddle.objective import Objective

DTYPES = {"float64": torch.float64, "float32": torch.float32, "bf16": torch.float32}


@dataclass(frozen=True, kw_only=True)
class Case:
    """A question, and what is true."""

    objective: Objective
    x: Tensor
    lowest: float
    """λ_min(∇²F(x))."""
    largest: float
    """max |λ(∇²F(x))|."""
    curvature: Callable[[Tensor], float]
    """v ↦ vᵀ∇²F(x)v for a unit v in float64."""
    gradient_norm: float = 0.0
    """‖∇F(x)‖, of the function that was meant, without rounding."""
    gamma: float | None = None
    samples: int | None = None
    seed: int = 0
    reach: float = math.inf
    """The distance to the nearest kink. Verdicts whose resolution is longer say nothing about the Hessian at x."""
    judge: Callable[[Verdict], str] | None = None
    """A rule of its own, where the Hessian at x is not all that counts: verdict ↦ "right" or "false ..."."""


def randomness(family: str, index: int) -> torch.Generator:
    """The same in every precision, and another for every family."""
    return torch.Generator().manual_seed(1000003 * (index + 1) + sum(family.encode()))


def uniform(g: torch.Generator, low: float, high: float) -> float:
    return low + (high - low) * float(torch.rand((), generator=g, dtype=torch.float64))


def integer(g: torch.Generator, low: int, high: int) -> int:
    return int(torch.randint(low, high + 1, (), generator=g))


def dimension(g: torch.Generator, low: int = 2, high: int = 500) -> int:
    return round(math.exp(uniform(g, math.log(low), math.log(high))))


def normal(g: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=g, dtype=torch.float64)


def rounded(x: Tensor) -> Tensor:
    """To bfloat16 and back."""
    return x.bfloat16().to(x.dtype)


def low_precision(objective: Objective) -> Function:
    """The point and the gradient rounded to bfloat16."""
    f = objective.sample()

    def value_and_grad(x: Tensor) -> tuple[Tensor, Tensor]:
        value, grad = f.value_and_grad(rounded(x))
        return value, rounded(grad)

    return Function(value_and_grad, gradient=True)
