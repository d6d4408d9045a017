"""Everything about a model and its surroundings that probing must leave as it was."""

import copy
import random
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


def bits(tensor: Tensor) -> Any:
    """As bytes, so that −0 is not 0 and a NaN equals itself."""
    return tensor.detach().to_dense().contiguous().numpy().tobytes()


class Everything:
    """A record of the state, and the claim that it has not changed."""

    def __init__(self, model: nn.Module, scaler: Any = None) -> None:
        self._model, self._scaler = model, scaler
        self._before = self._state()

    def _state(self) -> dict[str, Any]:
        state: dict[str, Any] = {"torch": torch.get_rng_state().tolist(), "python": random.getstate()}
        state["numpy"] = [np.asarray(part).tolist() for part in np.random.get_state()]
        for name, p in self._model.named_parameters():
            state[name] = (id(p), p.data_ptr(), p.stride(), bits(p), p.requires_grad)
            state[name + " version"] = p._version
            state[name + ".grad"] = None if p.grad is None else (id(p.grad), bits(p.grad))
            state[name + ".hooks"] = [
                list((t or {}).items()) for t in (p._backward_hooks, p._post_accumulate_grad_hooks)
            ]
        for name, b in self._model.named_buffers():
            state[name] = (id(b), bits(b))
        for name, m in self._model.named_modules():
            state[name + ".training"] = m.training
        if self._scaler is not None:
            state["scaler"] = copy.deepcopy(self._scaler.state_dict())
        return state

    def check(self, *, versions: bool = True) -> None:
        """Args: versions: whether nobody may have written to the parameters, not even what was written back."""
        now = self._state()
        assert now.keys() == self._before.keys()
        changed = [name for name in now if now[name] != self._before[name]]
        assert [name for name in changed if versions or not name.endswith(" version")] == []
