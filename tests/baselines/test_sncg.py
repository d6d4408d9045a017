"""SNCG: its counts, its choice between two steps, and its batches of Hessians."""

from __future__ import annotations

import pytest
import torch

from tests.baselines.running import DOUBLE, bowl_sum, new_run, noisy_stream, options, solve, stream_truth
from unsaddle import Function, problems
from unsaddle.baselines import sncg
from unsaddle.cost import Cost
from unsaddle.run import Ending
from unsaddle.theory import extraction

BOWL = Function(lambda x: (0.5 * x @ x, x.clone()), gradient=True, hvp=lambda x, v: v.clone())
ONES = torch.ones(3, dtype=DOUBLE)


def test_a_gradient_step_costs_a_gradient_a_value_and_the_products_of_lanczos() -> None:
    """Steps of 1/L1 go to the minimum at once, and where H = I one product tells Lanczos all."""
    solution = solve(sncg, BOWL, ONES, gamma=0.1, smoothness=1.0, curvature_every=1)
    assert solution.status is Ending.SECOND_ORDER_POINT
    assert solution.x.tolist() == [0.0, 0.0, 0.0]
    assert solution.cost == Cost(
        gradients=2, samples=2, values=1, value_samples=1, hessian_products=2, hessian_samples=2
    )


def test_batches_are_what_was_asked_for() -> None:
    solution = solve(
        sncg,
        bowl_sum(1000),
        0.0 * ONES,
        eps=1.0,
        gamma=0.5,
        smoothness=1.0,
        gradient_batch=64,
        hessian_batch=80,
    )
    assert solution.status is Ending.SECOND_ORDER_POINT
    # Lanczos on 80 samples sees one product; the curvature is measured again on eight batches of ten.
    assert solution.cost == Cost(gradients=8, samples=64, hessian_products=9, hessian_samples=160)


def test_it_prefers_what_gains_more() -> None:
    """2·1/3 against 1/(2L1) = 1/2; a gradient of 2 gains 2."""
    assert sncg.prefers_curvature(-1.0, 1.0, smoothness=1.0, hessian_lipschitz=1.0)
    assert not sncg.prefers_curvature(-1.0, 2.0, smoothness=1.0, hessian_lipschitz=1.0)
    assert not sncg.prefers_curvature(1.0, 0.0, smoothness=1.0, hessian_lipschitz=1.0)


def test_with_a_known_lipschitz_constant_the_step_is_the_papers() -> None:
    problem = problems.prescribed_spectrum([-1.0, 0.5, 2.0], power=3)
    solution = solve(sncg, problem.objective, problem.saddles[0].point, gamma=0.2, hessian_lipschitz=1.0)
    assert solution.status is Ending.SECOND_ORDER_POINT
    assert solution.trace.of("escape")[0].note == "length 2"  # 2|q|/L2


@pytest.mark.parametrize("seed", range(3))
def test_on_a_stream_it_grows_its_batches_until_they_say_something(seed: int) -> None:
    solution = solve(
        sncg, noisy_stream(), torch.zeros(5, dtype=DOUBLE), eps=0.02, gamma=0.05, seed=seed, hessian_batch=16
    )
    assert solution.status is Ending.SECOND_ORDER_POINT
    norm, lowest = stream_truth(solution.x)
    assert norm <= 1.5 * 0.02
    assert lowest > 0.0
    assert solution.curvature_error <= 0.05 / 2


@pytest.mark.parametrize("lowest", [-0.6, -0.4])
def test_on_everything_any_curvature_is_decided(lowest: float) -> None:
    """Below −γ/2 it is a direction, above it nothing is below −γ."""
    problem = problems.prescribed_spectrum([lowest, 0.5, 2.0])
    x = problem.stationary_points[0].point
    run = new_run(problem.objective, x)
    settings = sncg.practical_settings(run, options(gamma=1.0))
    q, _, decided = sncg._Curvature(run, 0.05, settings).lowest(x, 2.0, 1.0)
    assert q == pytest.approx(lowest, rel=1e-6)
    assert decided


def test_theory_has_the_batches_of_the_lemmas() -> None:
    settings = sncg.theory_settings(
        new_run(BOWL, ONES),
        options(eps=0.04, theory=True, smoothness=2.0, hessian_lipschitz=1.0, variance=9.0),
    )
    assert settings.gamma == pytest.approx(0.2)
    assert settings.gradient_batch == extraction.gradient_sample_size(eps=0.02, sub_gaussian=3.0, delta=0.05)
    assert settings.hessian_batch == extraction.hessian_sample_size(eps=0.05, smoothness=2.0, dimension=3, delta=0.05)
    assert settings.curvature_every == 1
    assert not settings.verify
    assert not settings.backtracking


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"hessian_batch": 0}, "hessian_batch must be at least 1"),
        ({"smoothness": -1.0}, "smoothness must be a finite number > 0"),
        ({"curvature_every": 0}, "curvature_every must be at least 1"),
    ],
)
def test_settings_that_cannot_be_are_refused(wrong: dict[str, float], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        solve(sncg, BOWL, ONES, **wrong)
