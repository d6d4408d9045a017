"""ε by default: `minimize` calls a point a second-order stationary point where `is_minimum` calls it a minimum."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from unsaddle import Ending, Function, is_minimum, minimize
from unsaddle.methods import RIVALS
from unsaddle.objective import Objective, Oracle, SampledFunction, freeze
from unsaddle.problems import Problem, zoo
from unsaddle.theory.quadratics import stationary_gradient

DOUBLE = torch.float64


class Times:
    """An objective, times a number."""

    def __init__(self, objective: Objective, factor: float) -> None:
        self._objective, self._factor = objective, factor

    @property
    def num_samples(self) -> int | None:
        return self._objective.num_samples

    def sample(self, *args: Any, ledger: Any = None, hessian: bool = False, **kwargs: Any) -> SampledFunction:
        f = self._objective.sample(*args, **kwargs)
        return freeze(TimesOracle(f, self._factor), f.size, hessian, ledger)


class TimesOracle(Oracle):
    def __init__(self, f: SampledFunction, factor: float) -> None:
        self._f, self._factor = f, factor

    def value(self, x: Tensor) -> Tensor:
        return self._factor * self._f.value(x)

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        value, grad = self._f.value_and_grad(x)
        return self._factor * value, self._factor * grad


@pytest.mark.slow
@pytest.mark.parametrize("factor", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("problem", zoo(), ids=lambda problem: problem.name)
def test_where_minimize_succeeds_is_minimum_says_minimum(problem: Problem, factor: float) -> None:
    objective = Times(problem.objective, factor)
    point = (*problem.saddles, *problem.minima)[0].point
    off = torch.randn(point.numel(), generator=torch.Generator().manual_seed(0), dtype=point.dtype)
    for start in (point, point + 0.5 * off):
        solution = minimize(objective, start, max_samples=2_000_000)
        assert solution.status is Ending.SECOND_ORDER_POINT
        verdict = is_minimum(objective, solution.x)
        assert verdict.kind == "minimum", str(verdict)


def test_eps_is_a_thousandth_of_l1_times_the_size_of_x() -> None:
    assert stationary_gradient(smoothness=4.0, x_norm=0.5) == pytest.approx(4e-3)
    assert stationary_gradient(smoothness=4.0, x_norm=20.0) == pytest.approx(8e-2)


@pytest.mark.parametrize("method", ["neon-scsg", "msgd", *RIVALS])
def test_eps_follows_l1_where_none_is_given(method: str) -> None:
    """At x0 = (3, 4), of norm 5, and F = ‖x‖²: L1 = 2."""
    bowl = Function(lambda x: (x @ x, 2.0 * x), gradient=True, hvp=lambda x, v: 2.0 * v)
    settings = {"num_steps": 60} if method in ("noisy-sgd", "sgld") else {}
    x0 = torch.tensor([3.0, 4.0], dtype=DOUBLE)
    solution = minimize(bowl, x0, method=method, max_samples=100_000, **settings)
    blind = method in ("noisy-sgd", "sgld")
    # Where the others end, ‖x‖ < 1, and ε is what it is there.
    assert solution.eps == pytest.approx(1e-2 if blind else 2e-3, rel=1e-6)
    assert solution.gradient_norm <= solution.eps or blind


@pytest.mark.parametrize("method", ["pgd", "pagd", "natasha2", "sncg", "svrg-hessian"])
def test_a_rival_that_succeeds_agrees_with_is_minimum_too(method: str) -> None:
    """From (1, 20), where L1 is 1200 and ε by it 24."""
    wells = Function(lambda x: x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4.0)
    solution = minimize(wells, torch.tensor([1.0, 20.0], dtype=DOUBLE), method=method, max_samples=100_000)
    assert solution.success
    assert is_minimum(wells, solution.x).kind == "minimum"


@pytest.mark.parametrize("method", ["noisy-sgd", "sgld"])
def test_l1_at_the_start_is_measured_once(method: str) -> None:
    bowl = Function(lambda x: (x @ x, 2.0 * x), gradient=True, hvp=lambda x, v: 2.0 * v)
    x0, settings = torch.tensor([3.0, 4.0], dtype=DOUBLE), {"gamma": 0.1, "batch_size": 1}
    follows = minimize(bowl, x0, method=method, max_samples=1000, **settings)
    given = minimize(bowl, x0, method=method, max_samples=1000, eps=follows.eps, **settings)
    assert follows.cost == given.cost


def test_eps_of_theory_follows_the_l1_that_is_given() -> None:
    bowl = Function(lambda x: (x @ x, 2.0 * x), gradient=True)
    x0 = torch.tensor([3.0, 4.0], dtype=DOUBLE)
    solution = minimize(
        bowl, x0, method="msgd", settings="theory", gamma=0.5, max_samples=10_000, smoothness=2.0, hessian_lipschitz=1.0
    )
    assert solution.eps == pytest.approx(1e-2)
    assert solution.status is Ending.FIRST_ORDER_POINT
    with pytest.raises(ValueError, match="settings='theory' needs smoothness"):
        minimize(bowl, x0, method="msgd", settings="theory", gamma=0.5, hessian_lipschitz=1.0)


def test_a_run_that_ends_before_l1_is_measured_has_no_eps() -> None:
    solution = minimize(Function(lambda x: x @ x), torch.ones(2, dtype=DOUBLE), max_samples=1)
    assert solution.status is Ending.BUDGET_SPENT
    assert math.isnan(solution.eps)
