"""The oracle: an objective F is sampled, and the frozen F_S that comes out answers at any point.

    F = FiniteSum(loss, features, labels)
    f = F.sample(100, generator)        # the paper's F_S = (1/|S|) Σ_{i∈S} f(·; ξ_i)
    value, grad = f.value_and_grad(x)   # the same samples answer at x and at x + u

Three roles, one each:

- an `Oracle` knows the mathematics of one frozen function and nothing else;
- a `SampledFunction` wraps an oracle, checks what goes in and out, and writes every call in a ledger;
- an `Objective` knows how to draw samples.

A gradient-only method is handed a `SampledFunction`, which has no `hvp`; `SecondOrderFunction` adds it, and is made
only where it was asked for.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from unsaddle import checks
from unsaddle.cost import Cost, Ledger


class Oracle(Protocol):
    """The mathematics of one frozen function. Gradients are read, never written to, by whoever receives them."""

    def value(self, x: Tensor) -> Tensor: ...

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]: ...

    def hvp(self, x: Tensor, v: Tensor) -> Tensor: ...


class SampledFunction:
    """F_S: a frozen function whose every evaluation is counted.

    Args:
        oracle: the mathematics.
        size: |S|, the samples that one evaluation touches.
        ledger: where calls are counted; a new one by default.
    """

    def __init__(self, oracle: Oracle, size: int, ledger: Ledger | None = None) -> None:
        self._oracle = oracle
        self.size = size
        self.ledger = Ledger() if ledger is None else ledger

    @property
    def cost(self) -> Cost:
        """All calls in this function's ledger."""
        return self.ledger.cost

    def value(self, x: Tensor) -> Tensor:
        """F_S(x), as a 0-dimensional tensor."""
        x = checks.point(x)
        value = checks.scalar(self._oracle.value(x), "the objective")
        self.ledger.add_values(self.size)
        return value

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """F_S(x) and ∇F_S(x). The gradient belongs to the function: read it or copy it."""
        x = checks.point(x)
        return self._checked(x, *self._oracle.value_and_grad(x))

    def _checked(self, x: Tensor, value: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
        return checks.scalar(value, "the objective"), self._checked_grad(x, grad)

    def _checked_grad(self, x: Tensor, grad: Tensor) -> Tensor:
        grad = checks.vector_like(grad, x, "the gradient")
        self.ledger.add_gradient(self.size)
        if grad.untyped_storage().data_ptr() == x.untyped_storage().data_ptr():
            grad = grad.clone()  # ∇(½‖x‖²) may come back as x itself, which the caller is free to change.
        return grad

    def gradient_error(self, value: float, grad_norm: float) -> float:
        """What the oracle knows of its gradients' error beyond rounding, given f and ‖∇f‖ at a point; 0 for most."""
        known = getattr(self._oracle, "gradient_error", None)
        return 0.0 if known is None else float(known(value, grad_norm))

    def grad(self, x: Tensor) -> Tensor:
        """∇F_S(x)."""
        return self.grad_at_sum(x, None)

    @property
    def adds(self) -> bool:
        """Whether the oracle forms x + scale·u in memory of its own, as a model does, so that nobody else has to."""
        return hasattr(getattr(self, "_oracle", None), "value_and_grad_at_sum")

    def value_and_grad_at_sum(self, x: Tensor, u: Tensor, scale: float = 1.0) -> tuple[Tensor, Tensor]:
        """F_S and ∇F_S at x + scale·u."""
        if not self.adds:
            return self.value_and_grad(torch.add(x, u, alpha=scale))
        x = checks.point(x)
        return self._checked(x, *self._oracle.value_and_grad_at_sum(x, u, scale))  # type: ignore[attr-defined]

    def grad_at_sum(self, x: Tensor, u: Tensor | None, scale: float = 1.0) -> Tensor:
        """∇F_S at x + scale·u, or at x: where the value takes a message to other ranks, that is left out."""
        alone = getattr(getattr(self, "_oracle", None), "grad_at_sum", None)
        if alone is not None:
            x = checks.point(x)
            return self._checked_grad(x, alone(x, u, scale))
        return (self.value_and_grad(x) if u is None else self.value_and_grad_at_sum(x, u, scale))[1]

    def add_grad_at_sum(
        self,
        out: Tensor,
        x: Tensor,
        u: Tensor | None,
        scale: float = 1.0,
        *,
        subtract: bool = False,
        afresh: bool = False,
    ) -> Tensor:
        """Add ∇F_S at x + scale·u, or at x, to `out`, or subtract it, and return `out`, which may be u.

        A model's gradient adds up in `out` as it is computed, and takes no vector of its own.

        Args:
            out: what is added to; of no use any more if this raises.
            x, u, scale: where; with a u that is `out`, what that was before.
            subtract: whether to subtract.
            afresh: whether `out` counts as zero.
        """
        add = getattr(getattr(self, "_oracle", None), "add_grad_at_sum", None)
        sign = -1.0 if subtract else 1.0
        if add is not None:
            x = checks.point(x)
            add(checks.vector_like(out, x, "out"), x, u, scale, sign, afresh)
            self.ledger.add_gradient(self.size)
            return out
        grad = self.grad_at_sum(x, u, scale)
        return out.copy_(grad).mul_(sign) if afresh else out.add_(grad, alpha=sign)


class SecondOrderFunction(SampledFunction):
    """F_S with Hessian products, for the second-order methods that NEON is compared with."""

    def hvp(self, x: Tensor, v: Tensor) -> Tensor:
        """∇²F_S(x)v."""
        x = checks.point(x)
        v = checks.vector_like(v, x, "v")
        product = checks.vector_like(self._oracle.hvp(x, v), x, "the Hessian product")
        self.ledger.add_hessian_product(self.size)
        return product


@runtime_checkable
class Objective(Protocol):
    """Anything that can be sampled."""

    @property
    def num_samples(self) -> int | None:
        """n of a finite sum, 1 for a plain function, None where samples never run out."""

    def sample(
        self,
        size: int | None = None,
        generator: torch.Generator | None = None,
        *,
        replacement: bool = False,
        hessian: bool = False,
        ledger: Ledger | None = None,
    ) -> SampledFunction:
        """Draw and freeze F_S.

        Args:
            size: |S|; None for everything, where that exists.
            generator: the randomness. Needed when there is something to draw.
            replacement: draw independent samples, as the theory does, rather than distinct ones.
            hessian: give the result an `hvp`.
            ledger: where its evaluations are counted; a new one by default.
        """


def freeze(oracle: Oracle, size: int, hessian: bool, ledger: Ledger | None) -> SampledFunction:
    """The sampled function with just the capabilities that were asked for."""
    return (SecondOrderFunction if hessian else SampledFunction)(oracle, size, ledger)
