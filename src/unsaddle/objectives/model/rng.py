"""States of all the random numbers that a model may draw, so that they can be drawn again."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class RandomState:
    """Torch's global generators, on the CPU and on accelerators, Python's `random`, and NumPy's global one."""

    torch_cpu: Tensor
    accelerators: tuple[tuple[torch.device, Tensor], ...]
    python: Any
    numpy: Any

    @classmethod
    def capture(cls, devices: Iterable[torch.device] = ()) -> RandomState:
        """The states as they are: the CPU's, those of `devices`, and of all devices if CUDA is in use."""
        return cls(
            torch_cpu=torch.get_rng_state(),
            accelerators=tuple((d, _module(d).get_rng_state(d)) for d in _accelerators(devices)),
            python=random.getstate(),
            numpy=np.random.get_state(),
        )

    @classmethod
    def seeded(cls, seed: int, devices: Iterable[torch.device] = ()) -> RandomState:
        """The states that seeding with `seed` would give, without seeding anything."""
        return cls(
            torch_cpu=torch.Generator().manual_seed(seed).get_state(),
            accelerators=tuple((d, torch.Generator(d).manual_seed(seed).get_state()) for d in _accelerators(devices)),
            python=random.Random(seed).getstate(),
            numpy=np.random.RandomState(seed % 2**32).get_state(),
        )

    def set(self) -> None:
        """Make these the states of now."""
        torch.set_rng_state(self.torch_cpu)
        for device, state in self.accelerators:
            _module(device).set_rng_state(state, device)
        random.setstate(self.python)
        np.random.set_state(self.numpy)

    @contextlib.contextmanager
    def in_force(self, devices: Iterable[torch.device] = ()) -> Iterator[None]:
        """Inside, these are the states; afterwards, those of before."""
        before = RandomState.capture(devices)
        try:
            self.set()
            yield
        finally:
            before.set()


def _accelerators(devices: Iterable[torch.device]) -> list[torch.device]:
    used = {d for d in devices if d.type not in ("cpu", "meta")}
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # Asking for a state would initialise it.
        used |= {torch.device("cuda", i) for i in range(torch.cuda.device_count())}
    return sorted(used, key=str)


def _module(device: torch.device) -> Any:
    return torch.get_device_module(device)
