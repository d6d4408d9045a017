"""Functions that users might pass: usual ones, and hostile ones."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

import unsaddle
from benchmarks.hostile.values import HostileError, InterruptError, length, mostly, odd_value


def torch_callable(r: random.Random) -> Callable[..., Any]:
    """A function of a tensor: usual, or hostile in one way."""
    calls, own = [0], torch.Generator().manual_seed(0)

    def usual(x: Tensor, *rest: Tensor) -> Tensor:
        return x[0] ** 2 - x[-1] ** 2 + (x**4).sum() / 4 + sum((r.mean() * x.sum() for r in rest), torch.zeros(()))

    def half_way(x: Tensor, *rest: Tensor) -> Any:
        calls[0] += 1
        return usual(x, *rest) if calls[0] < r.randrange(1, 8) else hostile(x, *rest)

    def raising(x: Tensor, *rest: Tensor) -> Any:
        raise HostileError

    def interrupted(x: Tensor, *rest: Tensor) -> Any:
        raise InterruptError

    def detached(x: Tensor, *rest: Tensor) -> Any:
        x = x.detach().clone()
        x += 1.0
        return x.sum().requires_grad_()

    def writing(x: Tensor, *rest: Tensor) -> Any:
        value = usual(x, *rest)
        x.data.add_(1.0)
        return value

    def other_dtype(x: Tensor, *rest: Tensor) -> Any:
        calls[0] += 1
        return usual(x, *rest).to((torch.float64, torch.float32, torch.bfloat16)[calls[0] % 3])

    def again(x: Tensor, *rest: Tensor) -> Any:
        calls[0] += 1
        if calls[0] < 3:
            unsaddle.is_minimum(unsaddle.Function(usual), x.detach(), max_gradients=5)
        return usual(x, *rest)

    rubbish = odd_value(r)
    ways: tuple[Callable[..., Any], ...] = (
        raising,
        interrupted,
        detached,
        writing,
        other_dtype,
        again,
        lambda x, *rest: x,
        lambda x, *rest: x[:1],
        lambda x, *rest: x.sum().float(),
        lambda x, *rest: x.sum() * math.nan,
        lambda x, *rest: x.sum() * math.inf,
        lambda x, *rest: x.sqrt().sum(),
        lambda x, *rest: 1.0 / x.sum(),
        lambda x, *rest: x.detach().sum(),
        lambda x, *rest: torch.zeros(()),
        lambda x, *rest: x.round().sum(),
        lambda x, *rest: x.abs().sum(),
        lambda x, *rest: torch.rand((), dtype=x.dtype, generator=own) * x.sum(),
        lambda x, *rest: (x.sum(), x),
        lambda x, *rest: (x.sum(), [1.0]),
        lambda x, *rest: (x.sum(), x.float()),
        lambda x, *rest: rubbish,
    )
    hostile = r.choice(ways)
    return r.choice((usual, usual, usual, usual, hostile, half_way))


def numpy_callable(r: random.Random) -> Callable[..., Any]:
    """A function of an array."""
    calls = [0]

    def usual(x: Any) -> Any:
        return x[0] ** 2 - x[-1] ** 2 + (x**4).sum() / 4

    def writing(x: Any) -> Any:
        value = usual(x)
        x += 1.0
        return value

    def raising(x: Any) -> Any:
        raise HostileError

    def interrupted(x: Any) -> Any:
        raise InterruptError

    def again(x: Any) -> Any:
        calls[0] += 1
        if calls[0] < 3:
            unsaddle.negative_curvature(unsaddle.numpy_function(usual), x.copy(), max_gradients=5)
        return usual(x)

    def half_way(x: Any) -> Any:
        calls[0] += 1
        return usual(x) if calls[0] < r.randrange(1, 8) else hostile(x)

    rubbish = odd_value(r)
    ways: tuple[Callable[[Any], Any], ...] = (
        writing, raising, interrupted, again, lambda x: x, lambda x: np.float32(usual(x)), lambda x: np.nan,
        lambda x: -np.inf, lambda x: (usual(x), x), lambda x: rubbish, lambda x: np.log(x[0]), lambda x: -(x @ x),
        lambda x: np.round(x.sum()),
    )  # fmt: skip
    hostile = r.choice(ways)
    return r.choice((usual, usual, hostile, half_way))


def numpy_gradient(r: random.Random) -> Any:
    rubbish, buffer = odd_value(r), np.zeros(3)

    def usual(x: Any) -> Any:
        g = x**3
        g[0] += 2 * x[0]
        g[-1] -= 2 * x[-1]
        return g

    def one_buffer(x: Any) -> Any:
        buffer[:] = usual(x)
        return buffer

    ways = (one_buffer, lambda x: np.float32(usual(x)), lambda x: x, lambda x: x[:1], lambda x: rubbish)
    return r.choice((usual, usual, None, True, "2-point", r.choice(ways), rubbish))


def objective(r: random.Random) -> Any:
    """An objective, or something that is none."""
    random_rows = torch.randn(20, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    kinds: tuple[Callable[[], Any], ...] = (
        lambda: unsaddle.Function(torch_callable(r), gradient=r.random() < 0.1),
        lambda: unsaddle.Function(torch_callable(r)),
        lambda: unsaddle.FiniteSum(torch_callable(r), random_rows),
        lambda: unsaddle.FiniteSum(torch_callable(r), mostly(r, random_rows)),
        lambda: unsaddle.numpy_function(numpy_callable(r), numpy_gradient(r)),
        lambda: unsaddle.Stream(torch_callable(r), mostly(r, lambda n, g: (random_rows[: min(n, 20)],), length)),
        lambda: mostly(r, unsaddle.Function(torch_callable(r)), unsaddle.Function),
    )
    return r.choice(kinds)()
