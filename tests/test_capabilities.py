"""What oracles and objectives can be asked is stated in a base class, and whoever wraps one drops none of it."""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import TensorDataset

import unsaddle
from unsaddle import Function, ModelObjective, Neon, is_minimum, minimize, negative_curvature
from unsaddle.cost import Cost, Ledger
from unsaddle.objective import (
    BaseObjective,
    Evaluation,
    Forwarding,
    Objective,
    Observed,
    Oracle,
    SampledFunction,
    as_objective,
    point_of,
)
from unsaddle.objectives.derivatives import SameDtype
from unsaddle.run import Budget, CountedObjective

X = torch.tensor([1.0, -2.0], dtype=torch.float64)
U = torch.tensor([0.5, 3.0], dtype=torch.float64)
SUM = X + 2.0 * U


def public(kind: type) -> list[str]:
    return [name for name in dir(kind) if not name.startswith("_")]


# --- Oracles --------------------------------------------------------------------------------------------------------


class Cubic(Oracle):
    """Σx³/3, with value and gradient only."""

    def value(self, x: Tensor) -> Tensor:
        return (x**3).sum() / 3.0

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.value(x), x**2


def test_an_oracle_with_value_and_gradient_alone_can_be_asked_everything() -> None:
    f = unsaddle.objective.freeze(Cubic(), 5, True, None)
    value, grad = f.value_and_grad_at_sum(X, U, 2.0)
    assert (float(value), grad.tolist()) == (float((SUM**3).sum() / 3.0), (SUM**2).tolist())
    assert torch.equal(f.grad(X), X**2)
    assert torch.equal(f.grad_at_sum(X, U, 2.0), SUM**2)
    assert torch.equal(f.grad_at_sum(X, None), X**2)
    assert torch.equal(f.add_grad_at_sum(U.clone(), X, U, 2.0), U + SUM**2)
    assert torch.equal(f.add_grad_at_sum(U.clone(), X, None, subtract=True), U - X**2)
    out = U.clone()
    assert torch.equal(f.add_grad_at_sum(out, X, out, 2.0, subtract=True, afresh=True), -(SUM**2))
    assert (f.adds, f.gradient_error(1.0, 1.0)) == (False, 0.0)
    assert f.cost == Cost(gradients=7, samples=35)
    with pytest.raises(ValueError, match="this function has gradients only, no Hessian products; use a method"):
        f.hvp(X, U)  # type: ignore[attr-defined]


def test_the_gradient_alone_is_enough_of_an_oracle_and_nothing_is_not() -> None:
    class Gradient(Oracle):
        def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return x.sum(), torch.ones_like(x)

    assert float(SampledFunction(Gradient(), 1).value(X)) == -1.0
    with pytest.raises(TypeError, match="value_and_grad"):
        Oracle()  # type: ignore[abstract]


class Flawed(Oracle):
    def __init__(self, grad: Tensor) -> None:
        self._grad = grad

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.sum(), self._grad


@pytest.mark.parametrize("grad", [torch.ones(1, dtype=torch.float64), torch.ones(2)], ids=["shape", "dtype"])
def test_a_bad_gradient_is_refused_however_it_is_asked_for(grad: Tensor) -> None:
    f = SampledFunction(Flawed(grad), 1)
    for ask in WAYS.values():
        with pytest.raises((ValueError, TypeError), match="the gradient must have the"):
            ask(f)
    assert f.cost == Cost()


@pytest.mark.parametrize("ask", ["value_and_grad_at_sum", "grad_at_sum", "add_grad_at_sum"])
def test_a_displacement_of_another_shape_is_refused(ask: str) -> None:
    f, out = SampledFunction(Cubic(), 1), [X.clone()] if ask == "add_grad_at_sum" else []
    with pytest.raises(ValueError, match=re.escape("u must have the shape of x, (2,), got (1,)")):
        getattr(f, ask)(*out, X, torch.ones(1, dtype=torch.float64))
    assert f.cost == Cost()


def _classes() -> Iterator[type]:
    for module in pkgutil.walk_packages(unsaddle.__path__, "unsaddle."):
        if module.name.endswith("__main__"):
            continue
        try:
            found = importlib.import_module(module.name)
        except ImportError:  # An extra that is not installed.
            continue
        yield from (c for _, c in inspect.getmembers(found, inspect.isclass) if c.__module__ == module.name)


def test_every_oracle_of_the_package_is_an_oracle_and_every_objective_has_the_base() -> None:
    oracles = [c for c in _classes() if "value_and_grad" in vars(c) and c is not SampledFunction]
    assert len(oracles) >= 11
    assert all(issubclass(c, Oracle) for c in oracles)
    objectives = [c for c in _classes() if hasattr(c, "sample") and hasattr(c, "num_samples") and c is not Objective]
    assert len(objectives) >= 10
    assert all(issubclass(c, BaseObjective) for c in objectives)


@pytest.mark.parametrize("name", public(Oracle))
def test_an_oracle_that_checks_its_data_forwards_every_question(name: str) -> None:
    """Whoever adds a question to `Oracle` has to forward it here."""
    asked: list[tuple[Any, ...]] = []
    inner = Cubic()
    if not callable(getattr(Oracle, name)):
        setattr(inner, name, ...)
        assert getattr(SameDtype(inner, (X,)), name) is ...
        return

    def answer(*arguments: Any) -> str:
        asked.append(arguments)
        return "answer"

    setattr(inner, name, answer)
    arguments = [X] * (len(inspect.signature(getattr(Oracle, name)).parameters) - 1)
    assert getattr(SameDtype(inner, (X,)), name)(*arguments) == (None if name.startswith("add_") else "answer")
    assert asked == [tuple(arguments)]
    if name not in ("gradient_error", "values_for_gradient", "held"):
        with pytest.raises(TypeError, match="convert one of them"):
            getattr(SameDtype(inner, (X.float(),)), name)(*arguments)


# --- Objectives -----------------------------------------------------------------------------------------------------


class Somewhere:
    """Anybody's objective, with all that ours have."""

    num_samples, second_order, least_samples, ranks, parameters = 7, False, 3, None, "parameters"

    def __init__(self) -> None:
        self.point, self.sampled = X, []

    def assign(self, x: Tensor) -> None:
        self.point = x

    def as_vector(self, direction: dict[str, Tensor]) -> Tensor:
        return direction["its own form"]

    def in_double(self, x: Tensor, ledger: Ledger) -> Function:
        return Function(lambda y: (y - x.double()).sum())

    def sample(self, *arguments: Any, **how: Any) -> SampledFunction:
        self.sampled.append((arguments, how))
        return SampledFunction(Cubic(), 7, how.get("ledger"))


WRAPPERS: dict[str, Callable[[Any], BaseObjective]] = {
    "forwarding": Forwarding,
    "observed": lambda objective: Observed(objective, lambda seen: None),
    "counted": lambda objective: CountedObjective(objective, Budget(100)),
}
every_wrapper = pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)


@every_wrapper
@pytest.mark.parametrize("name", sorted(set(public(BaseObjective)) - {"sample", "assign", "as_vector", "in_double"}))
def test_a_wrapper_has_every_member_of_its_objective(wrap: Callable[[Any], BaseObjective], name: str) -> None:
    """Whoever adds a member to `BaseObjective` has to forward it."""
    objective, member = Somewhere(), object()
    setattr(objective, name, member)
    assert getattr(wrap(objective), name) is member


@every_wrapper
def test_a_wrapper_moves_samples_and_doubles_its_objective(wrap: Callable[[Any], BaseObjective]) -> None:
    objective, generator = Somewhere(), torch.Generator()
    wrapped = wrap(objective)
    wrapped.assign(U)
    assert wrapped.point is U
    assert objective.point is U
    assert wrapped.as_vector({"its own form": U}) is U
    assert float(wrapped.in_double(X, Ledger()).sample().value(X.double() + 1.0)) == X.numel()
    how: dict[str, Any] = {"replacement": True, "hessian": True, "ledger": Ledger()}
    f = wrapped.sample(3, generator, **how)
    f.grad(X)
    (((size, drawn_by), given),) = objective.sampled
    assert (size, drawn_by, given["replacement"], given["hessian"]) == (3, generator, True, True)
    assert given["ledger"].gradients == 1
    assert (given["ledger"] is how["ledger"]) != isinstance(wrapped, CountedObjective)


@every_wrapper
def test_what_an_objective_does_not_have_its_wrapper_does_not_have_either(wrap: Callable[[Any], BaseObjective]) -> None:
    class Plain:
        num_samples = None

        def sample(self, *arguments: Any, **how: Any) -> SampledFunction:
            raise AssertionError

    for objective in (Plain(), Function(lambda x: x.sum())):
        wrapped = wrap(objective)
        assert wrapped.num_samples == objective.num_samples
        assert (wrapped.point, wrapped.ranks, wrapped.parameters, wrapped.second_order) == (None, None, None, True)
        assert wrapped.least_samples == 1
        with pytest.raises(ValueError, match="is at no point, so it cannot be moved"):
            wrapped.assign(X)


def test_an_objective_of_ours_is_taken_as_it_is_and_anybody_s_is_taken_in() -> None:
    ours, other = Function(lambda x: x.sum()), Somewhere()
    assert as_objective(ours) is ours
    taken = as_objective(other)
    assert as_objective(taken) is taken
    assert point_of(other, None) is not None  # type: ignore[arg-type]
    assert torch.equal(point_of(other, None), X)  # type: ignore[arg-type]


@pytest.mark.parametrize("ask", [is_minimum, negative_curvature, minimize])
def test_what_is_no_objective_is_refused_with_the_same_words_by_all(ask: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match=r"must be a Function, .* got function; .*Function\(fun\), a model as .*Mod"):
        ask(lambda x: x.sum(), X)


def test_an_objective_without_a_point_of_its_own_says_so() -> None:
    with pytest.raises(ValueError, match="x was left out, but this objective has no point of its own; pass x"):
        is_minimum(Function(lambda x: x.sum()))


def test_probing_an_objective_without_parameters_is_refused() -> None:
    neon = Neon(torch.optim.SGD(torch.nn.Linear(2, 1).parameters(), lr=0.1))
    for objective in (Function(lambda x: x.sum()), Somewhere()):
        expected = rf"Neon needs an objective over the parameters .*, got {type(objective).__name__}$"
        with pytest.raises(TypeError, match=expected):
            neon.probe(objective)  # type: ignore[arg-type]


# --- Observing ------------------------------------------------------------------------------------------------------

WAYS: dict[str, Callable[[SampledFunction], object]] = {
    "grad": lambda f: f.grad(X),
    "value_and_grad": lambda f: f.value_and_grad(X),
    "value_and_grad_at_sum": lambda f: f.value_and_grad_at_sum(X, U, 2.0),
    "grad_at_sum": lambda f: f.grad_at_sum(X, U, 2.0),
    "grad_at_sum, no u": lambda f: f.grad_at_sum(X, None),
    "add_grad_at_sum": lambda f: f.add_grad_at_sum(X.clone(), X, U, 2.0),
    "add_grad_at_sum, no u": lambda f: f.add_grad_at_sum(X.clone(), X, None, subtract=True),
}
AT_X = [way for way in WAYS if way in ("grad", "value_and_grad") or way.endswith("no u")]


def model() -> ModelObjective:
    """‖x − 1‖²/2 of a model whose gradients add up in the caller's vector."""
    layer = torch.nn.Linear(2, 1, bias=False, dtype=torch.float64)
    rows = TensorDataset(torch.ones(3, 2).double())
    return ModelObjective(layer, lambda m, batch: (m.weight - batch[0]).square().mean(), rows)


OBSERVABLE: dict[str, Callable[[], Objective]] = {
    "function": lambda: Function(lambda x: (x - 1.0).square().mean()),
    "model": model,
}


@pytest.mark.parametrize("of", OBSERVABLE)
@pytest.mark.parametrize("way", WAYS)
def test_a_gradient_is_shown_once_and_counted_once_however_it_is_asked_for(way: str, of: str) -> None:
    seen: list[tuple[Tensor, Tensor | None, Tensor, Cost]] = []

    def observe(evaluation: Evaluation) -> None:
        e = evaluation
        seen.append((e.point.clone(), e.value, e.grad.clone(), e.ledger.cost))

    plain, objective = OBSERVABLE[of](), OBSERVABLE[of]()
    f, g = plain.sample(), Observed(objective, observe).sample()
    expected, answer = WAYS[way](f), WAYS[way](g)
    torch.testing.assert_close(answer, expected)
    assert g.cost == f.cost == Cost(gradients=1, samples=f.size)
    ((point, value, grad, cost),) = seen
    assert cost == g.cost
    where = X if way in AT_X else SUM
    assert torch.equal(point, where)
    torch.testing.assert_close(grad, where - 1.0)
    assert (value is None) == ("value" not in way)
    if value is not None:
        torch.testing.assert_close(value, (where - 1.0).square().mean())


def test_values_and_hessian_products_are_not_shown() -> None:
    seen: list[Evaluation] = []
    f = Observed(Function(lambda x: (x**3).sum()), seen.append).sample(hessian=True)
    f.value(X)
    assert torch.equal(f.hvp(X, U), 6.0 * X * U)  # type: ignore[attr-defined]
    assert seen == []


def test_two_observers_see_each_gradient_once_each_and_the_objective_is_left_alone() -> None:
    first: list[Evaluation] = []
    second: list[Evaluation] = []
    objective = Function(lambda x: x.square().sum())
    Observed(Observed(objective, first.append), second.append).sample().grad(X)
    assert (len(first), len(second)) == (1, 1)
    objective.sample().grad(X)
    assert (len(first), len(second)) == (1, 1)


def test_a_whole_run_is_seen() -> None:
    seen: list[int] = []
    f = Function(lambda x: x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4)
    solution = minimize(Observed(f, lambda e: seen.append(e.ledger.gradients)), torch.zeros(2).double())
    assert seen == list(range(1, solution.cost.gradients + 1))


def test_what_observes_sees_the_point_as_it_was_where_the_answer_goes_into_u() -> None:
    points: list[Tensor] = []
    u = U.clone()
    f = Observed(Function(lambda x: x.square().sum()), lambda e: points.append(e.point.clone())).sample()
    assert f.add_grad_at_sum(u, X, u, 2.0) is u
    assert torch.equal(points[0], SUM)
    assert torch.equal(u, U + 2.0 * SUM)


def test_a_model_refuses_hessian_products_when_it_is_sampled_also_through_a_wrapper() -> None:
    for objective in (model(), Observed(model(), lambda seen: None)):
        assert not objective.second_order
        with pytest.raises(ValueError, match="a ModelObjective has gradients only, no Hessian products"):
            objective.sample(hessian=True)
