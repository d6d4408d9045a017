"""One batch of an objective as an objective of its own, and the sign of what is trained.

A probe works on one frozen batch at a time, whether a closure has it or an objective draws it.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

from unsaddle.objective import Forwarding, Objective, Oracle, SampledFunction, as_objective
from unsaddle.objectives.model.parameters import FlatParameters, OverParameters


class Signed(Oracle):
    """±f, and a count of its evaluations. An optimizer with `maximize=True` minimizes −f."""

    _name = "a model"

    def __init__(self, oracle: Oracle, sign: float) -> None:
        self._oracle, self._sign, self.evaluations = oracle, sign, 0
        self.adds = oracle.adds

    def value(self, x: Tensor) -> Tensor:
        self.evaluations += 1
        return self._oracle.value(x) * self._sign

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        self.evaluations += 1
        return self._with_sign(*self._oracle.value_and_grad(x))

    def value_and_grad_at_sum(self, x: Tensor, u: Tensor, scale: float) -> tuple[Tensor, Tensor]:
        self.evaluations += 1
        return self._with_sign(*self._oracle.value_and_grad_at_sum(x, u, scale))

    def grad_at_sum(self, x: Tensor, u: Tensor | None, scale: float) -> Tensor:
        self.evaluations += 1
        grad = self._oracle.grad_at_sum(x, u, scale)
        return grad if self._sign > 0.0 else -grad

    def add_grad_at_sum(
        self, out: Tensor, x: Tensor, u: Tensor | None, scale: float, weight: float, afresh: bool
    ) -> None:
        self.evaluations += 1
        self._oracle.add_grad_at_sum(out, x, u, scale, self._sign * weight, afresh)

    def gradient_error(self, value: float, grad_norm: float) -> float:
        return self._oracle.gradient_error(value, grad_norm)

    def held(self) -> AbstractContextManager[None]:
        return self._oracle.held()

    def _with_sign(self, value: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
        return (value, grad) if self._sign > 0.0 else (-value, -grad)


class Maximized(Forwarding):
    """The objective −F."""

    def sample(self, size: int | None = None, generator: torch.Generator | None = None, **how: Any) -> SampledFunction:
        return super().sample(size, generator, **how).through(lambda oracle: Signed(oracle, -1.0))


class DrawnBatch(OverParameters):
    """One batch of an objective over a model, drawn when this is made."""

    num_samples = 1

    def __init__(self, objective: OverParameters, samples: int, seed: int, sign: float = 1.0) -> None:
        oracle, _ = objective._draw(samples, torch.Generator().manual_seed(seed), False)
        self.parameters, self.ranks = objective.parameters, objective.ranks
        self._oracle, self.sign = Signed(oracle, sign), sign

    @property
    def evaluations(self) -> int:
        """Gradients and values taken so far."""
        return self._oracle.evaluations

    def check(self) -> None:
        """Nothing to check: the objective is evaluated by the package itself, which has frozen its batch."""

    def _draw(self, size: int | None, generator: torch.Generator | None, replacement: bool) -> tuple[Oracle, int]:
        """Always the same batch."""
        return self._oracle, 1


def trained_part(objective: Objective, trained: list[Tensor]) -> FlatParameters:
    """The parameters that the objective varies. Raises if they are none of the trained ones."""
    over = as_objective(objective)
    flat = over.parameters
    if not isinstance(flat, FlatParameters):
        wanted = "an objective over the parameters that are trained, as ModelObjective(model, loss, data)"
        raise TypeError(f"Neon needs {wanted}, got {over.name}")
    known = {id(p) for p in trained}
    strange = [name for name, p in zip(flat.names, flat.tensors, strict=True) if id(p) not in known]
    if strange:
        advice = "probe the same model, and leave such parameters out with ModelObjective(..., parameters=...)"
        raise ValueError(f"the objective varies {strange[0]!r}, which the optimizer does not train; {advice}")
    return flat
