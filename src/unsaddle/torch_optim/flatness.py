"""Parameters that the loss does not feel: no gradient and no curvature, so neither a minimum nor a saddle.

Dead ReLUs and saturated sigmoids are the usual case. What tells them from a saddle at which gradients vanish as well is
that the gradients at the probes, next to x, vanish too.
"""

from __future__ import annotations

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.cost import Ledger
from unsaddle.curvature.result import Curvature, Status
from unsaddle.objective import Objective, SampledFunction
from unsaddle.objectives.model.parameters import FlatParameters

FLAT_TENSOR = 1e-5
"""A parameter is flat if its gradient was never above this share of the largest, at x and at all probes."""

FLAT_SHARE = 0.1
"""Flat parameters with so large a share of all numbers make a verdict. The bias of attention's keys, which is flat by
construction, has less."""

FLAT_LOSS = 1e-6
"""All is flat if moving x by its own length would change the loss by less than this share of it."""


class Watched:
    """An objective over a model's parameters that remembers the largest gradient of each.

    Args:
        objective: any.
        flat: its parameters.
    """

    def __init__(self, objective: Objective, flat: FlatParameters) -> None:
        self._objective, self._flat = objective, flat
        self.num_samples = objective.num_samples
        self._largest = torch.zeros(len(flat.tensors), dtype=flat.dtype, device=flat.device)
        self._value: Tensor | None = None

    def sample(
        self,
        size: int | None = None,
        generator: torch.Generator | None = None,
        *,
        replacement: bool = False,
        hessian: bool = False,
        ledger: Ledger | None = None,
    ) -> SampledFunction:
        """A sample of the objective, watched."""
        inner = self._objective.sample(size, generator, replacement=replacement, hessian=hessian, ledger=ledger)
        return _WatchedFunction(inner, self)

    def note(self, value: Tensor | None, grad: Tensor) -> None:
        """Take an evaluation in. The first one with a value is at x."""
        norms = torch.stack(torch._foreach_norm([piece for _, piece in self._flat.pieces(grad)]))
        self._largest = torch.maximum(self._largest, norms)
        self._value = value if self._value is None else self._value

    def all_flat(self, found: Curvature, x: Tensor) -> bool:
        """Whether no parameter changes the loss, as far as gradient and curvature at x tell."""
        reach = max(1.0, vectors.norm(x))
        curvature = found.smoothness if found.smoothness > 0.0 else 0.0  # nan where there was no extraction.
        change = (found.gradient_norm + curvature * reach) * reach
        loss = 0.0 if self._value is None else abs(float(self._value))
        return found.status is Status.FLAT or change <= FLAT_LOSS * loss

    def flat_tensors(self) -> tuple[float, str]:
        """The share of all parameters that is flat, and a sentence on which they are."""
        # Where each rank has seen a part of every gradient, its largest parts stand for those of the largest whole.
        seen = vectors.summed(self._largest.square()).sqrt().tolist()
        sizes = [tensor.numel() for tensor in self._flat.tensors]
        flat = [i for i, norm in enumerate(seen) if norm <= FLAT_TENSOR * max(seen)]
        share = sum(sizes[i] for i in flat) / sum(sizes)
        names = ", ".join(self._flat.names[i] for i in flat[:4]) + (", ..." if len(flat) > 4 else "")
        return share, (
            f"{len(flat)} of {len(sizes)} tensors, {share:.0%} of all parameters, have neither gradient nor curvature "
            f"({names}): dead or saturated units, or parameters that the loss does not depend on; re-initialise them, "
            "or leave them out."
        )

    def sentence(self, found: Curvature, x: Tensor) -> str | None:
        """What to say if enough of the parameters are flat for a verdict; else None."""
        if self.all_flat(found, x):
            return "No parameter changes the loss: dead or saturated units; re-initialise them."
        share, sentence = self.flat_tensors()
        return sentence if share >= FLAT_SHARE else None


class _WatchedFunction(SampledFunction):
    """A sampled function that shows each of its gradients."""

    def __init__(self, inner: SampledFunction, watcher: Watched) -> None:
        self._inner, self._watcher = inner, watcher
        self.size, self.ledger = inner.size, inner.ledger

    def value(self, x: Tensor) -> Tensor:
        return self._inner.value(x)

    @property
    def adds(self) -> bool:
        return self._inner.adds

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        value, grad = self._inner.value_and_grad(x)
        self._watcher.note(value, grad)
        return value, grad

    def value_and_grad_at_sum(self, x: Tensor, u: Tensor, scale: float = 1.0) -> tuple[Tensor, Tensor]:
        value, grad = self._inner.value_and_grad_at_sum(x, u, scale)
        self._watcher.note(value, grad)
        return value, grad

    def grad_at_sum(self, x: Tensor, u: Tensor | None, scale: float = 1.0) -> Tensor:
        grad = self._inner.grad_at_sum(x, u, scale)
        self._watcher.note(None, grad)
        return grad

    def gradient_error(self, value: float, grad_norm: float) -> float:
        return self._inner.gradient_error(value, grad_norm)
