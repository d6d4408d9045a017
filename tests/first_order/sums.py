"""Finite sums with known constants, and an objective that writes down what it was asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from unsaddle import FiniteSum, Function
from unsaddle.cost import Cost, Ledger
from unsaddle.objective import Objective, SampledFunction

DOUBLE = torch.float64


def random(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def bowls(n: int = 200, d: int = 3, spread: float = 1.0, dtype: torch.dtype = DOUBLE) -> FiniteSum:
    """f_i(x) = ½Σ_j a_ij·x_j² − t_iᵀx, with curvatures a_ij between ½ and 1½ and targets of standard deviation
    `spread`."""
    curvatures = 0.5 + torch.rand(n, d, generator=random(1), dtype=DOUBLE)
    targets = spread * torch.randn(n, d, generator=random(2), dtype=DOUBLE)
    return FiniteSum(
        lambda x, a, t: ((0.5 * a * x * x - t * x).sum(dim=1).mean(), (a * x - t).mean(dim=0)),
        curvatures.to(dtype),
        targets.to(dtype),
        gradient=True,
    )


def diagonal(*curvatures: float, dtype: torch.dtype = DOUBLE) -> Function:
    s = torch.tensor(curvatures, dtype=dtype)
    return Function(lambda x: (0.5 * (s * x * x).sum(), s * x), gradient=True)


@dataclass
class Answer:
    """One gradient that was asked for."""

    x: Tensor
    gradient: Tensor
    size: int


@dataclass
class Witness:
    """An objective that counts in one ledger and keeps every gradient that it gave."""

    objective: Objective
    ledger: Ledger = field(default_factory=Ledger)
    answers: list[Answer] = field(default_factory=list)

    @property
    def num_samples(self) -> int | None:
        return self.objective.num_samples

    @property
    def cost(self) -> Cost:
        return self.ledger.cost

    def sample(self, size: int | None = None, generator: torch.Generator | None = None, **how: Any) -> SampledFunction:
        f = self.objective.sample(size, generator, **(how | {"ledger": self.ledger}))
        return f.observed_by(lambda seen: self.answers.append(Answer(seen.point.clone(), seen.grad.clone(), f.size)))
