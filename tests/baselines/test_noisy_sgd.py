"""Noisy SGD: its counts, its noise, and that the noise is what it escapes by."""

from __future__ import annotations

import math

import pytest
import torch

from tests.baselines.running import DOUBLE, bowl_sum, options, solve, truth
from unsaddle import Function, problems
from unsaddle.baselines import noisy_sgd
from unsaddle.cost import Cost
from unsaddle.run import Ending

GIVEN = {"step_size": 0.1, "noise": 0.01, "batch_size": 4, "num_steps": 3}


def test_a_step_costs_a_batch_and_the_end_one_look() -> None:
    solution = solve(noisy_sgd, bowl_sum(100), torch.ones(3, dtype=DOUBLE), **GIVEN)
    look = 4 * 4  # In eight batches of two.
    assert solution.status is Ending.OUTPUT
    assert solution.cost == Cost(gradients=3 + 8, samples=3 * 4 + look)


def test_the_noise_has_the_norm_that_was_asked_for() -> None:
    flat = Function(lambda x: (0.0 * x.sum(), torch.zeros_like(x)), gradient=True)
    for seed in range(5):
        one = GIVEN | {"num_steps": 1, "batch_size": 1}
        solution = solve(noisy_sgd, flat, torch.zeros(7, dtype=DOUBLE), seed=seed, **one)
        assert float(solution.x.norm()) == pytest.approx(0.1 * 0.01, rel=1e-12)


def test_without_noise_it_is_gradient_descent_and_stays_at_a_saddle() -> None:
    problem = problems.two_dimensional_saddle()
    saddle = problem.saddles[0].point
    stuck = solve(noisy_sgd, problem.objective, saddle, step_size=0.1, noise=0.0, num_steps=500, smoothness=2.0)
    assert torch.equal(stuck.x, saddle)
    left = solve(noisy_sgd, problem.objective, saddle, step_size=0.1, noise=1e-3, num_steps=500, smoothness=2.0)
    assert truth(problem.objective, left.x)[1] > 0.0
    assert left.escapes == 0  # It makes no step that it knows to be one.


def test_what_is_left_of_the_gradient_is_what_the_noise_leaves() -> None:
    """E‖∇F‖² = s²ηL1/(2 − ηL1) at F = ½‖x‖²; the mean of 200 squares at d = 10 has a relative deviation of 3 %."""
    bowl, seen = Function(lambda x: (0.5 * x @ x, x.clone()), gradient=True), []
    for seed in range(200):
        solution = solve(
            noisy_sgd,
            bowl,
            torch.zeros(10, dtype=DOUBLE),
            seed=seed,
            step_size=0.5,
            noise=1.0,
            num_steps=12,
            smoothness=1.0,
        )
        seen.append(float(solution.x @ solution.x))
    assert sum(seen) / 200 == pytest.approx(0.5 / 1.5, rel=0.15)


def test_theory_is_the_theorem_with_its_constants_one() -> None:
    settings = noisy_sgd.theory_settings(options(eps=0.1, theory=True, smoothness=4.0))
    assert (settings.step_size, settings.noise, settings.batch_size) == (pytest.approx(0.01), 1.0, 1)
    assert settings.num_steps == math.ceil(math.log(20.0) / 0.1**4)


def test_measured_batches_follow_the_noise() -> None:
    """At the minimum of this sum V is 3 or so, and 2V/ε² of 10⁴ samples are drawn."""
    objective = bowl_sum(10_000)
    solution = solve(
        noisy_sgd, objective, torch.zeros(3, dtype=DOUBLE), eps=0.1, step_size=0.1, noise=0.01, num_steps=1
    )
    assert 300 < solution.cost.samples - 64 - 11 < 5 * 1200


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"step_size": -0.1}, "step_size must be a finite number > 0"),
        ({"noise": -1.0}, "noise must be a finite number >= 0"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"num_steps": 0}, "num_steps must be at least 1"),
    ],
)
def test_settings_that_cannot_be_are_refused(wrong: dict[str, float], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        solve(noisy_sgd, bowl_sum(), torch.ones(3, dtype=DOUBLE), **(GIVEN | wrong))


def test_a_step_that_is_too_long_is_called_diverged() -> None:
    problem = problems.prescribed_spectrum([-1.0, 2.0])
    solution = solve(
        noisy_sgd,
        problem.objective,
        torch.ones(2, dtype=DOUBLE),
        **(GIVEN | {"step_size": 50.0, "batch_size": 1, "num_steps": 99}),
    )
    assert solution.status is Ending.DIVERGED
    assert solution.x.isfinite().all()
