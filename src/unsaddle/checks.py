"""Checks of arguments. Each error says what was expected, what came, and what to do."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor, nn

from unsaddle import ranks

FLOATS = (torch.float32, torch.float64)

EXTREME = 1e-50
"""Numbers below this, or above its inverse, may overflow in formulas of the sixth degree, as those of the theorems."""

F = TypeVar("F", bound=Callable[..., Any])


def point(x: Any, name: str = "x") -> Tensor:
    """`x` as a contiguous 1-D float tensor outside autograd. The caller's tensor is never written to.

    Lists of numbers, NumPy's and JAX's arrays are taken, too, and integers in them become float64, as in SciPy.
    """
    if not isinstance(x, Tensor):
        x = _from_array(x, name)
    if x.dtype not in FLOATS:
        advice = f"use torch.view_as_real({name}).flatten()" if x.is_complex() else f"convert it, e.g. {name}.double()"
        raise TypeError(f"{name} must be float32 or float64, got {_short(x.dtype)}; {advice}")
    if x.layout is not torch.strided:
        raise TypeError(f"{name} must be a dense tensor, got layout {x.layout}; use {name}.to_dense()")
    if x.is_meta:
        raise ValueError(f"{name} must hold numbers, got a tensor on the meta device; make it on a real one")
    if x.ndim != 1:
        raise ValueError(f"{name} must have one dimension, got shape {tuple(x.shape)}; use {name}.flatten()")
    if x.numel() == 0 and ranks.current() is None:  # A rank may hold no part of a small vector.
        raise ValueError(f"{name} is empty; a point needs at least one coordinate")
    own: Tensor = (x.detach() if x.requires_grad else x).contiguous()
    return own


def _from_array(x: Any, name: str) -> Tensor:
    """A copy, as torch lacks read-only tensors, negative strides and foreign byte orders."""
    expected = f"{name} must be a 1-D float tensor or array, or a list of numbers"
    parameters = isinstance(x, dict) or (isinstance(x, (list, tuple)) and any(isinstance(v, nn.Parameter) for v in x))
    if parameters:  # model.state_dict(), or list(model.parameters()).
        advice = f"leave {name} out to take a model's parameters as they are, or pass objective.point"
        raise TypeError(f"{expected}, got {type(x).__name__}; {advice}")
    if not (isinstance(x, (list, tuple)) or hasattr(x, "__array__")):
        raise TypeError(f"{expected}, got {type(x).__name__}")
    try:
        array = np.array(x, order="C")
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"{expected}, got a {type(x).__name__} that is no array of numbers") from None
    if array.dtype.kind in "iu":
        array = array.astype(np.float64)
    if array.dtype.kind != "f" or array.dtype.itemsize not in (4, 8):
        hint = f"pass the real and imaginary parts as one vector, {name}.view(float)"
        hint = hint if array.dtype.kind == "c" else f"convert it, e.g. np.asarray({name}, dtype=float)"
        raise TypeError(f"{name} must be float32 or float64, got {array.dtype}; {hint}")
    return torch.from_numpy(array.astype(array.dtype.newbyteorder("="), copy=False))


def vector_like(v: Any, x: Tensor, name: str) -> Tensor:
    """`v`, detached. It must have the shape, dtype and device of `x`."""
    if not isinstance(v, Tensor):
        hint = "; for NumPy code use unsaddle.numpy_function" if isinstance(v, np.ndarray) else ""
        raise TypeError(f"{name} must be a tensor, got {type(v).__name__}{hint}")
    if v.shape != x.shape:
        raise ValueError(f"{name} must have the shape of x, {tuple(x.shape)}, got {tuple(v.shape)}")
    if v.dtype != x.dtype:
        raise TypeError(f"{name} must have the dtype of x, {_short(x.dtype)}, got {_short(v.dtype)}")
    if v.layout is not torch.strided:
        raise TypeError(f"{name} must be a dense tensor, got layout {v.layout}; use .to_dense()")
    if v.device != x.device:
        raise ValueError(f"{name} must be on the device of x, {x.device}, got {v.device}")
    return v.detach() if v.requires_grad else v


def scalar(value: Any, name: str, reduction: str = ".mean() or .sum()") -> Tensor:
    """`value`, a number or a tensor with one element, as a 0-dimensional tensor."""
    if not isinstance(value, Tensor):
        if isinstance(value, (int, float, np.integer, np.floating)):
            return torch.tensor(float(value), dtype=torch.float64)
        raise TypeError(f"{name} must return a scalar tensor, got {type(value).__name__}")
    if value.is_complex():
        raise TypeError(f"{name} must return a real number, got {_short(value.dtype)}; take .real or .abs()")
    if value.numel() != 1:
        raise ValueError(
            f"{name} must return a scalar, got a tensor of shape {tuple(value.shape)}; reduce it with {reduction}"
        )
    return value if value.ndim == 0 else value.reshape(())


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
    """`value` as a float strictly between zero and one. One so small that its half may be zero counts as zero."""
    number = _number(value, name)
    if not sys.float_info.min <= number < 1.0:
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
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}; got {value!r}")
    return value


def flag(value: Any, name: str) -> bool:
    """`value` as a bool, if it is one, or 0 or 1. A word such as "no" would count as true."""
    if isinstance(value, (bool, int, np.bool_, np.integer)) and value in (0, 1):
        return bool(value)
    raise TypeError(f"{name} must be True or False, got {value!r}")


def callback(value: Any, takes: str) -> None:
    """Raises unless `value` is None, or a callable that is no class: that would make an object of what it is told."""
    if value is not None and (isinstance(value, type) or not callable(value)):
        raise TypeError(f"callback must take {takes}, got {value!r}; leave it out if there is none")


def called(name: str, fun: Callable[..., Any], *arguments: Any, advice: str = "") -> Any:
    """`fun(*arguments)`, code of the user's own. An error gets a note of what it was called with, and what to check."""
    try:
        return fun(*arguments)
    except Exception as error:
        told = ", ".join(described(argument) for argument in arguments)
        check = advice or "Check that it is meant for an x of that shape and dtype."
        error.add_note(f"The error came out of your own {name}, which was called with {told}. {check}")
        raise


def described(value: Any) -> str:
    """The shapes and dtypes of an argument.

    >>> described((torch.zeros(2, 3), {"label": np.zeros(2)}, "a"))
    '(float32 of shape (2, 3), {label: float64 of shape (2,)}, str)'
    """
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{_short(value.dtype)} of shape {tuple(value.shape)}"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {described(part)}' for key, part in value.items())}}}"
    if isinstance(value, (list, tuple)):
        return f"({', '.join(map(described, value))})"
    return type(value).__name__


def in_range(function: F) -> F:
    """Decorator: if one of our formulas overflows or divides by zero, and an argument is extreme, that is the reason.

    The ValueError names the argument. Errors in the caller's own code, and ours at ordinary arguments, stay.
    """

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except ArithmeticError as error:
            numbers = {name: v for name, v in kwargs.items() if isinstance(v, (int, float, np.integer, np.floating))}
            sizes = {name: abs(float(v)) for name, v in numbers.items() if v != 0}
            extreme = [f"{name}={kwargs[name]!r}" for name, v in sizes.items() if not EXTREME < v < 1.0 / EXTREME]
            if not extreme or not module_of(error).startswith("unsaddle."):
                raise
            raise ValueError(
                f"{extreme[0]} is too far from 1: a formula that it enters leaves the range of floating-point numbers; "
                "choose another, or multiply F by a number so that it fits"
            ) from error

    return cast(F, run)


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


def module_of(error: BaseException) -> str:
    """The name of the module whose code raised the error; "" if there is none."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    return "" if frame is None else str(frame.tb_frame.f_globals.get("__name__", ""))


def _short(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")
