"""Perturbed accelerated gradient descent: its counts, and negative curvature exploitation."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tests.baselines.running import DOUBLE, bowl_sum, new_run, noisy_stream, options, solve, truth
from unsaddle import Function, problems
from unsaddle.baselines import pagd
from unsaddle.cost import Cost
from unsaddle.run import Ending

BOWL = Function(lambda x: (0.5 * x @ x, x.clone()), gradient=True)
ZERO = torch.zeros(3, dtype=DOUBLE)
GIVEN = {
    "smoothness": 1.0,
    "step_size": 0.25,
    "momentum_loss": 0.1,
    "noise_radius": 1e-3,
    "wait": 10,
    "decrease": 1e-8,
    "exploitation_radius": 0.1,
}


def test_at_a_minimum_it_perturbs_once_waits_and_returns_the_point_before() -> None:
    solution = solve(pagd, BOWL, ZERO, gamma=0.01, **GIVEN)
    assert solution.status is Ending.SECOND_ORDER_POINT
    assert torch.equal(solution.x, ZERO)
    # Gradients at x0, at ten y, and at the x after the tenth step; values at x0 + ξ and at the nine x before.
    assert solution.cost == Cost(gradients=12, samples=12, values=10, value_samples=10)


def test_gradients_and_values_are_full() -> None:
    solution = solve(pagd, bowl_sum(100), ZERO, gamma=0.01, **GIVEN)
    assert solution.cost == Cost(gradients=12, samples=1200, values=10, value_samples=1000)


class _Values:
    """−x₁² + x₁/4, counting how often it is asked."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, x: Tensor) -> float:
        self.calls += 1
        return float(-(x[0] ** 2) + 0.25 * x[0])


def test_exploitation_takes_the_lower_side_when_the_momentum_is_short() -> None:
    value, v = _Values(), torch.tensor([0.01, 0.0, 0.0], dtype=DOUBLE)
    assert pagd.exploit(value, ZERO, 0.0, v, 0.1).tolist() == pytest.approx([-0.1, 0.0, 0.0])
    assert value.calls == 2


def test_exploitation_stays_when_the_momentum_is_long_or_zero_or_neither_side_is_lower() -> None:
    value, v = _Values(), torch.tensor([0.2, 0.0, 0.0], dtype=DOUBLE)
    assert pagd.exploit(value, ZERO, 0.0, v, 0.1) is ZERO
    assert pagd.exploit(value, ZERO, 0.0, ZERO.clone(), 0.1) is ZERO
    assert value.calls == 0
    assert pagd.exploit(value, ZERO, -1.0, v, 0.3) is ZERO


def test_on_a_saddle_it_exploits() -> None:
    problem = problems.two_dimensional_saddle()
    solution = solve(pagd, problem.objective, problem.saddles[0].point, gamma=0.1)
    assert solution.status is Ending.SECOND_ORDER_POINT
    assert any("exploited" in event.note for event in solution.trace.of("escape"))
    norm, lowest = truth(problem.objective, solution.x)
    assert norm <= 1e-3
    assert lowest > 0.0


def test_on_a_convex_function_it_never_exploits() -> None:
    solution = solve(pagd, bowl_sum(100), torch.ones(3, dtype=DOUBLE), gamma=0.1)
    assert solution.status is Ending.SECOND_ORDER_POINT
    assert not [event for event in solution.trace if "exploited" in event.note]


def test_growth_is_that_of_the_recurrence() -> None:
    eta, theta, gamma = 0.25, 0.05, 0.04
    x, before = 1.0, 1.0
    for _ in range(3000):
        y = x + (1.0 - theta) * (x - before)
        x, before = y + eta * gamma * y, x
        x, before = x / abs(before), before / abs(before)
    assert x / before == pytest.approx(pagd.growth(step_size=eta, momentum_loss=theta, gamma=gamma), rel=1e-9)


def test_a_step_size_that_is_too_long_is_halved_or_diverges() -> None:
    start = torch.ones(3, dtype=DOUBLE)
    assert solve(pagd, BOWL, start, gamma=0.01, **(GIVEN | {"step_size": 4.0})).status is Ending.SECOND_ORDER_POINT
    wild = solve(pagd, BOWL, start, backtracking=False, **(GIVEN | {"step_size": 4.0, "nonconvexity": 100.0}))
    assert wild.status is Ending.DIVERGED
    assert wild.x.isfinite().all()


def test_theory_against_numbers_by_hand() -> None:
    """d = 1, L1 = L2 = Δ = c = 1, ε = 0.01, δ = 0.05: κ = 10, χ = log(2000) = 7.600902."""
    settings = pagd.theory_settings(
        new_run(BOWL, torch.zeros(1, dtype=DOUBLE)),
        options(eps=0.01, theory=True, smoothness=1.0, hessian_lipschitz=1.0, initial_gap=1.0),
    )
    assert settings.step_size == 0.25
    assert settings.momentum_loss == pytest.approx(0.25 / math.sqrt(10.0))
    assert settings.nonconvexity == pytest.approx(0.025)  # √(L2ε)/4
    assert settings.exploitation_radius == pytest.approx(0.00625)
    assert settings.wait == 25  # √10·7.600902 = 24.04
    assert settings.noise_radius == pytest.approx(0.0025 / 7.600902**5, rel=1e-5)
    assert settings.decrease == pytest.approx(1e-3 / 7.600902**5, rel=1e-5)


def test_a_stream_has_no_full_gradient() -> None:
    with pytest.raises(ValueError, match="needs full gradients, got a stream"):
        solve(pagd, noisy_stream(), torch.zeros(5, dtype=DOUBLE))


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match=r"momentum_loss must be in \(0, 1\]"):
        solve(pagd, BOWL, ZERO, **(GIVEN | {"momentum_loss": 0.0}))
    with pytest.raises(ValueError, match="exploitation_radius must be a finite number > 0"):
        solve(pagd, BOWL, ZERO, **(GIVEN | {"exploitation_radius": -1.0}))
