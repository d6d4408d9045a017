"""Values and points: usual ones, and others of another type, shape, dtype or size."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

GRADIENTS = 100
"""A bound on gradients and samples, so that calls are short."""


class HostileError(Exception):
    """What a hostile callable raises."""


class InterruptError(BaseException):
    """What a hostile callable raises as Ctrl-C would: no `except Exception` stops it."""


def length(x: Any) -> int:
    """A function of the wrong kind. Its errors are its own, which those of `len` would not show."""
    return len(x)


def odd_value(r: random.Random) -> Any:
    """Something that an argument is probably not meant to be."""
    numbers = (0, -1, 1, 2**63, 10**30, -(10**30), 1e300, 1e-300, 5e-324, -0.0, math.nan, math.inf, -math.inf, 0.5, 1j)
    others = (
        None,
        True,
        "a",
        "",
        b"a",
        [],
        [1],
        (),
        {},
        {"a": 1},
        object(),
        int,
        nn.Linear,
        length,
        Ellipsis,
        range(3),
    )
    arrays = (np.zeros(3), np.int64(3), np.float32(0.1), np.array(["a"]), torch.zeros(3), torch.tensor(0.1), np.nan)
    return r.choice((*numbers, *others, *arrays))


def mostly(r: random.Random, usual: Any, *odd: Any) -> Any:
    """The usual value; one time in ten one of the odd ones, or anything."""
    return r.choice((*odd, odd_value(r))) if r.random() < 0.1 else usual


def point(r: random.Random, d: int = 3) -> Any:
    """x: mostly a point of d variables, in some form."""
    usual = torch.randn(d, generator=torch.Generator().manual_seed(r.randrange(10**6)), dtype=torch.float64)
    usual *= r.choice((0.0, 1.0, 1e-6, 1e6, 1e150, 1e300))
    forms: tuple[Callable[[], Any], ...] = (
        lambda: usual,
        lambda: usual,
        lambda: usual,
        lambda: usual.float(),
        lambda: usual.tolist(),
        lambda: usual.numpy(),
        lambda: usual.numpy()[::-1],
        lambda: usual.int() if usual.abs().max() < 1e9 else usual,
        lambda: usual.reshape(1, d),
        lambda: usual.half(),
        lambda: usual.bfloat16(),
        lambda: usual + 0j,
        lambda: torch.full((d,), math.nan, dtype=torch.float64),
        lambda: torch.full((d,), math.inf),
        lambda: torch.empty(0),
        lambda: usual.to_sparse(),
        lambda: usual.to("meta"),
        lambda: usual.repeat_interleave(2)[::2],
        lambda: usual.clone().requires_grad_(),
        lambda: odd_value(r),
    )
    return usual if r.random() < 0.75 else r.choice(forms)()


def arguments(r: random.Random, usual: dict[str, Callable[[], Any]]) -> dict[str, Any]:
    """Some of the arguments, each usual or odd."""
    chosen = {name: make() for name, make in usual.items() if r.random() < 0.4}
    return {name: odd_value(r) if r.random() < 0.05 else value for name, value in chosen.items()}


SHARED: dict[str, Callable[[random.Random], Any]] = {
    "gamma": lambda r: 10.0 ** r.uniform(-8, 2),
    "delta": lambda r: r.uniform(0.001, 0.5),
    "seed": lambda r: r.randrange(2**70),
}


def settings(r: random.Random, **more: Callable[[], Any]) -> dict[str, Any]:
    shared = {name: (lambda make=make: make(r)) for name, make in SHARED.items()}
    return arguments(r, shared | more)


def unchanged(call: Callable[[Any], Any], x: Any) -> Any:
    """Calls, and checks that x is as it was, also if the call raises."""
    comparable = isinstance(x, (np.ndarray, list)) or (isinstance(x, Tensor) and not x.is_meta and not x.is_sparse)
    before = repr(x) if comparable else ""
    try:
        return call(x)
    finally:
        if comparable and repr(x) != before:
            raise AssertionError("x was changed")


def net_unchanged(call: Callable[[], Any], net: nn.Module) -> Any:
    """Calls, and checks that a model's parameters, gradients, buffers and modes are as they were."""

    def state() -> list[Any]:
        modes = [(module.training, len(module._forward_hooks)) for module in net.modules()]
        tensors = [*net.parameters(), *(p.grad for p in net.parameters()), *net.buffers()]
        flags = [p.requires_grad for p in net.parameters()]
        return [modes, flags, [None if t is None else t.detach().clone() for t in tensors]]

    before = state()
    try:
        return call()
    finally:
        after = state()
        for a, b in zip(before[2], after[2], strict=True):
            if (a is None) != (b is None) or (a is not None and not torch.equal(a, b)):
                raise AssertionError("the model was changed")
        if after[:2] != before[:2]:
            raise AssertionError("the model's modes were changed")
