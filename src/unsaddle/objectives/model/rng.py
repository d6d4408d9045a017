"""States of all random number generators that a model may use, so that it can draw the same numbers again."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import random
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, get_device_module

TWISTER = ctypes.c_char * (624 * 4 + struct.calcsize("i"))
"""The memory of a Mersenne twister in NumPy: its words and its position."""


class NumpyNumbers:
    """NumPy's global generator: `get` and `set` are `np.random.get_state` and `set_state`, but faster.

    NumPy copies word by word, which takes 40 µs each time. While the generator's memory (`BitGenerator.ctypes`) is as
    it was last read or set here, its state is known, and is set by writing to that memory. NumPy's own functions are
    called otherwise, and where memory does not tell: with the second number of a normal pair in store, for another kind
    of generator, or where twisters are laid out in another way.

    >>> numbers, seven = NumpyNumbers(), np.random.RandomState(7)
    >>> before, state = numbers.get(), seven.get_state()
    >>> numbers.set(state, content(state))
    >>> np.random.rand() == seven.rand()
    True
    >>> numbers.set(*before)
    """

    def __init__(self) -> None:
        self._state: Any = None
        self._content = b""
        fresh = np.random.RandomState(0)
        laid_out = TWISTER.from_address(fresh._bit_generator.ctypes.state_address).raw
        self._usable = laid_out == content(fresh.get_state())

    def get(self) -> tuple[Any, bytes]:
        """The state, and the generator's memory if that is all of it, else nothing."""
        if not self._is_known():
            self._state = np.random.get_state()
            self._content = content(self._state)
        return self._state, self._content

    def is_at(self, memory: bytes) -> bool:
        """Whether the generator's memory is this, which is all of its state if that was last set here."""
        return bool(memory) and memory == self._content and self._is_twister() and self._memory().raw == memory

    def set(self, state: Any, memory: bytes) -> None:
        if memory and self._is_known():
            self._memory().raw = memory
        else:
            np.random.set_state(state)
        self._state, self._content = state, memory

    def _is_known(self) -> bool:
        """Whether the state is still the one that was last read or set, and no normal number is in store."""
        if not self.is_at(self._content):
            return False
        number = np.random.standard_normal()
        if self._memory().raw == self._content:  # It was in store, and goes back there.
            state: Any = np.random.get_state()
            np.random.set_state((*state[:3], 1, number))
            return False
        np.random.standard_normal()  # The second of the pair that was drawn.
        self._memory().raw = self._content
        return True

    def _is_twister(self) -> bool:
        return self._usable and type(np.random.mtrand.get_bit_generator()) is np.random.MT19937

    def _memory(self) -> Any:
        return TWISTER.from_address(np.random.mtrand.get_bit_generator().ctypes.state_address)


def content(state: Any) -> bytes:
    """The memory of a generator in this state; nothing if that is not all of it."""
    if not isinstance(state, tuple):  # Not that of a Mersenne twister.
        return b""
    _, words, position, stored, _ = state
    return b"" if stored else words.tobytes() + struct.pack("i", position)


NUMPY = NumpyNumbers()
SEEDED = np.random.RandomState(0)
"""Seeded afresh for each use: a new one would first ask the system for entropy."""


@dataclass(frozen=True)
class RandomState:
    """Torch's global generators, on the CPU and on accelerators, Python's `random`, and NumPy's global one."""

    torch_cpu: Tensor
    accelerators: tuple[tuple[torch.device, Tensor], ...]
    python: Any
    numpy: tuple[Any, bytes]

    @classmethod
    def capture(cls, devices: Iterable[torch.device] = ()) -> RandomState:
        """The current states: of the CPU, of `devices`, and of all CUDA devices if CUDA is in use."""
        return cls(
            torch_cpu=torch.get_rng_state(),
            accelerators=tuple((d, get_device_module(d).get_rng_state(d)) for d in _accelerators(devices)),
            python=random.getstate(),
            numpy=NUMPY.get(),
        )

    @classmethod
    def seeded(cls, seed: int, devices: Iterable[torch.device] = ()) -> RandomState:
        """The states after seeding with `seed`. This does not change the current ones."""
        return _seeded(seed, tuple(_accelerators(devices)))

    def set(self) -> None:
        self._set_others()
        NUMPY.set(*self.numpy)

    def set_again(self) -> None:
        """`set`, where these states were the last that were set. NumPy's is not set if nobody drew from it."""
        self._set_others()
        if not NUMPY.is_at(self.numpy[1]):
            NUMPY.set(*self.numpy)

    def _set_others(self) -> None:
        torch.set_rng_state(self.torch_cpu)
        for device, state in self.accelerators:
            get_device_module(device).set_rng_state(state, device)
        random.setstate(self.python)

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


@functools.lru_cache(maxsize=4)  # A model's own seed is asked for again by each search.
def _seeded(seed: int, accelerators: tuple[torch.device, ...]) -> RandomState:
    SEEDED.seed(seed % 2**32)
    numbers = SEEDED.get_state()
    return RandomState(
        torch_cpu=torch.Generator().manual_seed(seed).get_state(),
        accelerators=tuple((d, torch.Generator(d).manual_seed(seed).get_state()) for d in accelerators),
        python=random.Random(seed).getstate(),
        numpy=(numbers, content(numbers)),
    )
