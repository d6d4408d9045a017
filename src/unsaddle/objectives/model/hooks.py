"""Gradient hooks of parameters: found, named, and kept from running while a model is probed.

A hook that clips or masks makes something else of a gradient, and two of its answers have no difference that means
anything; one that steps an optimizer changes the weights in the middle of a backward pass, and the optimizer's state
with them. Hooks by which torch.distributed reduces gradients are left alone: without them there is no gradient.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from torch import Tensor


class Silenced:
    """Hooks taken out of the dictionaries that torch calls them from, and put back in their order."""

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        self._saved = [(table, dict(table)) for p in parameters for table in _tables(p)]

    def silence(self) -> None:
        for table, _ in self._saved:
            for key in [key for key, hook in table.items() if not _is_needed(hook)]:
                del table[key]

    def restore(self) -> None:
        for table, content in self._saved:
            table.clear()
            table.update(content)


def names(named: Iterable[tuple[str, Tensor]]) -> list[str]:
    """The hooks that would be silenced, each as "parameter: hook"."""
    return [
        f"{name}: {_name(hook)}"
        for name, parameter in named
        for table in _tables(parameter)
        for hook in table.values()
        if not _is_needed(hook)
    ]


def _tables(parameter: Tensor) -> Iterator[dict[int, Any]]:
    for table in (parameter._backward_hooks, getattr(parameter, "_post_accumulate_grad_hooks", None)):
        if table:
            yield table


def _is_needed(hook: Any) -> bool:
    module = getattr(_function(hook), "__module__", None) or ""
    return module.startswith("torch.distributed") and not module.startswith("torch.distributed.optim")


def _function(hook: Any) -> Any:
    while hasattr(hook, "func"):  # functools.partial
        hook = hook.func
    return hook


def _name(hook: Any) -> str:
    function = _function(hook)
    return getattr(function, "__qualname__", type(function).__qualname__)
