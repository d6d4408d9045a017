"""What callers of `Neon` hand in: the closure of a step, counted and checked; and mistakes, with what to write."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from unsaddle.torch_optim.closure import Closure, ClosureObjective
from unsaddle.torch_optim.replicas import Replicas

CANNOT_LOOK = (
    "Neon has seen neither a closure nor an objective, so that it cannot look for saddles: write "
    "Neon(optimizer, objective=unsaddle.ModelObjective(model, loss, data)), or step(closure), or call probe(...)"
)


def what_to_write(optimizer: Any, of_the_base: dict[str, Any]) -> str:
    """What is wrong with the arguments, and the line to write instead."""
    if isinstance(optimizer, Optimizer):
        unknown = ", ".join(of_the_base)
        return f"Neon has no argument {unknown}; pass it to the base, as Neon(torch.optim.AdamW(..., lr=1e-3))"
    got = f"the class {optimizer.__name__}" if isinstance(optimizer, type) else type(optimizer).__name__
    rate = ", ".join(f"{name}={value!r}" for name, value in of_the_base.items()) or "lr=1e-3"
    write = f"write Neon(torch.optim.AdamW(model.parameters(), {rate}))"
    return f"optimizer must be an instance of a torch optimizer, which Neon wraps, got {got}; {write}"


class Collector:
    """Measures a candidate beside the first call of a closure, with the gradient that the base takes anyway."""

    def __init__(
        self, batch: Callable[[], ClosureObjective], measure: Callable[[ClosureObjective, bool], None]
    ) -> None:
        self._make, self._measure = batch, measure
        self._batch: ClosureObjective | None = None
        self._earlier: list[tuple[Tensor, Tensor]] = []

    def before(self) -> None:
        """Before the closure runs: the random numbers that it will draw are those of the probe, too."""
        self._batch = self._make()
        there = [(p, p.grad) for p in self._batch.parameters.tensors if type(p.grad) is Tensor]
        self._earlier = there if any(bool(grad.any()) for _, grad in there) else []

    def after(self) -> None:
        """After it ran: its gradients are in place, and the parameters are where they were taken.

        The measurement is told whether these are the closure's alone. A closure that leaves `.grad` as it was may have
        added to it, as one of the last of several micro batches does.
        """
        assert self._batch is not None
        alone = not any(p.grad is grad for p, grad in self._earlier)
        self._earlier = []
        self._measure(self._batch, alone)


class Counted:
    """The closure as the base calls it. Counts the calls, and checks on the first one that backward was called."""

    def __init__(
        self,
        closure: Closure,
        watched: list[Tensor] | None,
        collector: Collector | None,
        replicas: Replicas | None = None,
    ) -> None:
        self._closure, self.calls, self._watched, self._collector = closure, 0, watched, collector
        self._replicas = replicas

    def _gradients(self) -> list[tuple[Tensor | None, int]]:
        """The tensors themselves, since a new one may get the address of one that is gone."""
        return [(p.grad, -1 if p.grad is None else p.grad._version) for p in self._watched or ()]

    def __call__(self) -> Any:
        before, collector = self._gradients(), self._collector
        self._collector = None
        if collector is not None:
            collector.before()
        with torch.enable_grad(), nullcontext() if self._replicas is None else self._replicas.noted():
            loss = self._closure()
        if self._watched is not None:
            if all(a is b and i == j for (a, i), (b, j) in zip(before, self._gradients(), strict=True)):
                raise ValueError(
                    "the closure did not call backward, or not of a loss of the optimizer's parameters: expected it to "
                    "set gradients to zero, compute the loss, call loss.backward() and return the loss; or leave the "
                    "closure out, and probe(...) when you want to"
                )
            if loss is None:
                warnings.warn(
                    "the closure returned None, so that Neon cannot tell where the loss stops falling and will not "
                    "look: expected it to return the loss; add 'return loss' to it",
                    RuntimeWarning,
                    stacklevel=2,
                )
            self._watched = None
        self.calls += 1
        if collector is not None:
            collector.after()
        return loss
