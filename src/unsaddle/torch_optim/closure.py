"""A training step's closure as an objective: one frozen batch, evaluated at any point without side effects."""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook

from unsaddle import checks, ranks, vectors
from unsaddle.objective import Oracle
from unsaddle.objectives import derivatives
from unsaddle.objectives.model.parameters import FlatParameters, OverParameters
from unsaddle.objectives.model.replay import Replayed
from unsaddle.objectives.model.rng import RandomState
from unsaddle.torch_optim.batch import Signed

Closure = Callable[[], Any]
"""Sets gradients to zero, computes the loss, calls `.backward()`, returns the loss."""

SAME_VALUE, SAME_NORM = 1e-4, 1e-2
"""Relative differences allowed between two calls, in the loss and in the norm of its gradient. The rounding of devices
that add in any order is far below, the difference between batches far above."""


class ClosureObjective(OverParameters):
    """A closure's loss as a function of the parameters, for one batch, one draw of dropout and one set of buffers.

    The first evaluation finds the modules that run, so that their buffers can be restored. `check` costs one gradient.
    The next gradient at the same point then shows whether the closure answers the same twice.

    Args:
        closure: as for `Optimizer.step`. Every call has to use the same batch.
        flat: the parameters.
        sign: −1 for the negative of the loss.

    >>> layer = torch.nn.Linear(1, 1)
    >>> def closure():
    ...     layer.zero_grad()
    ...     loss = layer(torch.ones(1, 1)).square().mean()
    ...     loss.backward()
    ...     return loss
    >>> f = ClosureObjective(closure, FlatParameters(layer.parameters())).sample()
    >>> value, grad = f.value_and_grad(torch.tensor([1.0, 2.0]))
    >>> float(value), grad.tolist(), layer.weight.grad
    (9.0, [6.0, 6.0], None)
    """

    num_samples = 1

    def __init__(self, closure: Closure, flat: FlatParameters, sign: float = 1.0) -> None:
        if not callable(closure) or isinstance(closure, type):
            wanted = "a closure that sets gradients to zero, computes the loss, calls backward and returns the loss"
            raise TypeError(f"expected {wanted}, got {type(closure).__name__}")
        derivatives.check_callable(closure, "a closure", [])
        self.parameters = flat
        self._oracle, self.sign = _ClosureOracle(closure, flat), sign

        self.check = self._oracle.check

    @property
    def evaluations(self) -> int:
        """Calls of the closure. Each costs a gradient, also where only a value was wanted."""
        return self._oracle.evaluations

    def _draw(self, size: int | None, generator: torch.Generator | None, replacement: bool) -> tuple[Oracle, int]:
        """Always the closure's own batch."""
        return (self._oracle if self.sign > 0.0 else Signed(self._oracle, self.sign)), 1


class _ClosureOracle(Oracle):
    """Has no cheap value: a closure always calls backward."""

    adds = True
    _name = "a closure"

    def __init__(self, closure: Closure, flat: FlatParameters) -> None:
        self.evaluations = 0
        self._closure, self._flat, self._start = closure, flat, RandomState.capture({flat.device})
        self._modules: list[nn.Module] | None = None
        self._again: Replayed | None = None
        self._first: tuple[float, float] | None = None

    def check(self) -> None:
        """Evaluates the closure at the parameters. Raises ValueError if it does not call backward or is not finite."""
        loss, grad = self.value_and_grad_at_sum(self._flat.remembered(), None, 0.0)
        self._first = float(loss), vectors.norm(grad)
        if not all(math.isfinite(number) for number in self._first):
            raise ValueError(
                f"the closure returned a loss of {self._first[0]} with a gradient of norm {self._first[1]} at the "
                "current parameters: expected finite numbers; there is nothing to probe here"
            )

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        value, grad = self.value_and_grad_at_sum(x, None, 0.0)
        if self._first is not None and x.data_ptr() == self._flat.remembered().data_ptr():
            (before, norm_before), now, norm = self._first, float(value), vectors.norm(grad)
            if abs(now - before) > SAME_VALUE * abs(now) or abs(norm - norm_before) > SAME_NORM * norm:
                raise ValueError(
                    f"the closure changes its batch: called twice at the same parameters it returned {before:.8g} and "
                    f"{now:.8g}, with gradients of norm {norm_before:.4g} and {norm:.4g}; fetch the batch outside of "
                    "it, so that every call means the same samples (draws from torch's global generator are replayed)"
                )
            self._first = None
        return value, grad

    def grad_at_sum(self, x: Tensor, u: Tensor | None, scale: float) -> Tensor:
        if u is None or self._replayed is None:
            return super().grad_at_sum(x, u, scale)
        self.evaluations += 1
        return self._replayed.grad_at_sum(x, u, scale)

    def value_and_grad_at_sum(self, x: Tensor, u: Tensor | None, scale: float) -> tuple[Tensor, Tensor]:
        self.evaluations += 1
        if self._replayed is not None:
            return self._replayed.value_and_grad_at_sum(x, u, scale)
        seen: dict[int, nn.Module] = {}
        with _discovery(seen):
            value, grad = self._replay([]).value_and_grad_at_sum(x, u, scale)
        self._modules = list(seen.values())
        return value, grad

    @property
    def _replayed(self) -> Replayed | None:
        """All evaluations after the first one, which found the modules. Made when it is asked for: many need one."""
        if self._again is None and self._modules is not None:
            self._again = self._replay(self._modules)
        return self._again

    def held(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext() if self._replayed is None else self._replayed.held()

    def _replay(self, modules: list[nn.Module]) -> Replayed:
        closure, team = self._closure, ranks.current()

        def run(backward: bool) -> Tensor:
            return checks.scalar(closure(), "the closure")

        return Replayed(run, self._flat, modules, start=self._start, what="the closure", ranks=team)


@contextlib.contextmanager
def _discovery(seen: dict[int, nn.Module]) -> Iterator[None]:
    """Notes in `seen` every module that runs inside, and restores its buffers: an optimizer knows only parameters."""
    saved: list[tuple[Tensor, Tensor]] = []

    def note(module: nn.Module, args: Any) -> None:
        for child in module.modules():  # Inside a compiled module, children are called without hooks.
            if id(child) not in seen:
                seen[id(child)] = child
                saved.extend((b, b.detach().clone()) for b in child.buffers(recurse=False))

    handle = register_module_forward_pre_hook(note)
    try:
        with warnings.catch_warnings():
            # torch warns that the hook fires twice for a compiled module. Once is enough.
            warnings.filterwarnings("ignore", message="Using `torch.compile.* when there are global hooks")
            yield
    finally:
        handle.remove()
        for buffer, content in saved:
            buffer.data.copy_(content)
