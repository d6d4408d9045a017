"""How a `Neon` is made, saved, loaded and copied: everything about its state that is not its work."""

from __future__ import annotations

from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d

from unsaddle import ranks
from unsaddle.objectives.model.parameters import FlatParameters, OverParameters
from unsaddle.torch_optim.around import AroundBase
from unsaddle.torch_optim.prober import Prober
from unsaddle.torch_optim.replicas import Replicas
from unsaddle.torch_optim.rules import Rules
from unsaddle.torch_optim.sharded_state import ShardedState
from unsaddle.torch_optim.state import State

OWN_STATE = "neon"
"""Neon's entry in a state_dict, beside the base's `state` and `param_groups`. The first group has one, too: without the
candidate, for tools that keep states and groups only (`torch.distributed.checkpoint.state_dict.get_state_dict`)."""


class Checkpointed(AroundBase):
    """The state of a `Neon`, in checkpoints and copies. A subclass sets `base` and what is listed here."""

    rules: Rules
    callback: Any
    objective: OverParameters | None
    _samples: int | None
    _process_group: Any

    def _begin(self, state: State) -> None:
        self._prober = Prober(self.rules, state)

    def _start(self, state: State) -> None:
        self._begin(state)
        self._find_ranks()  # Raises now if the parameters cannot be probed.
        self._replicas, self._warned = Replicas(), False
        self._become_optimizer()

    def _parameters(self) -> FlatParameters:
        if self.objective is not None:
            return self.objective.parameters
        names = [name for group in self.param_groups for name in group.get("param_names", ())]
        tensors = self._trained()
        return FlatParameters(zip(names, tensors, strict=True) if names else tensors)

    def _find_ranks(self) -> None:
        group = self._process_group
        if group is None and dist.is_available() and dist.is_initialized():
            group = dist.group.WORLD
        tensors = self._parameters().tensors
        self._ranks, self._probed = ranks.of_parameters(tensors, group), [id(p) for p in tensors]

    def state_dict(self) -> dict[str, Any]:
        """The base's state, and Neon's own under "neon". A run that loads both goes on bit for bit."""
        for pre_hook in self._optimizer_state_dict_pre_hooks.values():
            pre_hook(self)
        packed, own = self.base.state_dict(), self._prober.state
        first, *rest = packed["param_groups"]
        packed |= {"param_groups": [first | {OWN_STATE: own.to_text()}, *rest], OWN_STATE: own.to_dict()}
        for post_hook in self._optimizer_state_dict_post_hooks.values():
            packed = post_hook(self, packed) or packed
        return packed

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads what `state_dict` returned. With a state of the base alone, Neon starts afresh.

        Where only groups and states were kept, a candidate that waited for fresh batches is looked for again.
        """
        if not isinstance(state_dict, dict):
            raise TypeError(f"a state must be what state_dict() made, got {type(state_dict).__name__}")
        state_dict = dict(state_dict)
        for pre_hook in self._optimizer_load_state_dict_pre_hooks.values():
            state_dict = pre_hook(self, state_dict) or state_dict
        given = state_dict.get("param_groups")
        if not isinstance(given, list) or not all(isinstance(group, dict) for group in given):
            raise ValueError(f"a state must be what state_dict() made, got param_groups={given!r:.100}")
        groups = [dict(group) for group in given]
        texts = [group.pop(OWN_STATE) for group in groups if OWN_STATE in group]
        if OWN_STATE in state_dict:
            state = State.from_dict(state_dict[OWN_STATE])
        else:
            state = State.from_text(texts[0]) if texts else State()
        flat = self._parameters()
        state.check_direction(flat.dimension)
        bases = {key: value for key, value in state_dict.items() if key != OWN_STATE}
        self.base.load_state_dict(bases | {"param_groups": groups})
        if state.direction is not None:
            state.direction = state.direction.to(device=flat.device, dtype=flat.dtype)
        self._begin(state)
        for post_hook in self._optimizer_load_state_dict_post_hooks.values():
            post_hook(self)

    def sharded_state(self) -> ShardedState:
        """Neon's own state for `torch.distributed.checkpoint`. Save and load it beside the base's."""
        return ShardedState(self._parameters(), self._prober.state, self._begin)

    def __getstate__(self) -> dict[str, Any]:
        """For pickle and deepcopy: the base, the settings, the state, and the process group by its name."""
        return {
            "base": self.base,
            "rules": self.rules,
            "samples": self._samples,
            "group": None if self._process_group is None else self._process_group.group_name,
            "state": self._prober.state.to_dict(),
        }

    def __setstate__(self, saved: dict[str, Any]) -> None:
        self.base, self.rules, self.callback = saved["base"], saved["rules"], None
        self.objective, self._samples, self._process_group = None, saved["samples"], _group_named(saved["group"])
        self._start(State.from_dict(saved["state"]))


def _group_named(name: str | None) -> Any:
    """The process group of this name. Raises if it does not exist here."""
    if name is None:
        return None
    try:
        return distributed_c10d._resolve_process_group(name)  # type: ignore[attr-defined, arg-type]
    except (RuntimeError, KeyError, ValueError) as error:
        raise ValueError(
            f"this Neon was pickled with the process group {name!r}, and here there is none of that name: expected "
            "the same groups, made in the same order; or load its state_dict into Neon(..., process_group=...)"
        ) from error
