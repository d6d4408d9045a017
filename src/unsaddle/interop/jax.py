"""JAX functions as objectives. Gradients come from jax.grad, jitted; arrays are exchanged without copies.

    f = function(lambda x: x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4)
    unsaddle.is_minimum(f, torch.zeros(2))

Points are torch vectors. `torch.from_dlpack(array)` makes one from a JAX array, without a copy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import torch
import torch.utils.dlpack
from torch import Tensor

from unsaddle.objective import Oracle
from unsaddle.objectives import derivatives
from unsaddle.objectives.deterministic import Deterministic


def function(fun: Callable[[Any], Any], *, jit: bool = True) -> JaxFunction:
    """An objective from a JAX function of a flat vector.

    Points may be float32, or float64 after `jax.config.update("jax_enable_x64", True)`. Points and gradients share
    memory between torch and JAX, by DLPack. JAX copies a point whose memory is not aligned to 64 bytes.

    Args:
        fun: `fun(x) -> scalar`, traceable by JAX.
        jit: whether to compile it with its gradient; False for functions that cannot be compiled.

    >>> f = function(lambda x: (x ** 4).sum() / 4)
    >>> f.sample().grad(torch.tensor([1.0, 2.0])).tolist()
    [1.0, 8.0]
    """
    derivatives.check_callable(fun, "fun")
    return JaxFunction(fun, jit)


class JaxFunction(Deterministic):
    """The deterministic objective that `function` returns."""

    def __init__(self, fun: Callable[[Any], Any], jit: bool) -> None:
        super().__init__(_JaxOracle(fun, jit), "a JAX function")


class _JaxOracle(Oracle):
    def __init__(self, fun: Callable[[Any], Any], jit: bool) -> None:
        compiled: Callable[..., Any] = jax.jit if jit else lambda fun: fun

        def scalar(x: Any) -> Any:
            value = jnp.asarray(fun(x))
            if value.size != 1:
                raise ValueError(
                    f"fun must return a scalar, got an array of shape {value.shape}; reduce it with .sum()"
                )
            return value.reshape(())

        self._value, self._both = compiled(scalar), compiled(jax.value_and_grad(scalar))
        self._product = compiled(lambda x, v: jax.jvp(jax.grad(scalar), (x,), (v,))[1])

    def value(self, x: Tensor) -> Tensor:
        return _to_torch(self._value(to_jax(x)))

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        value, grad = self._both(to_jax(x))
        return _to_torch(value), _to_torch(grad)

    def hvp(self, x: Tensor, v: Tensor) -> Tensor:
        return _to_torch(self._product(to_jax(x), to_jax(v)))


def to_jax(x: Tensor) -> Any:
    """The same numbers as a JAX array, in the same memory if that is aligned. Do not keep it: torch may write there."""
    if x.dtype == torch.float64 and not jax.config.jax_enable_x64:  # type: ignore[attr-defined]
        enable = 'call jax.config.update("jax_enable_x64", True) first, or pass x.float()'
        raise TypeError(f"x is float64, but JAX computes in float32; {enable}")
    return jnp.from_dlpack(x)


def _to_torch(array: Any) -> Tensor:
    """The same numbers as a tensor in JAX's memory. Waits for JAX, since torch may change x afterwards."""
    tensor: Tensor = torch.utils.dlpack.from_dlpack(array.block_until_ready())
    return tensor
