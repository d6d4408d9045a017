"""Perturbed gradient descent: when it perturbs, when it stops, and what that costs."""

from __future__ import annotations

import math

import pytest
import torch

from tests.baselines.running import DOUBLE, bowl_sum, new_run, noisy_stream, options, solve, truth
from unsaddle import Function, problems
from unsaddle.baselines import pgd
from unsaddle.cost import Cost
from unsaddle.run import Ending

BOWL = Function(lambda x: (0.5 * x @ x, x.clone()), gradient=True)
ZERO = torch.zeros(3, dtype=DOUBLE)
GIVEN = {
    "smoothness": 1.0,
    "step_size": 0.5,
    "noise_radius": 1e-3,
    "gradient_threshold": 1e-3,
    "value_threshold": 1e-8,
    "wait": 10,
}


def test_at_a_minimum_it_perturbs_once_waits_and_returns_the_point_before() -> None:
    solution = solve(pgd, BOWL, ZERO, gamma=0.01, **GIVEN)
    assert solution.status is Ending.SECOND_ORDER_POINT
    assert torch.equal(solution.x, ZERO)
    assert (solution.value, solution.gradient_norm, solution.gamma, solution.escapes) == (0.0, 0.0, 0.01, 0)
    # At x̃, at x̃ + ξ, and after each of ten steps.
    assert solution.cost == Cost(gradients=12, samples=12)


def test_a_gradient_is_full() -> None:
    solution = solve(pgd, bowl_sum(100), ZERO, gamma=0.01, **GIVEN)
    assert solution.cost == Cost(gradients=12, samples=1200)


def test_where_the_gradient_is_large_it_does_not_perturb() -> None:
    solution = solve(pgd, BOWL, torch.ones(3, dtype=DOUBLE), gamma=0.01, **(GIVEN | {"value_threshold": 1e-6}))
    first = solution.trace.of("check")[0]
    assert first.note == "perturbed"
    assert first.gradient_norm <= 1e-3
    # √3·2^{-k} ≤ 1e-3 first at k = 11: eleven steps, then as at a minimum.
    assert solution.cost.gradients == 11 + 12
    assert torch.equal(solution.x, torch.full((3,), 2.0**-11, dtype=DOUBLE))


def test_multipliers_multiply() -> None:
    far = solve(pgd, BOWL, torch.ones(3, dtype=DOUBLE), gamma=0.01, gradient_threshold_multiplier=1e6, **GIVEN)
    assert far.trace[0].note == "perturbed"
    assert far.trace[0].gradient_norm == pytest.approx(math.sqrt(3.0))
    plain = solve(pgd, BOWL, ZERO, gamma=0.01, value_threshold_multiplier=1e-9, noise_radius_multiplier=1e-3, **GIVEN)
    assert plain.status is Ending.SECOND_ORDER_POINT


def test_a_perturbation_that_helped_is_an_escape() -> None:
    problem = problems.two_dimensional_saddle()
    solution = solve(pgd, problem.objective, problem.saddles[0].point, gamma=0.1)
    assert solution.status is Ending.SECOND_ORDER_POINT
    assert solution.escapes >= 1
    norm, lowest = truth(problem.objective, solution.x)
    assert norm <= 1e-3
    assert lowest > 0.0


def test_a_step_that_does_not_lower_the_value_is_halved() -> None:
    """On ½‖x‖² a step of 3 triples the distance; three quarters of the way is where the rule is content."""
    solution = solve(pgd, BOWL, torch.ones(3, dtype=DOUBLE), gamma=0.01, **(GIVEN | {"step_size": 3.0}))
    assert solution.status is Ending.SECOND_ORDER_POINT
    left = solve(pgd, BOWL, torch.ones(3, dtype=DOUBLE), backtracking=False, **(GIVEN | {"step_size": 3.0}))
    assert left.status is Ending.DIVERGED
    assert left.x.isfinite().all()


def test_theory_against_numbers_by_hand() -> None:
    """d = 1, L1 = L2 = Δ = c = 1, ε = 0.01, δ = 0.05: χ = 3·log(2e5) = 36.6182."""
    settings = pgd.theory_settings(
        new_run(BOWL, torch.zeros(1, dtype=DOUBLE)),
        options(eps=0.01, theory=True, smoothness=1.0, hessian_lipschitz=1.0, initial_gap=1.0),
    )
    assert settings.step_size == 1.0
    assert settings.gradient_threshold == pytest.approx(0.01 / 36.6182**2, rel=1e-5)
    assert settings.noise_radius == pytest.approx(0.01 / 36.6182**2, rel=1e-5)
    assert settings.value_threshold == pytest.approx(1e-3 / 36.6182**3, rel=1e-5)
    assert settings.wait == 367  # 366.182
    assert settings.gamma == pytest.approx(0.1)
    assert settings.constant == 1.0


def test_a_stream_has_no_full_gradient() -> None:
    with pytest.raises(ValueError, match="needs full gradients, got a stream"):
        solve(pgd, noisy_stream(), torch.zeros(5, dtype=DOUBLE))


@pytest.mark.parametrize("name", ["step_size", "noise_radius", "value_threshold", "noise_radius_multiplier"])
def test_settings_that_cannot_be_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be a finite number > 0"):
        solve(pgd, BOWL, ZERO, **(GIVEN | {name: 0.0}))
