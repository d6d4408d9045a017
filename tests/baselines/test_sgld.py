"""SGLD: its counts, its temperature, the rejection, and the argmin."""

from __future__ import annotations

import math

import pytest
import torch

from tests.baselines.running import DOUBLE, bowl_sum, new_run, options, solve
from unsaddle import Function
from unsaddle.baselines import sgld
from unsaddle.cost import Cost
from unsaddle.run import Ending

GIVEN = {"step_size": 0.1, "noise": 0.01, "batch_size": 4, "num_steps": 3}
SLOPE = Function(lambda x: (-x.sum(), -torch.ones_like(x)), gradient=True)
BOWL = Function(lambda x: (0.5 * x @ x, x.clone()), gradient=True)
ZERO = torch.zeros(4, dtype=DOUBLE)


def test_a_step_costs_a_batch_and_a_judgement_the_judges() -> None:
    solution = solve(sgld, bowl_sum(100), torch.ones(3, dtype=DOUBLE), judge_every=2, **GIVEN)
    assert solution.status is Ending.OUTPUT
    # Judged at steps 0 and 2, and at the end; the final look has eight batches of two.
    assert solution.cost == Cost(gradients=3 + 8, samples=3 * 4 + 16, values=3, value_samples=300)


def test_where_a_step_sees_everything_values_are_free() -> None:
    solution = solve(sgld, BOWL, ZERO, **(GIVEN | {"batch_size": 1}))
    assert solution.cost == Cost(gradients=3 + 1, samples=3 + 1, values=1, value_samples=1)


def test_steps_longer_than_d_are_rejected() -> None:
    events = solve(sgld, SLOPE, ZERO, step_size=0.1, noise=0.0, batch_size=1, num_steps=50, acceptance_radius=0.19)
    assert torch.equal(events.x, ZERO)  # A step has length 0.1·‖∇F‖ = 0.2.
    assert events.trace.of("epoch")[0].note == "50 steps rejected so far"
    moved = solve(sgld, SLOPE, ZERO, step_size=0.1, noise=0.0, batch_size=1, num_steps=50, acceptance_radius=0.21)
    assert float(moved.x.norm()) == pytest.approx(50 * 0.2)


def test_steps_out_of_the_domain_are_rejected() -> None:
    solution = solve(sgld, SLOPE, ZERO, step_size=0.1, noise=0.1, batch_size=1, num_steps=100, domain_radius=1.0)
    assert 0.8 < float(solution.x.norm()) <= 1.0


def test_the_lowest_visited_point_is_returned_and_not_the_last() -> None:
    solution = solve(sgld, BOWL, ZERO, step_size=0.1, noise=1.0, batch_size=1, num_steps=40)
    assert torch.equal(solution.x, ZERO)  # Nothing is lower than where it began.


def test_the_noise_is_that_of_the_temperature() -> None:
    """x_1 − x_0 = √(2η/ξ)w on a flat function: the mean square over 2000 coordinates, ±5 standard deviations."""
    eta, xi, d = 0.2, 50.0, 2000
    noise = sgld.noise_of(step_size=eta, inverse_temperature=xi, dimension=d)
    assert sgld.inverse_temperature_of(step_size=eta, noise=noise, dimension=d) == pytest.approx(xi)
    decreasing = Function(lambda x: (-(x @ x), torch.zeros_like(x)), gradient=True)
    start = torch.zeros(d, dtype=DOUBLE)
    solution = solve(
        sgld,
        decreasing,
        start,
        step_size=eta,
        inverse_temperature=xi,
        batch_size=1,
        num_steps=1,
        acceptance_radius=99.0,
    )
    assert float(solution.x @ solution.x) / d == pytest.approx(2.0 * eta / xi, rel=5.0 * math.sqrt(2.0 / d))


def test_theory_has_a_temperature_of_the_order_of_the_accuracy() -> None:
    settings = sgld.theory_settings(new_run(BOWL, ZERO), options(eps=0.1, theory=True, smoothness=2.0))
    assert settings.step_size == pytest.approx(0.01 / (2.0 * 4))
    xi = sgld.inverse_temperature_of(step_size=settings.step_size, noise=settings.noise, dimension=4)
    assert xi == pytest.approx(4 / 0.01)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"acceptance_radius": 0.0}, "acceptance_radius must be a finite number > 0"),
        ({"domain_radius": -1.0}, "domain_radius must be > 0"),
        ({"noise": -1.0}, "noise must be a finite number >= 0"),
        ({"inverse_temperature": 9.0}, "the same thing twice"),
        ({"judge_every": 0}, "judge_every must be at least 1"),
    ],
)
def test_settings_that_cannot_be_are_refused(wrong: dict[str, float], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        solve(sgld, BOWL, ZERO, **(GIVEN | {"batch_size": 1} | wrong))


def test_a_temperature_needs_a_step_size() -> None:
    with pytest.raises(ValueError, match="inverse_temperature needs step_size"):
        solve(sgld, BOWL, ZERO, inverse_temperature=9.0)
