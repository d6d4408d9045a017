"""Gradient hooks of parameters, which do not run while a model is probed.

A hook that clips or masks returns something else than the gradient, so differences of its results mean nothing. A hook
that steps an optimizer changes the weights during backward. Hooks of torch.distributed do run: they reduce gradients.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor


class Silenced:
    """Removes hooks from torch's dictionaries, and restores them in their order."""

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
    """The hooks that `Silenced` removes, each as "parameter: hook"."""
    hooks = [(name, hook) for name, parameter in named for table in _tables(parameter) for hook in table.values()]
    found = [(name, _function(hook)) for name, hook in hooks if not _is_needed(hook)]
    return [f"{name}: {getattr(function, '__qualname__', type(function).__qualname__)}" for name, function in found]


def _tables(parameter: Tensor) -> list[dict[int, Any]]:
    return [t for t in (parameter._backward_hooks, getattr(parameter, "_post_accumulate_grad_hooks", None)) if t]


def _is_needed(hook: Any) -> bool:
    module = getattr(_function(hook), "__module__", None) or ""
    return module.startswith("torch.distributed") and not module.startswith("torch.distributed.optim")


def _function(hook: Any) -> Any:
    while hasattr(hook, "func"):  # functools.partial
        hook = hook.func
    return hook
