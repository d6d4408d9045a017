"""Probing without a trace: restores, bit for bit, whatever the evaluation of a model changes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from unsaddle.objectives.model import hooks
from unsaddle.objectives.model.distributed import is_view_of_a_bucket, reshard, sharded
from unsaddle.objectives.model.parameters import FlatParameters, same_bits
from unsaddle.objectives.model.rng import RandomState

NO_TENSORS = frozenset(type(value) for value in vars(nn.Module()).values()) | {int, float, str, tuple, list}
"""Types that most attributes of modules have: to look them up here is faster than to ask whether they are tensors."""


@contextlib.contextmanager
def untouched(
    flat: FlatParameters,
    modules: Iterable[nn.Module] = (),
    *,
    start: RandomState | None = None,
    skip_hooks: bool = True,
) -> Iterator[Saved]:
    """Inside, a model may run and change; afterwards everything is as before. Yields the state before.

    Restored, also after an exception or Ctrl-C: the parameters in `flat`; the `.grad` of these and of all parameters of
    `modules` (the same tensor objects, or None); buffers and tensor attributes of `modules`; their train/eval modes;
    the states of `RandomState`. The autocast cache is cleared before and after. Inside, every `.grad` starts as None.
    Not restored: other Python objects that hooks, the loss or a forward change; and buffers, if `modules` is empty.

    Args:
        flat: the parameters that may be assigned to.
        modules: the modules that run, with all their children.
        start: states of the random numbers inside; by default the current ones.
        skip_hooks: whether to disable gradient hooks of parameters.

    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout())
    >>> flat = FlatParameters(model.named_parameters())
    >>> before = flat.point()
    >>> with untouched(flat, [model]):
    ...     flat.assign(torch.zeros(6))
    ...     model(torch.ones(1, 2)).sum().backward()
    >>> flat.is_at(before), flat.has_gradient()
    (True, False)
    """
    saved = Saved(flat, modules, skip_hooks)
    try:
        with torch.inference_mode(False) if torch.is_inference_mode_enabled() else contextlib.nullcontext():
            saved.clear()
            if start is not None:
                start.set()
            yield saved
    finally:
        try:
            saved.restore()
        except BaseException:  # After Ctrl-C in the middle, restore once more from the start.
            saved.restore()
            raise


class Saved:
    """The state before. `restore` may be called repeatedly."""

    def __init__(self, flat: FlatParameters, modules: Iterable[nn.Module], skip_hooks: bool) -> None:
        every = _with_children(modules)
        self._sharded = sharded(every)
        reshard(self._sharded)
        self._modes = [(m, m.training) for m in every]
        self._tensors = [entry for m in every for entry in _state_tensors(m)]
        parameters = {id(p): p for p in flat.tensors}
        parameters |= {id(p): p for m in every for p in m._parameters.values() if p is not None}
        self._grads = [(p, p.grad) for p in parameters.values()]
        self._contents = [(g, g.detach().clone()) for _, g in self._grads if g is not None and is_view_of_a_bucket(g)]
        devices = {p.device for p in parameters.values()} | {t.device for *_, t, _ in self._tensors}
        self._random = RandomState.capture(devices)
        self._hooks = hooks.Silenced(parameters.values() if skip_hooks else ())
        self._flat, self.home = flat, flat.here()

    def clear(self) -> None:
        self.drop_gradients()
        self._hooks.silence()
        torch.clear_autocast_cache()

    def begin_again(self, start: RandomState) -> None:
        """For one more evaluation inside: all but the parameters is as for the first one. Faster than `restore`."""
        self._restore_modules()
        start.set_again()

    def drop_gradients(self) -> None:
        for parameter, _ in self._grads:
            parameter.grad = None

    def restore(self) -> None:
        reshard(self._sharded)
        self._flat.assign(self.home)
        for parameter, grad in self._grads:
            parameter.grad = grad
        for grad, content in self._contents:
            grad.detach().copy_(content)
        self._restore_modules()
        self._random.set()
        self._hooks.restore()
        torch.clear_autocast_cache()

    def _restore_modules(self) -> None:
        """Buffers, tensor attributes and modes."""
        for owner, name, tensor, content in self._tensors:
            if owner.get(name) is not tensor:
                owner[name] = tensor
            if tensor.layout is not torch.strided or not same_bits(tensor.detach(), content):
                tensor.data.copy_(content)  # Only if needed: a buffer may be an expanded or read-only view.
        for module, training in self._modes:
            if module.training != training:
                module.training = training


def _with_children(modules: Iterable[nn.Module]) -> list[nn.Module]:
    """The modules and all below them, each once. `nn.Module.modules` would make their names, too."""
    found, left = dict[int, nn.Module](), list[nn.Module | None](modules)
    while left:
        module = left.pop()
        if module is not None and id(module) not in found:
            found[id(module)] = module
            left.extend(module._modules.values())
    return list(found.values())


def _state_tensors(module: nn.Module) -> list[tuple[dict[str, Any], str, Tensor, Tensor]]:
    """Buffers and tensor attributes of a module: (owning dictionary, name, tensor, copy of its values)."""
    return [
        (owner, name, tensor, tensor.detach().clone())
        for owner in (module._buffers, vars(module))
        if not NO_TENSORS.issuperset(map(type, owner.values()))
        for name, tensor in owner.items()
        if type(tensor) not in NO_TENSORS
        and isinstance(tensor, Tensor)
        and not isinstance(tensor, nn.Parameter)
        and not tensor.is_meta
    ]
