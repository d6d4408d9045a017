"""Probing without a trace: whatever a model's evaluation changes is put back, bit for bit."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from unsaddle.objectives.model import hooks
from unsaddle.objectives.model.distributed import is_view_of_a_bucket, reshard
from unsaddle.objectives.model.parameters import FlatParameters, same_bits
from unsaddle.objectives.model.rng import RandomState


@contextlib.contextmanager
def untouched(
    flat: FlatParameters,
    modules: Iterable[nn.Module] = (),
    *,
    start: RandomState | None = None,
    skip_hooks: bool = True,
) -> Iterator[None]:
    """Inside, parameters, gradients, buffers and random numbers may be used up; afterwards all is as it was.

    Restored, also after an exception or Ctrl-C: the parameters in `flat`; the `.grad` of these and of all parameters of
    `modules`, the very tensors or None; buffers and tensors that are attributes of `modules`; their train/eval modes;
    the states of `RandomState`. Casts that autocast has cached are dropped before and after. Inside, every `.grad` is
    None, and hooks of parameters do not run (see `hooks`).

    Not restored, since it cannot be known: what hooks, the loss or a forward do to other Python objects; and, where
    `modules` is empty, buffers.

    Args:
        flat: the parameters that will be assigned to.
        modules: the modules that will run, each with all of its children.
        start: states that random numbers start from inside; those of the moment, if left out.
        skip_hooks: whether gradient hooks of parameters are kept from running.

    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout())
    >>> flat = FlatParameters(model.named_parameters())
    >>> before = flat.point()
    >>> with untouched(flat, [model]):
    ...     flat.assign(torch.zeros(6))
    ...     model(torch.ones(1, 2)).sum().backward()
    >>> flat.is_at(before), flat.has_gradient()
    (True, False)
    """
    saved = _Saved(flat, modules, skip_hooks)
    try:
        with torch.inference_mode(False):
            saved.clear()
            if start is not None:
                start.set()
            yield
    finally:
        _thoroughly(saved.restore)


def _thoroughly(restore: Callable[[], None]) -> None:
    """Restore; if Ctrl-C comes in the middle, once more from the start before it takes effect."""
    try:
        restore()
    except BaseException:
        restore()
        raise


class _Saved:
    """What was there before. Restoring may be repeated."""

    def __init__(self, flat: FlatParameters, modules: Iterable[nn.Module], skip_hooks: bool) -> None:
        modules = list(modules)
        self._wrapped = modules
        reshard(modules)
        unique = {id(m): m for module in modules for m in module.modules()}
        self._modes = [(m, m.training) for m in unique.values()]
        self._tensors = [entry for m in unique.values() for entry in _state_tensors(m)]
        parameters = {id(p): p for p in flat.tensors}
        parameters |= {id(p): p for m in unique.values() for p in m._parameters.values() if p is not None}
        self._grads = [(p, p.grad) for p in parameters.values()]
        grads = (grad for _, grad in self._grads)
        self._contents = [(g, g.detach().clone()) for g in grads if g is not None and is_view_of_a_bucket(g)]
        self._random = RandomState.capture(
            {p.device for p in parameters.values()} | {t.device for *_, t, _ in self._tensors}
        )
        self._hooks = hooks.Silenced(parameters.values()) if skip_hooks else None
        self._flat, self._home = flat, flat.remembered()

    def clear(self) -> None:
        """Make room: no gradients, no hooks, no cached casts."""
        for parameter, _ in self._grads:
            parameter.grad = None
        if self._hooks is not None:
            self._hooks.silence()
        torch.clear_autocast_cache()

    def restore(self) -> None:
        reshard(self._wrapped)
        self._flat.assign(self._home)
        for parameter, grad in self._grads:
            parameter.grad = grad
        for grad, content in self._contents:
            grad.detach().copy_(content)
        for owner, name, tensor, content in self._tensors:
            if owner.get(name) is not tensor:
                owner[name] = tensor
            if tensor.layout is not torch.strided or not same_bits(tensor.detach(), content):
                tensor.data.copy_(content)  # Only where needed: a buffer may be an expanded or a read-only view.
        for module, training in self._modes:
            module.training = training
        self._random.set()
        if self._hooks is not None:
            self._hooks.restore()
        torch.clear_autocast_cache()


def _state_tensors(module: nn.Module) -> Iterator[tuple[dict[str, Any], str, Tensor, Tensor]]:
    """Buffers of a module, and tensors that are plain attributes of it: where they hang, and a copy."""
    for owner in (module._buffers, vars(module)):
        for name, tensor in owner.items():
            if isinstance(tensor, Tensor) and not isinstance(tensor, nn.Parameter) and not tensor.is_meta:
                yield owner, name, tensor, tensor.detach().clone()
