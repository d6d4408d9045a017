"""An optimizer around another one, the base: it has no parameter groups and no state but the base's own."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from typing import Any

from torch import Tensor
from torch.optim import Optimizer


class _OfBase:
    """An attribute that is read, set and deleted on the base optimizer."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else getattr(instance.base, self.name)

    def __set__(self, instance: Any, value: Any) -> None:
        setattr(instance.base, self.name, value)

    def __delete__(self, instance: Any) -> None:
        delattr(instance.base, self.name)


class AroundBase(Optimizer):
    """Looks like the base to schedulers, scalers, hooks and trainers. A subclass sets `base` and has a `step`."""

    base: Optimizer

    param_groups = _OfBase()
    state = _OfBase()
    defaults = _OfBase()
    # GradScaler uses these with optimizers that unscale by themselves.
    _step_supports_amp_scaling = _OfBase()
    grad_scale = _OfBase()
    found_inf = _OfBase()

    def _become_optimizer(self) -> None:
        """Does what `Optimizer.__init__` does, without groups and state: these are the base's."""
        for of, when in itertools.product(("step", "state_dict", "load_state_dict"), ("pre", "post")):
            self.__dict__.setdefault(f"_optimizer_{of}_{when}_hooks", OrderedDict())
        self._patch_step_function()

    def _trained(self) -> list[Tensor]:
        return [p for group in self.param_groups for p in group["params"]]

    def _sign(self) -> float:
        """−1 if the base maximizes."""
        ways = {bool(group.get("maximize", False)) for group in self.param_groups}
        if len(ways) > 1:
            raise ValueError(
                "some parameter groups have maximize=True and some not, so there is no one loss that goes down: "
                "expected the same in all; use an optimizer for each"
            )
        return -1.0 if ways == {True} else 1.0

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Calls the base's zero_grad."""
        self.base.zero_grad(set_to_none)

    def __getattr__(self, name: str) -> Any:
        """Attributes that only the base has, such as train() and eval() of schedule-free optimizers."""
        if name.startswith("__") or "base" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(self.base, name)
