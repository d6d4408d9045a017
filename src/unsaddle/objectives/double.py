"""The same function in float64, where a caller's code computes in float32."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from unsaddle.objective import Oracle
from unsaddle.objectives.derivatives import Wrapping

T = TypeVar("T")

LOWER = (torch.float32, torch.float16, torch.bfloat16)

OUT_OF_TORCH = ("numpy", "__array__", "tolist", "__dlpack__")
"""Ways out of torch. What computes there may do so in float32, unseen."""

TO_LOWER = (torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16)

OTHERS = ("torch", "numpy", "builtins")
"""Functions and classes of these are not looked into."""

REACHED = 50_000
"""The most objects that are looked through for what a function holds."""

CHANCE = (
    *("bernoulli", "bernoulli_", "cauchy_", "exponential_", "geometric_", "gumbel_softmax", "log_normal_"),
    *("multinomial", "normal", "normal_", "poisson", "rand", "rand_like", "randn", "randn_like", "random_", "rrelu"),
    "uniform_",
)
"""Functions of torch that draw other numbers in float64. Masks of dropout are the same."""


class Doubling(TorchFunctionMode):
    """Inside, every function of torch takes tensors of less precision as float64 ones, and a wish for it as one for
    float64.

    So a function that holds float32 data, or computes in bfloat16, can be called with a float64 vector, and its
    rounding is gone. A TypeError is raised by ways out of torch, by what would write float64 into a tensor of less
    precision, and by random numbers, which would be others.

    >>> weights = torch.ones(2)
    >>> with Doubling():
    ...     print((torch.zeros(2, dtype=torch.float64) @ weights.float()).dtype)
    torch.float64
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = kwargs or {}, getattr(func, "__name__", "")
        if name in OUT_OF_TORCH and torch.is_floating_point(args[0]):
            raise TypeError(f"the function leaves torch, by Tensor.{name}, for code that may compute in float32")
        if name in CHANCE:
            raise TypeError(f"the function draws random numbers by {name}, which are others in float64")
        written = args[:1] if _writes(name) else ()
        if any(isinstance(t, Tensor) and t.dtype in LOWER for t in (*written, kwargs.get("out"))):
            raise TypeError(f"the function writes by {name} into a tensor of less precision than float64")
        given = (*written, *(_doubled(arg) for arg in args[len(written) :]))
        named = {name: _doubled(arg) for name, arg in kwargs.items()}
        result = (torch.Tensor.double if func in TO_LOWER else func)(*given, **named)
        return result if written or "out" in kwargs else _doubled(result)  # As of torch.zeros, whose dtype is float32.


def _writes(name: str) -> bool:
    """Whether a function of torch writes to its first argument."""
    return (name.endswith("_") and not name.endswith("__")) or name.startswith(("__i", "__set"))


def _doubled(given: Any) -> Any:
    """Tensors and dtypes in nested lists and tuples: float64 in place of less."""
    if isinstance(given, Tensor):
        return given.double() if given.dtype in LOWER else given
    if type(given) in (list, tuple):
        return type(given)(_doubled(part) for part in given)
    return torch.float64 if isinstance(given, torch.dtype) and given in LOWER else given


class Doubled(Generic[T]):
    """A function, computed in float64 as far as torch computes it. What is compiled runs as it was written."""

    def __init__(self, function: Callable[..., T]) -> None:
        self._function = function

    def __call__(self, *args: Any) -> T:
        with torch.compiler.set_stance("force_eager"), Doubling():
            return self._function(*args)


def check_keeps_nothing(function: Any, call: Callable[[], object]) -> None:
    """Raises a ValueError if a call changes which tensors and arrays the function holds.

    So does a solver that starts where it ended. It would keep float64 ones, and its caller uses float32.
    """
    before = list(_held(function, set()))
    call()
    if list(map(id, before)) != list(map(id, _held(function, set()))):
        raise ValueError("the function keeps tensors of one call for the next, so that float64 ones would remain")


def _held(value: Any, seen: set[int]) -> Iterator[Any]:
    """The tensors and arrays that a function can reach by its closure, its globals, its object and its arguments."""
    if id(value) in seen or value is None or isinstance(value, (ModuleType, str, bytes, int, float, complex)):
        return
    seen.add(id(value))
    if len(seen) > REACHED:
        raise ValueError(f"the function reaches more than {REACHED} objects, too many to look through")
    if isinstance(value, (torch.jit.ScriptModule, torch.jit.ScriptFunction)):
        raise ValueError("the function reaches a TorchScript, whose precision is its own")
    if isinstance(value, (Tensor, np.ndarray)):
        yield value
        return
    if str(getattr(value, "__module__", "")).split(".")[0] in OTHERS and isinstance(value, (FunctionType, type)):
        return
    inside: list[Any] = list(getattr(value, "__dict__", {}).values())
    inside += [getattr(value, name, None) for name in _slots(type(value))]
    if isinstance(value, FunctionType):
        inside += [cell.cell_contents for cell in value.__closure__ or () if cell != CellType()]
        inside += [value.__globals__[name] for name in _names(value.__code__) if name in value.__globals__]
        inside += value.__defaults__ or ()
    elif isinstance(value, MethodType):
        inside += [value.__self__, value.__func__]
    elif isinstance(value, functools.partial):
        inside += [value.func, *value.args, *value.keywords.values()]
    elif isinstance(value, Mapping):
        inside += value.values()
    elif isinstance(value, (list, tuple, set, frozenset, deque)):
        inside += value
    elif not isinstance(value, type):
        inside += [type(value)]
    for part in inside:
        yield from _held(part, seen)


def _names(code: CodeType) -> Iterator[str]:
    """The names that a function's code uses, and those of the functions inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _slots(kind: type) -> Iterator[str]:
    """The attributes that objects of a class keep outside of their `__dict__`."""
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        yield from (slots,) if isinstance(slots, str) else slots


class InDouble(Wrapping):
    """Forwards to an oracle that computes in float32 with vectors that are float64, and has it compute in float64."""

    def __init__(self, oracle: Oracle) -> None:
        super().__init__(oracle)
        self._value, self._both = Doubled(oracle.value), Doubled(oracle.value_and_grad)

    def value(self, x: Tensor) -> Tensor:
        return self._value(x)

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self._both(x)
