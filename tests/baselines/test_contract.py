"""What every rival must do: leave exact saddles, stay in its budget, refuse what it does not know."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.baselines.running import DOUBLE, bowl_sum, noisy_stream, solve, stream_truth, truth
from unsaddle import Function, problems
from unsaddle.problems import Problem, spectra
from unsaddle.run import Ending

METHODS = ("noisy_sgd", "sgld", "pgd", "pagd", "natasha2", "sncg", "svrg_hessian")
UNCHECKED = ("noisy_sgd", "sgld")
"""Those that never look at what they return."""

STREAMS = ("noisy_sgd", "sgld", "natasha2", "sncg")

SPECTRUM = problems.prescribed_spectrum(spectra.random_spectrum(30, lowest=-1.0, largest=4.0))
PROBLEMS = {
    "two-dimensional": problems.two_dimensional_saddle(),
    "prescribed spectrum": SPECTRUM,
    "phase retrieval": problems.phase_retrieval(dimension=10, measurements=100),
}
CONSTANTS = {"smoothness": 4.0, "hessian_lipschitz": 6.0, "variance": 1.0, "initial_gap": 1.0}


def _settings(method: str) -> dict[str, Any]:
    """Noisy SGD and SGLD do not know when to stop: these are steps enough."""
    return {"num_steps": 2000} if method in UNCHECKED else {}


@pytest.mark.slow
@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS.keys())
@pytest.mark.parametrize("method", METHODS)
def test_it_leaves_an_exact_saddle_for_a_second_order_stationary_point(method: str, problem: Problem) -> None:
    """At every one of these saddles all gradients vanish, also those of the components of phase retrieval."""
    saddle, gamma = problem.saddles[0], 0.08
    for seed in range(1 if problem.objective.num_samples != 1 else 2):
        solution = solve(method, problem.objective, saddle.point, gamma=gamma, seed=seed, **_settings(method))
        norm, lowest = truth(problem.objective, solution.x)
        assert norm <= 1.5e-3
        assert lowest >= -gamma
        assert solution.status is (Ending.OUTPUT if method in UNCHECKED else Ending.SECOND_ORDER_POINT)
        assert solution.success is (method not in UNCHECKED)


@pytest.mark.parametrize("method", METHODS)
def test_it_stays_at_a_minimum(method: str) -> None:
    problem = problems.prescribed_spectrum([0.5, 1.0, 2.0])
    minimum = problem.minima[0].point
    solution = solve(method, problem.objective, minimum, gamma=0.1, **_settings(method))
    assert float((solution.x - minimum).norm()) < 1e-2
    assert solution.escapes == 0


@pytest.mark.parametrize("method", STREAMS)
def test_it_leaves_the_saddle_of_a_stream(method: str) -> None:
    settings = {"num_steps": 300} if method in UNCHECKED else {}
    solution = solve(method, noisy_stream(), torch.zeros(5, dtype=DOUBLE), eps=0.03, gamma=0.3, **settings)
    norm, lowest = stream_truth(solution.x)
    assert norm <= 1.5 * 0.03
    assert lowest > 0.0


@pytest.mark.parametrize("method", METHODS)
def test_the_budget_ends_it_with_the_call_that_spends_it(method: str) -> None:
    solution = solve(method, bowl_sum(100), 1e3 * torch.ones(3, dtype=DOUBLE), max_samples=3000)
    cost = solution.cost
    assert solution.status is Ending.BUDGET_SPENT or method not in UNCHECKED
    assert cost.samples + cost.value_samples + cost.hessian_samples < 3000 + 100


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_gives_the_same_answer(method: str) -> None:
    first, second = (
        solve(method, SPECTRUM.objective, SPECTRUM.saddles[0].point, max_samples=500, seed=7) for _ in range(2)
    )
    assert torch.equal(first.x, second.x)
    assert first.cost == second.cost


@pytest.mark.parametrize("method", METHODS)
def test_the_start_is_not_changed(method: str) -> None:
    start = torch.ones(30, dtype=DOUBLE)
    solve(method, SPECTRUM.objective, start, max_samples=200)
    assert torch.equal(start, torch.ones(30, dtype=DOUBLE))


@pytest.mark.parametrize("method", METHODS)
def test_unknown_settings_are_refused_with_those_that_are_known(method: str) -> None:
    with pytest.raises(TypeError, match="unknown setting 'temperature'; this method takes"):
        solve(method, SPECTRUM.objective, torch.zeros(30, dtype=DOUBLE), temperature=1.0)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_theory_asks_for_what_it_cannot_know_and_then_runs(method: str) -> None:
    x = torch.ones(30, dtype=DOUBLE)
    with pytest.raises(ValueError, match="settings='theory' needs smoothness, got none"):
        solve(method, SPECTRUM.objective, x, theory=True)
    names = {
        "noisy_sgd": ("smoothness",),
        "sgld": ("smoothness",),
        "natasha2": tuple(CONSTANTS),
        "sncg": ("smoothness", "hessian_lipschitz", "variance"),
    }.get(method, ("smoothness", "hessian_lipschitz", "initial_gap"))
    constants = {name: CONSTANTS[name] for name in names}
    solution = solve(method, SPECTRUM.objective, x, theory=True, eps=0.1, max_samples=2000, **constants)
    assert solution.status in (Ending.BUDGET_SPENT, Ending.SECOND_ORDER_POINT, Ending.OUTPUT)
    assert solution.x.isfinite().all()


@pytest.mark.parametrize("method", METHODS)
def test_a_start_that_is_not_finite_is_said_to_be_one(method: str) -> None:
    log = Function(lambda x: x.log().sum())
    solution = solve(method, log, -torch.ones(3, dtype=DOUBLE))
    assert solution.status is Ending.NOT_FINITE


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_events_are_few(method: str) -> None:
    solution = solve(method, SPECTRUM.objective, SPECTRUM.saddles[0].point, gamma=0.1, max_samples=2000)
    assert len(solution.trace) <= 2000 / 10
