"""Oracles from a callable: derivatives by autograd, or from the caller's own formulas."""

from __future__ import annotations

import contextlib
import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from unsaddle import checks
from unsaddle.objective import Oracle

Product = Callable[[Tensor, Tensor], Tensor]
"""(x, v) ↦ ∇²f(x)v."""


class Autograd(Oracle):
    """Oracle of `fun(x) -> scalar` by reverse-mode differentiation; Hessian products by differentiating twice.

    `fun` gets a vector of its own, which it may write to.
    """

    def __init__(self, fun: Callable[..., Tensor], hvp: Product | None = None, *rows: Tensor) -> None:
        self._fun, self._hvp, self._rows = fun, hvp, rows

    def _called(self, x: Tensor) -> Tensor:
        try:
            result = checks.called(_name(self._rows), self._fun, x, *self._rows)
        except (RuntimeError, TypeError) as error:
            if "numpy()" in str(error) or checks.module_of(error).split(".")[0] == "numpy":
                raise TypeError(
                    "the objective calls NumPy with a tensor that autograd follows; write it with torch, or use "
                    "unsaddle.numpy_function(fun, jac) for NumPy code"
                ) from error
            raise
        if isinstance(result, tuple):
            raise TypeError(
                "the objective must return a scalar tensor, got tuple; is it (value, gradient)? Pass gradient=True"
            )
        return checks.scalar(result, "the objective")

    def value(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            return self._called(x.clone()).detach()

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        with torch.inference_mode(False):
            return self._differentiated(x.clone())

    def value_and_grad_at_sum(self, x: Tensor, u: Tensor, scale: float) -> tuple[Tensor, Tensor]:
        with torch.inference_mode(False):
            return self._differentiated(torch.add(x, u, alpha=scale))

    def _differentiated(self, own: Tensor) -> tuple[Tensor, Tensor]:
        """f and ∇f at a vector that nobody else holds."""
        with torch.enable_grad():
            value = self._called(own.requires_grad_())
        grad = torch.autograd.grad(value, own, allow_unused=True)[0] if value.requires_grad else None
        if grad is None:
            warnings.warn(
                "the objective does not depend on x through autograd, so its gradient is taken to be zero; "
                "if it should, look for detach(), item() or NumPy inside it",
                RuntimeWarning,
                stacklevel=4,
            )
            return value.detach(), torch.zeros_like(own, requires_grad=False)
        return value.detach(), grad

    def hvp(self, x: Tensor, v: Tensor) -> Tensor:
        if self._hvp is not None:
            return self._hvp(x.clone(), v)
        with torch.inference_mode(False), torch.enable_grad():
            own = x.clone().requires_grad_()
            value = self._called(own)
            if not value.requires_grad:
                return torch.zeros_like(x)
            (grad,) = torch.autograd.grad(value, own, create_graph=True, materialize_grads=True)
            if not grad.requires_grad:  # The function is affine in x.
                return torch.zeros_like(x)
            (product,) = torch.autograd.grad(grad, own, grad_outputs=v, materialize_grads=True)
        return product


class ByHand(Oracle):
    """Oracle of `fun(x) -> (value, gradient)`; Hessian products only if `hvp(x, v)` is given.

    `fun` gets a vector of its own, which it may write to.
    """

    def __init__(self, fun: Callable[..., tuple[Any, Tensor]], hvp: Product | None = None, *rows: Tensor) -> None:
        self._fun, self._hvp, self._rows = fun, hvp, rows

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self._both(x.clone())

    def value_and_grad_at_sum(self, x: Tensor, u: Tensor, scale: float) -> tuple[Tensor, Tensor]:
        return self._both(torch.add(x, u, alpha=scale))

    def _both(self, own: Tensor) -> tuple[Tensor, Tensor]:
        """f and ∇f at a vector that nobody else holds."""
        result = checks.called(_name(self._rows), self._fun, own, *self._rows)
        if not (isinstance(result, tuple) and len(result) == 2):
            raise TypeError(
                f"with gradient=True the function must return (value, gradient), got {type(result).__name__}; "
                "leave gradient out to have it differentiated"
            )
        grad = result[1].detach() if isinstance(result[1], Tensor) else result[1]
        return checks.scalar(result[0], "the objective").detach(), grad

    def hvp(self, x: Tensor, v: Tensor) -> Tensor:
        if self._hvp is None:
            raise ValueError(
                "Hessian products were asked for, but this objective has a gradient by hand and no hvp; "
                "pass hvp=, or leave gradient out, or use a method that needs gradients only"
            )
        return self._hvp(x.clone(), v)


class Wrapping(Oracle):
    """What an oracle around another one passes on."""

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle

    def gradient_error(self, value: float, grad_norm: float) -> float:
        return self._oracle.gradient_error(value, grad_norm)

    def values_for_gradient(self, x: Tensor) -> int:
        return self._oracle.values_for_gradient(x)

    def held(self) -> contextlib.AbstractContextManager[None]:
        return self._oracle.held()


class SameDtype(Wrapping):
    """Forwards to an oracle, after checking that x and the floating-point data agree in dtype and device."""

    def __init__(self, oracle: Oracle, rows: tuple[Tensor, ...]) -> None:
        self._oracle, self.adds = oracle, oracle.adds
        self._expected = [(i, t.dtype, t.device) for i, t in enumerate(rows) if t.is_floating_point()]

    def _for(self, x: Tensor) -> Oracle:
        for i, dtype, device in self._expected:
            if x.dtype != dtype or x.device != device:
                raise TypeError(
                    f"x is {x.dtype} on {x.device}, but data tensor {i} is {dtype} on {device}; "
                    "convert one of them with .to(...)"
                )
        return self._oracle

    def value(self, x: Tensor) -> Tensor:
        return self._for(x).value(x)

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self._for(x).value_and_grad(x)

    def hvp(self, x: Tensor, v: Tensor) -> Tensor:
        return self._for(x).hvp(x, v)

    def value_and_grad_at_sum(self, x: Tensor, u: Tensor, scale: float) -> tuple[Tensor, Tensor]:
        return self._for(x).value_and_grad_at_sum(x, u, scale)

    def grad_at_sum(self, x: Tensor, u: Tensor | None, scale: float) -> Tensor:
        return self._for(x).grad_at_sum(x, u, scale)

    def add_grad_at_sum(
        self, out: Tensor, x: Tensor, u: Tensor | None, scale: float, weight: float, afresh: bool
    ) -> None:
        self._for(x).add_grad_at_sum(out, x, u, scale, weight, afresh)


def oracle(fun: Callable[..., Any], gradient: bool, hvp: Product | None, *rows: Tensor) -> Oracle:
    """The oracle of x ↦ `fun(x, *rows)`: `ByHand` if it returns its own gradient, else `Autograd`."""
    return ByHand(fun, hvp, *rows) if gradient else Autograd(fun, hvp, *rows)


def of_rows(loss: Callable[..., Any], gradient: bool, hvp: Callable[..., Tensor] | None, *rows: Tensor) -> Oracle:
    """The oracle of x ↦ `loss(x, *rows)`."""
    return oracle(loss, gradient, None if hvp is None else lambda x, v: hvp(x, v, *rows), *rows)


def _name(rows: tuple[Tensor, ...]) -> str:
    return "loss(x, *rows)" if rows else "fun(x)"


def check_callable(fun: Any, name: str, arguments: Sequence[str] | None = None) -> None:
    """Raise a TypeError if `fun` is not callable, or a class, which makes an object instead of a number; or if it
    cannot be called with these arguments, where they are given."""
    if isinstance(fun, type):
        raise TypeError(f"{name} must be a function, got the class {fun.__name__}; pass an instance or a function")
    if not callable(fun):
        raise TypeError(f"{name} must be callable, got {type(fun).__name__}")
    if arguments is None:
        return
    with contextlib.suppress(ValueError):  # Some functions written in C do not tell what they take.
        signature = inspect.signature(fun)
        try:
            signature.bind(*arguments)
        except TypeError as error:
            wanted = f"({', '.join(arguments)})"
            raise TypeError(f"{name} must take {wanted}, got a function of {signature}: {error}") from None
