"""Objectives and oracles: sampling an objective F gives a frozen F_S, which can be evaluated at any point.

    F = FiniteSum(loss, features, labels)
    f = F.sample(100, generator)        # the paper's F_S = (1/|S|) Σ_{i∈S} f(·; ξ_i)
    value, grad = f.value_and_grad(x)   # the same samples answer at x and at x + u

- An `Oracle` computes one frozen function, and does nothing else.
- A `SampledFunction` wraps an oracle: it checks inputs and outputs, and counts every call in a ledger. It has no `hvp`,
  so a gradient-only method cannot use one. `SecondOrderFunction` adds `hvp`, where `hessian=True` asked for it.
- An `Objective` draws samples. Ours derive from `BaseObjective`; `as_objective` accepts any object with `num_samples`
  and `sample`.
"""

from __future__ import annotations

import copy
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

import torch
from torch import Tensor

from unsaddle import checks
from unsaddle.cost import Cost, Ledger
from unsaddle.ranks import Ranks, check_alike, check_seed, current, named, together


class Oracle(ABC):
    """Computes one frozen function. A subclass needs `value_and_grad` only; the other methods have defaults.

    Its callers check points and directions first, and never write to the gradients that it returns.
    """

    adds: bool = False
    """Whether it forms x + scale·u in its own memory, as a model does, so that callers need no vector for it."""
    _name = "this function"

    @abstractmethod
    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """f(x) and ∇f(x)."""

    def value(self, x: Tensor) -> Tensor:
        return self.value_and_grad(x)[0]

    def hvp(self, x: Tensor, v: Tensor) -> Tensor:
        """∇²f(x)v. Raises a ValueError if there are gradients only."""
        raise _gradients_only(self._name)

    def value_and_grad_at_sum(self, x: Tensor, u: Tensor, scale: float) -> tuple[Tensor, Tensor]:
        """f and ∇f at x + scale·u."""
        return self.value_and_grad(torch.add(x, u, alpha=scale))

    def grad_at_sum(self, x: Tensor, u: Tensor | None, scale: float) -> Tensor:
        """∇f at x + scale·u, or at x if u is None. Override it if leaving out the value saves work."""
        value, grad = self.value_and_grad(x) if u is None else self.value_and_grad_at_sum(x, u, scale)
        checks.scalar(value, "the objective")  # Raises for a wrong value, even though it is not used.
        return grad

    def add_grad_at_sum(
        self, out: Tensor, x: Tensor, u: Tensor | None, scale: float, weight: float, afresh: bool
    ) -> None:
        """Add weight·∇f(x + scale·u) to `out`, which is first set to zero if `afresh`. `out` may be u."""
        grad = checks.vector_like(self.grad_at_sum(x, u, scale), x, "the gradient")
        (out.zero_() if afresh else out).add_(grad, alpha=weight)

    def gradient_error(self, value: float, grad_norm: float) -> float:
        """The error of ∇f beyond rounding, given f and ‖∇f‖ at a point."""
        return 0.0

    def values_for_gradient(self, x: Tensor) -> int:
        """How many values one gradient takes, if it is made of differences. They are counted in addition."""
        return 0

    def held(self) -> AbstractContextManager[None]:
        """Inside, evaluations may leave traces, as a model's do in its parameters. All are removed at the end."""
        return nullcontext()


def _gradients_only(name: str) -> ValueError:
    return ValueError(
        f"{name} has gradients only, no Hessian products; use a method that needs no others, such as krylov, neon or "
        "neon+"
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Evaluation:
    """A gradient evaluation at x + scale·u, or at x if u is None. Read-only, and valid until its observer returns.

    `value` is None if only the gradient was asked for. The ledger includes this evaluation.
    """

    x: Tensor
    u: Tensor | None
    scale: float
    value: Tensor | None
    grad: Tensor
    ledger: Ledger

    @property
    def point(self) -> Tensor:
        """The point as one vector, formed on each access."""
        return self.x if self.u is None else torch.add(self.x, self.u, alpha=self.scale)


Observer = Callable[[Evaluation], None]


class SampledFunction:
    """F_S: a frozen function that counts every evaluation, as `size` = |S| samples, in its ledger (by default new)."""

    def __init__(self, oracle: Oracle, size: int, ledger: Ledger | None = None) -> None:
        self._oracle = oracle
        self.size = size
        self.ledger = Ledger() if ledger is None else ledger
        self._observers: tuple[Observer, ...] = ()

    def observed_by(self, observer: Observer) -> SampledFunction:
        """The same function. It calls the observer with each gradient, after counting it."""
        function = copy.copy(self)
        function._observers = (*self._observers, observer)
        return function

    def through(self, wrap: Callable[[Oracle], Oracle]) -> SampledFunction:
        """The function of an oracle that wraps this one's. It counts in the same ledger, for the same observers."""
        function = copy.copy(self)
        function._oracle = wrap(self._oracle)
        return function

    @property
    def cost(self) -> Cost:
        return self.ledger.cost

    @property
    def adds(self) -> bool:
        """Whether the oracle forms x + scale·u in its own memory, as a model does."""
        return self._oracle.adds

    def gradient_error(self, value: float, grad_norm: float) -> float:
        """The error of gradients beyond rounding, given f and ‖∇f‖ at a point; 0 for most oracles."""
        return float(self._oracle.gradient_error(value, grad_norm))

    def held(self) -> AbstractContextManager[None]:
        """For many evaluations in a row: a model is put back at the end, not after each. Observers may look at it
        after each evaluation, so with them nothing changes."""
        return nullcontext() if self._observers else self._oracle.held()

    def value(self, x: Tensor) -> Tensor:
        """F_S(x), as a 0-dimensional tensor."""
        value = checks.scalar(self._oracle.value(checks.point(x)), "the objective")
        self.ledger.add_values(self.size)
        return value

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """F_S(x) and ∇F_S(x). Do not write to the gradient; copy it."""
        x = checks.point(x)
        value, grad = self._oracle.value_and_grad(x)
        value = checks.scalar(value, "the objective")
        return value, self._evaluated(x, None, 0.0, value, grad)

    def value_and_grad_at_sum(self, x: Tensor, u: Tensor, scale: float = 1.0) -> tuple[Tensor, Tensor]:
        """F_S and ∇F_S at x + scale·u."""
        x = checks.point(x)
        u = checks.vector_like(u, x, "u")
        value, grad = self._oracle.value_and_grad_at_sum(x, u, scale)
        value = checks.scalar(value, "the objective")
        return value, self._evaluated(x, u, scale, value, grad)

    def grad(self, x: Tensor) -> Tensor:
        return self.grad_at_sum(x, None)

    def grad_at_sum(self, x: Tensor, u: Tensor | None, scale: float = 1.0) -> Tensor:
        """∇F_S at x + scale·u, or at x if u is None. It saves the message to other ranks that a value may need."""
        x = checks.point(x)
        u = None if u is None else checks.vector_like(u, x, "u")
        return self._evaluated(x, u, scale, None, self._oracle.grad_at_sum(x, u, scale))

    def add_grad_at_sum(
        self,
        out: Tensor,
        x: Tensor,
        u: Tensor | None,
        scale: float = 1.0,
        *,
        subtract: bool = False,
        afresh: bool = False,
    ) -> Tensor:
        """Add ∇F_S at x + scale·u, or at x if u is None, to `out` in place, and return `out`.

        A model's backward pass adds directly to `out` and needs no further vector. `out` may be u: the point is formed
        first. If this raises, the content of `out` is lost. `subtract` subtracts; `afresh` starts from zero.
        """
        sign = -1.0 if subtract else 1.0
        if self._observers:  # They need the gradient as a vector.
            grad = self.grad_at_sum(x, u, scale)
            return (out.zero_() if afresh else out).add_(grad, alpha=sign)
        x = checks.point(x)
        u = None if u is None else checks.vector_like(u, x, "u")
        self._oracle.add_grad_at_sum(checks.vector_like(out, x, "out"), x, u, scale, sign, afresh)
        self._count(x)
        return out

    def _evaluated(self, x: Tensor, u: Tensor | None, scale: float, value: Tensor | None, grad: Tensor) -> Tensor:
        """Check and count the gradient, show it to the observers, and return it."""
        grad = checks.vector_like(grad, x, "the gradient")
        self._count(x)
        if not self.adds and grad.untyped_storage().data_ptr() == x.untyped_storage().data_ptr():
            grad = grad.clone()  # ∇(½‖x‖²) may be x itself, and the caller may change x.
        for observer in self._observers:
            observer(Evaluation(x=x, u=u, scale=scale, value=value, grad=grad, ledger=self.ledger))
        return grad

    def _count(self, x: Tensor) -> None:
        if values := self._oracle.values_for_gradient(x):
            self.ledger.add_values(self.size, values)
        self.ledger.add_gradient(self.size)


class SecondOrderFunction(SampledFunction):
    """F_S with Hessian products, for the second-order methods that NEON is compared with."""

    def hvp(self, x: Tensor, v: Tensor) -> Tensor:
        """∇²F_S(x)v."""
        x = checks.point(x)
        product = self._oracle.hvp(x, checks.vector_like(v, x, "v"))
        product = checks.vector_like(product, x, "the Hessian product")
        self.ledger.add_hessian_product(self.size)
        return product


def freeze(oracle: Oracle, size: int, hessian: bool, ledger: Ledger | None) -> SampledFunction:
    """A `SecondOrderFunction` if `hessian`, else a plain `SampledFunction`."""
    return (SecondOrderFunction if hessian else SampledFunction)(oracle, size, ledger)


@runtime_checkable
class Objective(Protocol):
    """Anything that can be sampled. `BaseObjective` explains the members."""

    @property
    def num_samples(self) -> int | None: ...

    def sample(
        self,
        size: int | None = None,
        generator: torch.Generator | None = None,
        *,
        replacement: bool = False,
        hessian: bool = False,
        ledger: Ledger | None = None,
    ) -> SampledFunction: ...


class BaseObjective(ABC):
    """Base class of objectives. A subclass needs `num_samples` and `_draw`; the defaults suit a plain function of x."""

    second_order: bool = True
    """Whether samples may be drawn with `hessian=True`."""
    least_samples: int = 1
    """The smallest sample that can be evaluated. A model with batch norm in training needs two rows."""
    ranks: Ranks | None = None
    """The ranks that evaluate it together; None in a single process."""
    parameters: object | None = None
    """The `FlatParameters` of a model, if x is made of them."""
    model_mode: str = ""
    """In which mode a model is, train or eval, in words; empty where both compute the same."""

    @property
    @abstractmethod
    def num_samples(self) -> int | None:
        """n of a finite sum, 1 for a plain function, None if samples never run out."""

    @property
    def name(self) -> str:
        """Its name in error messages."""
        return type(self).__name__

    @property
    def point(self) -> Tensor | None:
        """Its current point, used where a caller leaves out x; None if it has none."""
        return None

    def as_vector(self, direction: Any) -> Tensor:
        """A direction in the form that users of this objective see, such as a pytree, as a flat vector."""
        vector: Tensor = direction
        return vector

    @property
    def doubles(self) -> bool:
        """Whether it has an `in_double`."""
        return False

    @property
    def double_size(self) -> int:
        """How many numbers `in_double` copies."""
        return 0

    def in_double(self, x: Tensor, ledger: Ledger) -> BaseObjective:
        """The same function of a float64 x, computed in float64 on copies of what it holds.

        Raises any error where that cannot be had. It is tried next to x; `ledger` counts that.
        """
        raise NotImplementedError(f"a {self.name} is not computed in float64 by itself; ask `doubles` first")

    def assign(self, x: Tensor) -> None:
        """Make x its current point, as after an escape."""
        raise ValueError(f"a {self.name} is at no point, so it cannot be moved to another")

    def sample(
        self,
        size: int | None = None,
        generator: torch.Generator | None = None,
        *,
        replacement: bool = False,
        hessian: bool = False,
        ledger: Ledger | None = None,
    ) -> SampledFunction:
        """Draw and freeze F_S.

        Args:
            size: |S|; None for all samples.
            generator: the randomness; required if there is something to draw.
            replacement: draw independent samples, as the theory does, instead of distinct ones.
            hessian: give the result an `hvp`.
            ledger: where evaluations are counted; a new one by default.
        """
        if hessian and not self.second_order:
            raise _gradients_only(f"a {self.name}")
        oracle, drawn = self._draw(size, generator, replacement)
        return freeze(oracle, drawn, hessian, ledger)

    def _draw(self, size: int | None, generator: torch.Generator | None, replacement: bool) -> tuple[Oracle, int]:
        """The oracle of a sample, and |S|."""
        raise NotImplementedError(f"{type(self).__name__} has neither _draw nor a sample of its own")


class Forwarding(BaseObjective):
    """Base class of wrappers: it forwards every member to another objective, ours or a user's.

    A user's objective may lack the optional members (point, ranks, parameters, ...). Only this class asks for them.
    """

    def __init__(self, objective: Objective) -> None:
        self._objective = objective
        self.second_order = getattr(objective, "second_order", True)
        self.ranks = getattr(objective, "ranks", None)
        self.parameters = getattr(objective, "parameters", None)
        self.least_samples = getattr(objective, "least_samples", 1)
        self.model_mode = getattr(objective, "model_mode", "")

    @property
    def num_samples(self) -> int | None:
        return self._objective.num_samples

    @property
    def name(self) -> str:
        return getattr(self._objective, "name", type(self._objective).__name__)

    @property
    def point(self) -> Tensor | None:
        return getattr(self._objective, "point", None)

    def as_vector(self, direction: Any) -> Tensor:
        vector: Tensor = getattr(self._objective, "as_vector", super().as_vector)(direction)
        return vector

    @property
    def doubles(self) -> bool:
        return getattr(self._objective, "doubles", False)

    @property
    def double_size(self) -> int:
        return getattr(self._objective, "double_size", 0)

    def in_double(self, x: Tensor, ledger: Ledger) -> BaseObjective:
        double = copy.copy(self)
        double._objective = getattr(self._objective, "in_double", super().in_double)(x, ledger)
        return double

    def assign(self, x: Tensor) -> None:
        getattr(self._objective, "assign", super().assign)(x)

    def sample(self, size: int | None = None, generator: torch.Generator | None = None, **how: Any) -> SampledFunction:
        return self._objective.sample(size, generator, **how)


class Observed(Forwarding):
    """An objective that shows every gradient of its samples to an observer, exactly once.

    >>> from unsaddle import Function
    >>> norms = []
    >>> F = Observed(Function(lambda x: x.square().sum()), lambda seen: norms.append(float(seen.grad.norm())))
    >>> _ = F.sample().grad(torch.tensor([3.0, 4.0]))
    >>> norms
    [10.0]
    """

    def __init__(self, objective: Objective, observer: Observer) -> None:
        super().__init__(objective)
        self._observer = observer

    def sample(self, size: int | None = None, generator: torch.Generator | None = None, **how: Any) -> SampledFunction:
        return super().sample(size, generator, **how).observed_by(self._observer)


def as_objective(objective: Any) -> BaseObjective:
    """The objective with all members of `BaseObjective`. Raises a TypeError if it is none."""
    if isinstance(objective, BaseObjective):
        return objective
    if isinstance(objective, Objective) and not isinstance(objective, type):
        return Forwarding(objective)
    got = f"the class {objective.__name__}" if isinstance(objective, type) else type(objective).__name__
    raise TypeError(
        f"objective must be a Function, FiniteSum, Stream or the like, got {got}; "
        "wrap a callable as unsaddle.Function(fun), a model as unsaddle.ModelObjective(model, loss, data)"
    )


def point_of(objective: Objective, x: Any, name: str = "x") -> Tensor:
    """x, or the objective's own `point` if x is None."""
    if x is None:
        x = as_objective(objective).point
        if x is None:
            raise ValueError(f"{name} was left out, but this objective has no point of its own; pass {name}")
    return checks.point(x, name)


F = TypeVar("F", bound=Callable[..., Any])


def with_its_ranks(function: F) -> F:
    """Decorator for functions of an objective: calls `as_objective`; inside, vectors are spread over its ranks."""

    @functools.wraps(function)
    def run(objective: Any, *args: Any, **kwargs: Any) -> Any:
        objective = as_objective(objective)
        ranks = objective.ranks
        if ranks is None or ranks is current():
            return function(objective, *args, **kwargs)
        with named(ranks, function.__name__):
            check_alike(ranks, args[0] if args else kwargs.get("x", kwargs.get("x0")))
            check_seed(ranks, kwargs.get("seed", 0))
            with together(ranks):
                return function(objective, *args, **kwargs)

    return cast(F, run)
