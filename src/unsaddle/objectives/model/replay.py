"""The oracle of a model: every evaluation is the same run at another point, and leaves no trace."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn

from unsaddle import checks
from unsaddle.objective import Oracle
from unsaddle.objectives.model.accumulation import AddedUp
from unsaddle.objectives.model.distributed import reshard, sharded
from unsaddle.objectives.model.parameters import FlatParameters
from unsaddle.objectives.model.restore import Saved, untouched
from unsaddle.objectives.model.rng import RandomState
from unsaddle.ranks import Ranks

T = TypeVar("T")


class Replayed(Oracle):
    """Oracle of `run(backward) -> value`, which computes a loss and, if `backward`, calls `.backward()` on it.

    Each evaluation starts from the same random numbers and buffers: dropout masks and batch statistics are the same at
    x and at x+u. It runs inside `untouched`: one for each evaluation, or one for all of them inside `held`.

    Args:
        run: the loss at the current parameters; it leaves gradients in `.grad` if `backward` is True.
        flat: the parameters.
        modules: modules to restore afterwards.
        start: states of the random numbers; by default those at the construction.
        skip_hooks: whether to disable gradient hooks of parameters.
        what: the name of `run` in errors.
        ranks: ranks that run it together, each on its own data, and reduce gradients themselves. The value is the mean.
        add: like `run(True)`, but adds its argument times the gradients to `.grad`. None if that is impossible.
    """

    adds = True
    _name = "a model"

    def __init__(
        self,
        run: Callable[[bool], Tensor],
        flat: FlatParameters,
        modules: Sequence[nn.Module] = (),
        *,
        start: RandomState | None = None,
        skip_hooks: bool = True,
        what: str = "the loss",
        ranks: Ranks | None = None,
        add: Callable[[float], Tensor] | None = None,
    ) -> None:
        self._run, self._flat, self._modules, self._what = run, flat, modules, what
        self._start = RandomState.capture({flat.device}) if start is None else start
        self._skip_hooks, self._ranks, self._add = skip_hooks, ranks, add
        self._sharded = sharded(m for module in modules for m in module.modules())
        named = [(name, p) for module in modules for name, p in module.named_parameters()]
        watched = {id(p): (name, p) for name, p in (*named, *zip(flat.names, flat.tensors, strict=True))}
        self._names, self._watched = zip(*watched.values(), strict=True)
        self._saved: Saved | None = None

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Saves the model once, and restores it at the end. On several ranks each evaluation does so itself."""
        if self._saved is not None or self._ranks is not None:
            yield
            return
        with self._untouched() as saved, self._flat.away(saved.home):
            self._saved = saved
            try:
                yield
            finally:
                self._saved = None

    def value(self, x: Tensor) -> Tensor:
        return self._evaluate(x, backward=False)[0]

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.value_and_grad_at_sum(x, None, 0.0)

    def value_and_grad_at_sum(self, x: Tensor, u: Tensor | None, scale: float) -> tuple[Tensor, Tensor]:
        """f and ∇f at x + scale·u, which is formed in the parameters' own memory."""
        return self._evaluate(x, u, scale)

    def grad_at_sum(self, x: Tensor, u: Tensor | None, scale: float) -> Tensor:
        """∇f, without the message that averages the value over the ranks."""
        return self._evaluate(x, u, scale, mean=False)[1]

    def add_grad_at_sum(
        self, out: Tensor, x: Tensor, u: Tensor | None, scale: float, weight: float, afresh: bool
    ) -> None:
        if self._add is None or out.is_inference():  # Autograd cannot write to inference tensors.
            super().add_grad_at_sum(out, x, u, scale, weight, afresh)
            return

        def run(check_unchanged: Callable[[], None]) -> None:
            added = AddedUp(self._flat, out.zero_() if afresh else out)
            assert self._add is not None
            checks.scalar(self._add(weight), self._what)
            check_unchanged()
            if added.replaced():
                raise RuntimeError(
                    f"{self._what} replaced the .grad of {added.replaced()[0]!r}, to which gradients are added: "
                    "expected it to leave .grad alone; take zero_grad() and backward() out of it"
                )
            self._check_gradient(added.anything)

        self._at(x, u, scale, run)

    def _evaluate(
        self, x: Tensor, u: Tensor | None = None, scale: float = 1.0, *, backward: bool = True, mean: bool = True
    ) -> tuple[Tensor, Tensor]:
        def run(check_unchanged: Callable[[], None]) -> tuple[Tensor, Tensor]:
            value = checks.scalar(self._run(backward), self._what).detach()
            value = value.clone() if mean else value  # It may be a tensor that is put back.
            reshard(self._sharded)
            if self._ranks is not None and mean:
                value = self._ranks.mean(value)
            check_unchanged()
            if not backward:
                return value, x.new_empty(0)
            self._check_gradient(self._flat.has_gradient())
            return value, self._flat.gradient(release=True)

        return self._at(x, u, scale, run)

    def _at(self, x: Tensor, u: Tensor | None, scale: float, run: Callable[[Callable[[], None]], T]) -> T:
        """What `run` returns with the parameters at x + scale·u. Its argument raises if they were changed."""

        def moved() -> T:
            self._flat.move(x, u, scale)
            versions = self._versions()
            with torch.enable_grad():
                return run(lambda: self._check_unchanged(x if u is None else None, versions))

        held, self._saved = self._saved, None  # An evaluation inside of this one saves the model for itself.
        if held is None:
            with self._untouched():
                return moved()
        try:
            held.begin_again(self._start)
            return moved()
        finally:
            held.drop_gradients()
            self._saved = held

    def _check_unchanged(self, at: Tensor | None, versions: list[int]) -> None:
        """Raises if a parameter was written to. Writing may bypass version counters, so `at` is compared, too: x, where
        all searches begin."""
        now = self._versions()
        changed = [name for i, name in enumerate(self._names) if now[i] != versions[i]] if now != versions else []
        if at is not None:
            changed.extend(self._flat.differing(at))
        if changed:
            raise RuntimeError(
                f"{self._what} changed {changed[0]!r} while it was evaluated, so its gradients mean nothing: expected "
                "forward and backward alone; take out what steps an optimizer or writes to weights (a step in a hook "
                "or in the closure, Embedding(max_norm=...))"
            )

    def _untouched(self) -> contextlib.AbstractContextManager[Saved]:
        return untouched(self._flat, self._modules, start=self._start, skip_hooks=self._skip_hooks)

    def _check_gradient(self, there_is_one: bool) -> None:
        if not there_is_one:
            raise ValueError(
                f"{self._what} left no parameter with a gradient: expected it to call backward() on a value that "
                "depends on the parameters; look for a missing backward(), detach(), item() or no_grad() inside it"
            )

    def _versions(self) -> list[int]:
        """Version counters of all parameters, also frozen ones. Writing changes them, except that of `assign`."""
        return [parameter._version for parameter in self._watched]
