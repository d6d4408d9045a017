"""A problem, the point (ε, γ) that a run must reach, and exact derivatives that judge whether it did."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from unsaddle.objective import Objective


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """One problem, and what counts as arrival: ‖∇F‖ ≤ ε and λ_min(∇²F) ≥ −γ."""

    name: str
    objective: Objective
    """The objective that the methods sample."""
    dimension: int
    start: Callable[[int], Tensor]
    """x0 as a function of the seed."""
    value: Callable[[Tensor], float]
    gradient: Callable[[Tensor], Tensor]
    """∇F, exact."""
    hessian: Callable[[Tensor], Tensor] | None = None
    """∇²F, dense. A case without it has `lowest`."""
    lowest: Callable[[Tensor], float] | None = None
    """λ_min(∇²F) from a formula."""
    eps: float = 1e-2
    gamma: float = 0.1
    max_samples: int = 1_000_000
    """The budget of one run: component gradients, values and Hessian products together."""

    def __post_init__(self) -> None:
        if self.hessian is None and self.lowest is None:
            raise ValueError(f"{self.name} needs a dense hessian or a formula for its lowest curvature")

    def lowest_curvature(self, x: Tensor) -> float:
        """λ_min(∇²F(x))."""
        if self.lowest is not None:
            return self.lowest(x)
        assert self.hessian is not None
        return float(torch.linalg.eigvalsh(self.hessian(x))[0])

    def is_reached(self, x: Tensor) -> bool:
        """‖∇F(x)‖ ≤ ε and λ_min(∇²F(x)) ≥ −γ. False where either is NaN."""
        if not float(self.gradient(x).norm()) <= self.eps:
            return False
        return self.lowest_curvature(x) >= -self.gamma
