"""Neon's state for torch.distributed.checkpoint, which may load it on another number of ranks.

That package loads into a state of the same shape as the saved one. So the entries are always the same: a text with all
numbers, and the candidate's direction (or zero) as one tensor for each parameter, sharded as the parameter is.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from unsaddle.objectives.model.parameters import FlatParameters
from unsaddle.ranks import is_sharded, local
from unsaddle.torch_optim.state import State


class ShardedState:
    """Neon's state as a Stateful of `torch.distributed.checkpoint`. `replace` is called with the loaded state."""

    def __init__(self, flat: FlatParameters, state: State, replace: Any) -> None:
        self._flat, self._state, self._replace = flat, state, replace

    def state_dict(self) -> dict[str, Any]:
        direction = self._state.direction
        v = torch.zeros(self._flat.dimension, dtype=self._flat.dtype) if direction is None else direction
        parts = zip(self._flat.tensors, self._flat.pieces(v), strict=True)
        pieces = {str(i): like(parameter, part.clone()) for i, (parameter, (_, part)) in enumerate(parts)}
        return {"numbers": self._state.to_text(), "has_direction": direction is not None, "direction": pieces}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        v = None
        if state_dict["has_direction"]:
            v = torch.empty(self._flat.dimension, dtype=self._flat.dtype, device=self._flat.device)
            for i, (_, part) in enumerate(self._flat.pieces(v)):
                part.copy_(local(state_dict["direction"][str(i)]))
        self._replace(State.from_text(state_dict["numbers"], v))


def like(parameter: Any, part: Tensor) -> Tensor:
    """This rank's part, as a tensor that is sharded as `parameter` is."""
    if not is_sharded(parameter):
        return part
    from torch.distributed.tensor import DTensor

    mesh, placements, shape = parameter.device_mesh, parameter.placements, parameter.shape
    return DTensor.from_local(part, mesh, placements, run_check=False, shape=shape, stride=parameter.stride())
