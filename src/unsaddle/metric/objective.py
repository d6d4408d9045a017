"""The objective in z, x = Sz: what a search in a metric sees."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import torch
from torch import Tensor

from unsaddle import checks
from unsaddle.metric.maps import Map
from unsaddle.objective import Forwarding, Objective, Oracle, SampledFunction


class InMetric(Oracle):
    """z ↦ f(x + S(z − z₀)) for an oracle f, with z₀ = S⁻¹x.

    Sz is never formed: at z₀ the function is evaluated at x itself, and next to it at x plus a displacement, as it
    would be without S. Beside S and z₀ this takes no vector more than f: the displacement makes room for the gradient.
    """

    def __init__(self, oracle: Oracle, scaling: Map, x: Tensor, z: Tensor) -> None:
        self._oracle, self._scaling, self._x, self._z = oracle, scaling, x, z

    def value(self, x: Tensor) -> Tensor:
        return self._oracle.value(self._moved(x).add_(self._x))

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self._there(self._moved(x))

    def value_and_grad_at_sum(self, x: Tensor, u: Tensor, scale: float) -> tuple[Tensor, Tensor]:
        return self._there(self._moved(x, u, scale))

    def grad_at_sum(self, x: Tensor, u: Tensor | None, scale: float) -> Tensor:
        moved = self._moved(x, u, scale)
        self._oracle.add_grad_at_sum(moved, self._x, moved, 1.0, 1.0, True)
        return self._scaling.apply(moved, out=moved)

    def _moved(self, x: Tensor, u: Tensor | None = None, scale: float = 0.0) -> Tensor:
        """S(x + scale·u − z₀), in a new vector."""
        moved = torch.sub(x, self._z)
        if u is not None:
            moved.add_(u, alpha=scale)
        return self._scaling.apply(moved, out=moved)

    def _there(self, moved: Tensor) -> tuple[Tensor, Tensor]:
        value, grad = self._oracle.value_and_grad_at_sum(self._x, moved, 1.0)
        return value, self._scaling.apply(checks.vector_like(grad, moved, "the gradient"), out=moved)

    def hvp(self, x: Tensor, v: Tensor) -> Tensor:
        product = self._oracle.hvp(self._moved(x).add_(self._x), self._scaling.apply(v))
        return self._scaling.apply(checks.vector_like(product, x, "the Hessian product"))

    def gradient_error(self, value: float, grad_norm: float) -> float:
        """An error e of ∇f makes one of Se, at most `largest` times as long; ‖∇f‖ is at least ‖S∇f‖/`largest`."""
        largest = self._scaling.largest
        return largest * self._oracle.gradient_error(value, grad_norm / largest)

    def values_for_gradient(self, x: Tensor) -> int:
        return self._oracle.values_for_gradient(x)

    def held(self) -> AbstractContextManager[None]:
        return self._oracle.held()


class MetricObjective(Forwarding):
    """F(Sz) for an objective F and a map S, around the point z₀ = S⁻¹x. Counts go to the same ledger as those of F.

    >>> from unsaddle import Function
    >>> from unsaddle.metric.maps import diagonal
    >>> F, x = Function(lambda x: x.square().sum() / 2), torch.tensor([3.0, 4.0])
    >>> scaled = MetricObjective(F, diagonal(torch.tensor([0.5, 2.0])), x)
    >>> scaled.point.tolist(), scaled.sample().grad(scaled.point).tolist()
    ([6.0, 2.0], [1.5, 8.0])
    """

    def __init__(self, objective: Objective, scaling: Map, x: Tensor) -> None:
        super().__init__(objective)
        self.scaling, self._x, self._z = scaling, x, scaling.solve(x)
        self.parameters = None  # z is not made of them.

    @property
    def point(self) -> Tensor:
        return self._z

    @property
    def doubles(self) -> bool:
        """The map is in the precision of the caller."""
        return False

    def assign(self, x: Tensor) -> None:
        super().assign(self._x + self.scaling.apply(x - self._z))

    def sample(self, size: int | None = None, generator: torch.Generator | None = None, **how: Any) -> SampledFunction:
        seen = partial(InMetric, scaling=self.scaling, x=self._x, z=self._z)
        return super().sample(size, generator, **how).through(seen)
