"""JAX functions as objectives. Gradients come from jax.grad, jitted; arrays are exchanged without copies.

    verdict = is_minimum(loss, params)          # params: an array, or a pytree of arrays; verdict.direction is alike
    f = function(lambda x: x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4)
    unsaddle.is_minimum(f, jnp.zeros(2))        # any function of this library, on flat vectors

`is_minimum`, `negative_curvature` and `minimize` here take a JAX function of an array or a pytree, and return the point
and the direction in kind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import torch
import torch.utils.dlpack
from jax.flatten_util import ravel_pytree
from torch import Tensor

from unsaddle import checks, methods
from unsaddle.curvature import extract
from unsaddle.curvature.result import Curvature
from unsaddle.judgement import minimum
from unsaddle.judgement.verdict import Verdict
from unsaddle.objective import Oracle
from unsaddle.objectives import derivatives
from unsaddle.objectives.deterministic import Deterministic
from unsaddle.run import Solution


def is_minimum(fun: Callable[[Any], Any], x: Any, *, jit: bool = True, **asked: Any) -> Verdict:
    """`unsaddle.is_minimum` of a JAX function at x, an array of any shape or a pytree. `direction` has x's form.

    Args:
        fun: `fun(x) -> scalar`, traceable by JAX.
        x: the point: floats, all of one dtype.
        jit: whether to compile; False for functions that cannot be compiled.
        **asked: the other arguments of `unsaddle.is_minimum`.

    >>> params = {"w": jnp.zeros((1, 1)), "b": jnp.zeros(1)}
    >>> verdict = is_minimum(lambda p: (p["b"] ** 2 - p["w"][0] ** 2 + p["w"][0] ** 4 / 4).sum(), params)
    >>> verdict.kind, verdict.direction["w"].shape
    ('saddle', (1, 1))
    >>> print(verdict.where())
    100% in w.
    """
    f, point, in_kind = _flat(fun, x, checks.flag(jit, "jit"))
    verdict = minimum.is_minimum(f, point, **asked)
    return verdict if verdict.direction is None else replace(verdict, direction=in_kind(verdict.direction))


def negative_curvature(fun: Callable[[Any], Any], x: Any, *, jit: bool = True, **asked: Any) -> Curvature:
    """`unsaddle.negative_curvature` of a JAX function at x, an array or a pytree. `direction` has x's form."""
    f, point, in_kind = _flat(fun, x, checks.flag(jit, "jit"))
    found = extract.negative_curvature(f, point, **asked)
    return found if found.direction is None else replace(found, direction=in_kind(found.direction))


def minimize(fun: Callable[[Any], Any], x0: Any, *, jit: bool = True, **asked: Any) -> Solution:
    """`unsaddle.minimize` of a JAX function from x0, an array or a pytree. `x` of the solution has x0's form."""
    f, point, in_kind = _flat(fun, x0, checks.flag(jit, "jit"))
    solution = methods.minimize(f, point, **asked)
    return replace(solution, x=in_kind(solution.x))


def _flat(fun: Callable[[Any], Any], x: Any, jit: bool) -> tuple[JaxFunction, Tensor, Callable[[Tensor], Any]]:
    """The function of a flat vector, x as such a vector, and the map back to x's form."""
    derivatives.check_callable(fun, "fun", ["x"])
    try:
        dtypes = sorted({str(jnp.result_type(leaf)) for leaf in jax.tree.leaves(x)})
    except (TypeError, ValueError):
        raise TypeError("x must be arrays, or a pytree of arrays, got leaves that are none; convert them") from None
    if dtypes not in (["float32"], ["float64"]):
        got = " and ".join(dtypes) or "no leaves"
        raise TypeError(f"x must be arrays of float32, or of float64, got {got}; convert its leaves to one of them")
    flat, unravel = ravel_pytree(x)
    if flat.size == 0:
        raise ValueError("x is empty; a point needs at least one coordinate")

    def in_kind(vector: Tensor) -> Any:
        return unravel(jnp.array(to_jax(vector)))  # A copy, which the caller may keep.

    leaves = None if jax.tree_util.all_leaves([x]) else Leaves(x)
    f = JaxFunction(lambda vector: checks.called("fun(x)", fun, unravel(vector)), jit, leaves)
    return f, _to_torch(flat), in_kind


class Leaves:
    """The leaves of a pytree as parts of a flat vector, by name: `b.w` is `x["b"]["w"]`."""

    def __init__(self, tree: Any) -> None:
        named = jax.tree_util.tree_leaves_with_path(tree)
        self.names = tuple(jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in named)
        self._sizes = [int(jnp.size(leaf)) for _, leaf in named]
        self.dimension = sum(self._sizes)

    def pieces(self, vector: Tensor) -> list[tuple[str, Tensor]]:
        """Each leaf's name and its part of the vector."""
        return list(zip(self.names, torch.split(vector, self._sizes), strict=True))


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
    derivatives.check_callable(fun, "fun", ["x"])
    return JaxFunction(lambda x: checks.called("fun(x)", fun, x), checks.flag(jit, "jit"))


class JaxFunction(Deterministic):
    """The deterministic objective that `function` returns."""

    def __init__(self, fun: Callable[[Any], Any], jit: bool, leaves: Leaves | None = None) -> None:
        super().__init__(_JaxOracle(fun, jit), "a JAX function")
        self.parameters = leaves

    def as_vector(self, direction: Any) -> Tensor:
        return direction if isinstance(direction, Tensor) else _to_torch(ravel_pytree(direction)[0])


class _JaxOracle(Oracle):
    def __init__(self, fun: Callable[[Any], Any], jit: bool) -> None:
        compiled: Callable[..., Any] = jax.jit if jit else lambda fun: fun

        def scalar(x: Any) -> Any:
            value = _as_array(fun(x))
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


def _as_array(result: Any) -> Any:
    """What fun returned, as an array of real numbers."""
    try:
        value = None if isinstance(result, (str, bytes)) else jnp.asarray(result)
    except (TypeError, ValueError, OverflowError):
        value = None
    if value is None or jnp.iscomplexobj(value):
        raise TypeError(f"fun must return a real number, got {type(result).__name__} {getattr(result, 'dtype', '')}")
    return value if jnp.issubdtype(value.dtype, jnp.floating) else value.astype(float)


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
