"""Curvature that float32 hides: it is asked for in float64, on a copy."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from benchmarks.verdict_cases.landscape import barriers
from tests.objectives.in_float32 import InFloat32
from tests.objectives.traces import Everything
from unsaddle import Function, ModelObjective, is_minimum, negative_curvature
from unsaddle.cost import Ledger
from unsaddle.curvature import in_double as doubling
from unsaddle.curvature.extract import answer
from unsaddle.curvature.in_double import may_be_asked_again, may_double, posed_in_double
from unsaddle.curvature.question import Question
from unsaddle.curvature.result import Status
from unsaddle.objectives import Stream

X = torch.full((40,), 30.0)


def test_what_may_be_doubled(monkeypatch: pytest.MonkeyPatch) -> None:
    f = Function(lambda x: (x**2).sum())
    assert may_double(f, X, None)
    assert may_double(f, X.double(), None)
    assert not may_double(f, X.half(), None)
    assert not may_double(
        Stream(lambda x, rows: ((x - rows) ** 2).mean(), lambda n, g: torch.randn(n, 40, generator=g)), X, None
    )
    assert not may_double(InFloat32(f), X, None)
    head = ModelObjective(nn.Linear(3, 2), lambda m, b: m(b[0]).sum(), [(torch.ones(1, 3),)], parameters="bias")
    for objective, x, needed in ((f, X, 24 * 40), (head, head.point, 24 * 2 + 4 * 8)):
        monkeypatch.setattr(doubling, "free_memory", lambda device, free=8 * needed: free)
        assert may_double(objective, x, None)
        monkeypatch.setattr(doubling, "free_memory", lambda device, free=8 * needed - 1: free)
        assert not may_double(objective, x, None)


def doubled(f: Any) -> Any:
    found = answer(f, X, Question(), Ledger())
    asked = posed_in_double(f, X, Question(), found, Ledger())
    assert asked.question.full_precision == (asked.objective is not f)
    return asked


def test_code_that_asks_for_float32_is_left_alone() -> None:
    def fun(x: Tensor) -> Tensor:
        if x.dtype is not torch.float32:
            raise RuntimeError("float32 only")
        return (x**2).sum()

    assert doubled(Function(fun)).x is X


def test_another_function_in_float64_does_not_count() -> None:
    assert doubled(Function(lambda x: (x**2).sum() * (1.0 if x.dtype is torch.float32 else 1.1))).x is X
    assert doubled(Function(lambda x: (x**2).sum() + (0.0 if x.dtype is torch.float32 else 100.0))).x is X
    asked = doubled(Function(lambda x: (x**2).sum()))
    assert asked.x.dtype is torch.float64
    assert float(asked.objective.sample().value(asked.x)) == 40 * 900.0


def test_float64_all_through_is_seen_and_float32_inside_is_not_taken_for_it() -> None:
    own, inside = Function(lambda x: (x**2).sum()), Function(lambda x: (x.float() ** 2).sum().double())
    x = X.double() / 7.0
    found = answer(own, x, Question(), Ledger())
    for f in (own, inside):
        asked = posed_in_double(f, x, Question(), found, Ledger())
        assert asked.question.full_precision
        assert (asked.objective is f) == (f is own)


def test_a_function_whose_gradient_was_another_one_at_another_call_is_not_asked_again() -> None:
    found = answer(Function(lambda x: (x**2).sum()), X, Question(survey_first=True), Ledger())
    assert found.survey is not None
    assert may_be_asked_again(found, X, Question())
    assert may_be_asked_again(found, X, Question(max_gradients=found.cost.gradients + 40))
    assert not may_be_asked_again(found, X, Question(max_gradients=found.cost.gradients + 39))
    assert not may_be_asked_again(replace(found, survey=replace(found.survey, again=X)), X, Question())


def test_what_float64_shows_to_be_constant_is_not_asked_again() -> None:
    found = answer(Function(lambda x: x.sum()), X.double(), Question(), Ledger())
    assert found.status is Status.FLAT
    assert not may_be_asked_again(found, X.double(), Question())
    assert may_be_asked_again(found, X, Question())


def test_a_wall_that_float32_cannot_pass_is_passed_in_float64() -> None:
    case = barriers(2_000_037, "float32")
    assert is_minimum(InFloat32(case.objective), case.x).kind == "undecided"
    verdict = is_minimum(case.objective, case.x)
    assert verdict.kind == "saddle"
    assert verdict.curvature == pytest.approx(case.lowest, rel=1e-3)
    assert verdict.direction is not None
    assert verdict.direction.dtype is torch.float32
    assert verdict.evidence.in_float64
    assert "float64, on a copy" in verdict.reason


def test_a_trained_network_with_kinks_is_asked_in_float64_and_left_as_it_was() -> None:
    torch.manual_seed(1)
    data, labels = torch.rand(64, 1, 8, 8), torch.randint(10, (64,))
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.LazyLinear(10))
    model(data)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(300):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(data), labels).backward()
        optimizer.step()
    f = ModelObjective(model, lambda m, b: nn.functional.cross_entropy(m(b[0]), b[1]), [(data, labels)])
    trace = Everything(model)
    found, alone = negative_curvature(f), negative_curvature(InFloat32(f))
    trace.check(versions=False)
    assert found.in_float64
    assert not alone.in_float64
    assert "float64, on a copy" in str(found)


def kinked(x: Tensor) -> Tensor:
    """A saddle with kinks nearer than float32 can see."""
    u = x - 30.0
    return (u**2).sum() - 1.5 * u[0] ** 2 + 0.1 * (u + 1e-6 * torch.arange(1, 41)).abs().sum() - 0.1 * u.sum()


def test_a_verdict_in_float64_can_be_kept_and_holds_nothing_of_the_copy() -> None:
    f = Function(kinked)
    verdict = is_minimum(f, X)
    assert verdict.evidence.in_float64
    assert verdict.evidence._objective is not None
    assert verdict.evidence._x is not None
    assert verdict.evidence._x.dtype is torch.float32
    assert pickle.loads(pickle.dumps(verdict)).reason == verdict.reason


def test_what_fails_in_float64_beside_x_alone_is_answered_in_float32() -> None:
    refused = []

    def fun(x: Tensor) -> Tensor:
        if x.dtype is torch.float64 and bool((x != X).any()):
            refused.append(1)
            raise RuntimeError("float32 only, but at x itself")
        return kinked(x)

    for found in (is_minimum(Function(fun), X).evidence, negative_curvature(Function(fun), X)):
        assert not found.in_float64
    assert len(refused) == 2


@pytest.mark.parametrize("ask", [is_minimum, negative_curvature])
def test_warnings_about_float64_are_not_shown(ask: Callable[..., Any]) -> None:
    def fun(x: Tensor) -> Tensor:
        if x.dtype is torch.float64 and bool((x != X).any()):
            warnings.warn("slow in float64", stacklevel=1)
        return kinked(x)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = ask(Function(fun), X)
    assert getattr(found, "evidence", found).in_float64
