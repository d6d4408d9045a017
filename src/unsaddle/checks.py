"""Checks of arguments. Each error says what was expected, what came, and what to do."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unsaddle import ranks

FLOATS = (torch.float32, torch.float64)


def point(x: Any, name: str = "x") -> Tensor:
    """`x` as a contiguous 1-D float tensor outside autograd. The caller's tensor is never written to."""
    if isinstance(x, np.ndarray):
        x = torch.from_numpy(np.array(x, order="C"))  # A copy: torch lacks read-only tensors and negative strides.
    if not isinstance(x, Tensor):
        raise TypeError(
            f"{name} must be a 1-D float tensor or array, got {type(x).__name__}; use torch.as_tensor({name})"
        )
    if x.dtype not in FLOATS:
        raise TypeError(f"{name} must be float32 or float64, got {_short(x.dtype)}; convert it, e.g. {name}.double()")
    if x.layout is not torch.strided:
        raise TypeError(f"{name} must be a dense tensor, got layout {x.layout}; use {name}.to_dense()")
    if x.is_meta:
        raise ValueError(f"{name} must hold numbers, got a tensor on the meta device; make it on a real one")
    if x.ndim != 1:
        raise ValueError(f"{name} must have one dimension, got shape {tuple(x.shape)}; use {name}.flatten()")
    if x.numel() == 0 and ranks.current() is None:  # A rank may hold no part of a small vector.
        raise ValueError(f"{name} is empty; a point needs at least one coordinate")
    return x.detach().contiguous()


def vector_like(v: Any, x: Tensor, name: str) -> Tensor:
    """`v`, detached. It must have the shape, dtype and device of `x`."""
    if not isinstance(v, Tensor):
        raise TypeError(f"{name} must be a tensor, got {type(v).__name__}")
    if v.shape != x.shape:
        raise ValueError(f"{name} must have the shape of x, {tuple(x.shape)}, got {tuple(v.shape)}")
    if v.dtype != x.dtype:
        raise TypeError(f"{name} must have the dtype of x, {_short(x.dtype)}, got {_short(v.dtype)}")
    if v.layout is not torch.strided:
        raise TypeError(f"{name} must be a dense tensor, got layout {v.layout}; use .to_dense()")
    if v.device != x.device:
        raise ValueError(f"{name} must be on the device of x, {x.device}, got {v.device}")
    return v.detach()


def scalar(value: Any, name: str, reduction: str = ".mean() or .sum()") -> Tensor:
    """`value`, a number or a tensor with one element, as a 0-dimensional tensor."""
    if not isinstance(value, Tensor):
        if isinstance(value, (int, float, np.integer, np.floating)):
            return torch.tensor(float(value), dtype=torch.float64)
        raise TypeError(f"{name} must return a scalar tensor, got {type(value).__name__}")
    if value.numel() != 1:
        raise ValueError(
            f"{name} must return a scalar, got a tensor of shape {tuple(value.shape)}; reduce it with {reduction}"
        )
    return value.reshape(())


def positive(value: float, name: str, hint: str = "") -> float:
    """`value` as a finite float above zero."""
    number = _number(value, name)
    if not (number > 0.0 and math.isfinite(number)):
        raise ValueError(f"{name} must be a finite number > 0, got {value!r}" + (f"; {hint}" if hint else ""))
    return number


def not_negative(value: float, name: str, hint: str = "") -> float:
    """`value` as a finite float, zero or above."""
    number = _number(value, name)
    if not (number >= 0.0 and math.isfinite(number)):
        raise ValueError(f"{name} must be a finite number >= 0, got {value!r}" + (f"; {hint}" if hint else ""))
    return number


def probability(value: float, name: str) -> float:
    """`value` as a float strictly between zero and one."""
    number = _number(value, name)
    if not 0.0 < number < 1.0:
        raise ValueError(f"{name} must be between 0 and 1, got {value!r}; it is the probability of a wrong answer")
    return number


def count(value: Any, name: str, at_least: int = 1) -> int:
    """`value` as an integer of at least `at_least`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if value < at_least:
        raise ValueError(f"{name} must be at least {at_least}, got {value}")
    return int(value)


def seed(value: Any, name: str = "seed") -> int:
    """`value`, any integer of at least zero, as a Python int that torch's generators take, with room to count up."""
    return count(value, name, at_least=0) % 2**62


def choice(value: Any, name: str, choices: tuple[str, ...]) -> str:
    """`value` if it is one of `choices`."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}; got {value!r}")
    return str(value)


def generator(value: Any) -> torch.Generator:
    """`value` if it is a torch generator."""
    if not isinstance(value, torch.Generator):
        raise (ValueError if value is None else TypeError)(
            f"drawing samples needs a generator, got {value!r}; pass torch.Generator().manual_seed(...)"
        )
    return value


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"{name} must be a number, got {value!r}")
    return float(value)


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
