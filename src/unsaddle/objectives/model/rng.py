"""States of all random number generators that a model may use, so that it can draw the same numbers again."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, get_device_module


@dataclass(frozen=True)
class RandomState:
    """Torch's global generators, on the CPU and on accelerators, Python's `random`, and NumPy's global one."""

    torch_cpu: Tensor
    accelerators: tuple[tuple[torch.device, Tensor], ...]
    python: Any
    numpy: Any

    @classmethod
    def capture(cls, devices: Iterable[torch.device] = ()) -> RandomState:
        """The current states: of the CPU, of `devices`, and of all CUDA devices if CUDA is in use."""
        return cls(
            torch_cpu=torch.get_rng_state(),
            accelerators=tuple((d, get_device_module(d).get_rng_state(d)) for d in _accelerators(devices)),
            python=random.getstate(),
            numpy=np.random.get_state(),
        )

    @classmethod
    def seeded(cls, seed: int, devices: Iterable[torch.device] = ()) -> RandomState:
        """The states after seeding with `seed`. This does not change the current ones."""
        return cls(
            torch_cpu=torch.Generator().manual_seed(seed).get_state(),
            accelerators=tuple((d, torch.Generator(d).manual_seed(seed).get_state()) for d in _accelerators(devices)),
            python=random.Random(seed).getstate(),
            numpy=np.random.RandomState(seed % 2**32).get_state(),
        )

    def set(self) -> None:
        torch.set_rng_state(self.torch_cpu)
        for device, state in self.accelerators:
            get_device_module(device).set_rng_state(state, device)
        random.setstate(self.python)
        np.random.set_state(self.numpy)

    @contextlib.contextmanager
    def in_force(self, devices: Iterable[torch.device] = ()) -> Iterator[None]:
        """Inside, these are the current states; afterwards, the previous ones are."""
        before = RandomState.capture(devices)
        try:
            self.set()
            yield
        finally:
            before.set()


def _accelerators(devices: Iterable[torch.device]) -> list[torch.device]:
    used = {d for d in devices if d.type not in ("cpu", "meta")}
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # Reading a state would initialise CUDA.
        used |= {torch.device("cuda", i) for i in range(torch.cuda.device_count())}
    return sorted(used, key=str)
