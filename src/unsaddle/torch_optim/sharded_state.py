"""Neon's state for torch.distributed.checkpoint: saved by some ranks, loaded by as many or by others.

That package loads into a state of the same shape as the one it saved, piece by piece. So there are always the same
entries: all numbers and words as one text, and the direction of the candidate, zero where there is none, as one tensor
for each parameter, sharded as the parameter is.
"""

from __future__ import annotations

import json
from typing import Any

import torch
from torch import Tensor

from unsaddle.objectives.model.parameters import FlatParameters
from unsaddle.ranks import is_sharded, local
from unsaddle.torch_optim import policy


class ShardedState:
    """What `torch.distributed.checkpoint` calls a Stateful.

    Args:
        flat: the parameters.
        state: of Neon.
        replace: is given the state that was loaded.
    """

    def __init__(self, flat: FlatParameters, state: policy.State, replace: Any) -> None:
        self._flat, self._state, self._replace = flat, state, replace

    def state_dict(self) -> dict[str, Any]:
        numbers = self._state.to_dict()
        direction = numbers.pop("direction")
        numbers["has_direction"] = direction is not None
        v = torch.zeros(self._flat.dimension, dtype=self._flat.dtype) if direction is None else direction
        pieces = [
            like(parameter, part.clone())
            for parameter, (_, part) in zip(self._flat.tensors, self._flat.pieces(v), strict=True)
        ]
        return {"numbers": json.dumps(numbers), "direction": {str(i): piece for i, piece in enumerate(pieces)}}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        numbers = json.loads(state_dict["numbers"])
        v = None
        if numbers.pop("has_direction"):
            v = torch.empty(self._flat.dimension, dtype=self._flat.dtype, device=self._flat.device)
            for i, (_, part) in enumerate(self._flat.pieces(v)):
                part.copy_(local(state_dict["direction"][str(i)]))
        self._replace(policy.State.from_dict(numbers | {"direction": v}))


def like(parameter: Tensor, part: Tensor) -> Tensor:
    """What this rank holds as a tensor that is sharded as `parameter` is."""
    if not is_sharded(parameter):
        return part
    from torch.distributed.tensor import DTensor

    return DTensor.from_local(
        part,
        parameter.device_mesh,  # type: ignore[attr-defined]
        parameter.placements,  # type: ignore[attr-defined]
        run_check=False,
        shape=parameter.shape,
        stride=parameter.stride(),
    )
