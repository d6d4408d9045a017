"""The same function in float64, where the caller's code computes in float32."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.objectives.traces import Everything
from unsaddle import FiniteSum, Function, ModelObjective
from unsaddle.cost import Ledger
from unsaddle.objective import BaseObjective
from unsaddle.objectives.double import Doubled, Doubling, check_keeps_nothing

F32, F64 = torch.float32, torch.float64
A = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
B = torch.randn(6, generator=torch.Generator().manual_seed(1))
X = torch.randn(4, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize(
    "made",
    [
        lambda x: x.float(),
        lambda x: x.to(F32),
        lambda x: x.to(dtype=F32),
        lambda x: torch.zeros(4, dtype=F32) + x,
        lambda x: A @ x,
        lambda x: torch.cat([X, x]),
        lambda x: torch.stack((X, X)),
        lambda x: nn.functional.linear(x, weight=A),
        lambda x: torch.where(x > 0.0, X, x),
    ],
)
def test_what_asks_for_float32_gets_float64(made: Callable[[Tensor], Tensor]) -> None:
    with Doubling():
        assert made(X.double()).dtype is F64


def fills(x: Tensor) -> Tensor:
    filled = torch.zeros(4)
    filled[1:] = x[1:] * A[0, 1:]
    filled.view(2, 2)[0, 0] = x[0]
    return filled.mul_(2.0).square().sum()


def test_what_is_made_inside_is_written_in_float64() -> None:
    found = Doubled(fills)(X.double())
    expected = 4.0 * (X[0].double() ** 2 + ((X[1:].double() * A[0, 1:].double()) ** 2).sum())
    assert float(found) == pytest.approx(float(expected), rel=1e-15)


@pytest.mark.parametrize(
    "write",
    [
        lambda mine, x: mine.add_(x),
        lambda mine, x: mine.__setitem__(0, x[0]),
        lambda mine, x: torch.add(x, x, out=mine),
        lambda mine, x: mine.copy_(x),
    ],
)
def test_float64_is_not_written_into_what_is_float32(write: Callable[[Tensor, Tensor], Any]) -> None:
    mine = torch.zeros(4)
    with pytest.raises(TypeError, match="into a tensor of less precision"):
        Doubled(lambda x: write(mine, x))(X.double())
    assert mine.dtype is F32
    assert torch.equal(mine, torch.zeros(4))


@pytest.mark.parametrize("draw", [torch.randn_like, lambda x: torch.rand(4), lambda x: x.bernoulli(0.5)])
def test_random_numbers_are_refused(draw: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(TypeError, match="draws random numbers"):
        Doubled(lambda x: x + draw(x))(X.double())


@pytest.mark.parametrize("low", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("how", [lambda x, low: x.to(low), lambda x, low: x.half(), lambda x, low: x.bfloat16()])
def test_half_precision_inside_is_gone(low: torch.dtype, how: Callable[[Tensor, torch.dtype], Tensor]) -> None:
    weights = X.to(low)
    found = Doubled(lambda x: (how(x, low) * weights).sum())(X.double())
    assert float(found) == float((X.double() * weights.double()).sum())


def test_autocast_inside_is_gone() -> None:
    def fun(x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return nn.functional.linear(A, x).square().sum()

    found = gradient(Function(fun).in_double(X, Ledger()), X.double())
    assert (found - 2.0 * A.double().T @ (A.double() @ X.double())).norm() <= 1e-13 * found.norm()


@pytest.mark.parametrize(
    "way",
    [
        lambda x: x.numpy(),
        lambda x: np.asarray(x),
        lambda x: x.tolist(),
        lambda x: x.__dlpack__(),
    ],
)
def test_code_outside_of_torch_is_refused(way: Callable[[Tensor], Any]) -> None:
    with pytest.raises(TypeError, match="leaves torch"):
        Doubled(way)(X.double())
    assert Doubled(lambda x: x.to(int).tolist())(X.double()) == X.to(int).tolist()


def gradient(objective: BaseObjective, x: Tensor) -> Tensor:
    return objective.sample(ledger=Ledger()).grad(x)


def exact() -> Tensor:
    """∇ of ½‖Ax − b‖²."""
    return A.double().T @ (A.double() @ X.double() - B.double())


@pytest.mark.parametrize(
    "objective",
    [
        Function(lambda x: ((A @ x - B) ** 2).sum() / 2.0),
        Function(lambda x: (((A @ x - B) ** 2).sum() / 2.0, A.T @ (A @ x - B)), gradient=True),
        FiniteSum(lambda x, a, b: 3.0 * ((a @ x - b) ** 2).mean(), A, B),
    ],
    ids=["function", "its own gradient", "sum"],
)
def test_gradients_are_those_of_float64(objective: Any) -> None:
    double = objective.in_double(X, Ledger())
    assert objective.doubles
    assert (gradient(double, X.double()) - exact()).norm() <= 1e-14 * exact().norm()
    assert gradient(objective, X).dtype is F32


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Dropout(0.5), nn.Linear(5, 1)).eval()


def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    return nn.functional.mse_loss(model(batch[0]).squeeze(1), batch[1])


@pytest.mark.parametrize("compiled", [False, True])
def test_a_model_in_float64_is_a_copy_and_leaves_no_trace(compiled: bool) -> None:
    model, reference = network(), network().double()
    asked: Any = torch.compile(model, backend="eager") if compiled else model
    objective = ModelObjective(asked, loss, [(A, B)])
    trace = Everything(model)
    double = objective.in_double(objective.point, Ledger())
    found = gradient(double, objective.point.double())
    trace.check(versions=False)
    loss(reference, (A.double(), B.double())).backward()
    expected = torch.cat([p.grad.flatten() for p in reference.parameters()])  # type: ignore[union-attr]
    assert found.dtype is F64
    assert (found - expected).norm() <= 1e-13 * expected.norm()


@pytest.mark.parametrize(
    "loss_of",
    [
        lambda model: lambda m, b: loss(m, b) + 10.0 * (model.w**2).sum(),
        lambda model: lambda m, b: loss(model, b),
    ],
)
def test_a_loss_that_uses_the_model_itself_is_refused_and_leaves_no_gradient(
    loss_of: Callable[[Any], Callable[[nn.Module, tuple[Tensor, Tensor]], Tensor]],
) -> None:
    """Also where the weights that it uses are zero at x."""
    model = network()
    model.w = nn.Parameter(torch.zeros(2))
    objective = ModelObjective(model, loss_of(model), [(A, B)])
    trace = Everything(model)
    with pytest.raises(ValueError, match=r"the loss uses the model itself|left no parameter with a gradient"):
        objective.in_double(objective.point, Ledger())
    trace.check(versions=False)


class Shared(nn.Linear):
    """An encoder that copies share."""

    def __deepcopy__(self, memo: Any) -> Shared:
        return self


def test_a_copy_that_shares_tensors_with_the_model_is_refused() -> None:
    model = nn.Sequential(Shared(4, 5), nn.Tanh(), nn.Linear(5, 1))
    objective = ModelObjective(model, loss, [(A, B)])
    with pytest.raises(ValueError, match="has tensors of the model itself"):
        objective.in_double(objective.point, Ledger())
    assert {p.dtype for p in model.parameters()} == {F32}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_script_is_refused() -> None:
    scripted = torch.jit.trace(lambda x: (x**2).sum(), (X,))
    with pytest.raises(ValueError, match="TorchScript"):
        Function(lambda x: scripted(x)).in_double(X, Ledger())


class Solver:
    """An inner iteration that starts where it ended."""

    def __init__(self) -> None:
        self.y = torch.zeros(4)

    def __call__(self, x: Tensor) -> Tensor:
        self.y = 0.5 * (self.y + x.detach())
        return ((x - self.y) ** 2).sum()


def remembering() -> Callable[[Tensor], Tensor]:
    kept: list[Tensor] = [torch.zeros(4)]

    def value(x: Tensor) -> Tensor:
        kept.append(x.detach() + kept.pop())
        return ((x - kept[-1]) ** 2).sum()

    return value


@pytest.mark.parametrize(
    "fun", [Solver(), Solver().__call__, remembering(), functools.partial(lambda s, x: s(x), Solver())]
)
def test_a_function_that_keeps_tensors_is_refused(fun: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(ValueError, match="keeps tensors of one call for the next"):
        Function(fun).in_double(X, Ledger())


STATE: dict[str, Tensor] = {}


class Slots:
    __slots__ = ("y",)

    def __init__(self) -> None:
        self.y = torch.zeros(4)


def in_a_global(x: Tensor) -> Tensor:
    def inner() -> None:
        STATE["y"] = x.detach()

    inner()
    return (x**2).sum()


SLOTS = Slots()


def in_slots(x: Tensor) -> Tensor:
    SLOTS.y = x.detach()
    return (x**2).sum()


@pytest.mark.parametrize("fun", [in_a_global, in_slots])
def test_what_is_kept_out_of_sight_is_seen(fun: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(ValueError, match="keeps tensors of one call for the next"):
        Function(fun).in_double(X, Ledger())


def test_a_function_that_keeps_nothing_is_called_once() -> None:
    calls = []
    check_keeps_nothing(lambda x: A @ x, lambda: calls.append(1))
    assert calls == [1]


def test_a_function_that_reaches_too_much_is_refused() -> None:
    many = [[i] for i in range(60_000)]
    with pytest.raises(ValueError, match="reaches more than 50000 objects"):
        check_keeps_nothing(lambda x: many, lambda: None)
