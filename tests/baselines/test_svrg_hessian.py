"""SVRG-Hessian: its counts, its epochs, and its descent along negative curvature."""

from __future__ import annotations

import math

import pytest
import torch

from tests.baselines.running import DOUBLE, bowl_sum, new_run, noisy_stream, options, solve
from unsaddle import problems
from unsaddle.baselines import svrg_hessian
from unsaddle.cost import Cost
from unsaddle.run import Ending

ONES = torch.ones(3, dtype=DOUBLE)


def test_an_epoch_costs_n_and_two_batches_a_step_and_a_product_n() -> None:
    """All Hessians being I, m steps of 1/2 shrink x by 2^m, and one product tells Lanczos all."""
    n, b, m = 100, 5, 20
    solution = solve(svrg_hessian, bowl_sum(n), ONES, gamma=0.1, smoothness=1.0, batch_size=b, steps=m)
    assert solution.status is Ending.SECOND_ORDER_POINT
    assert torch.allclose(solution.x, ONES * 2.0**-m)
    assert solution.cost == Cost(
        gradients=1 + 2 * m + 1, samples=n + 2 * b * m + n, hessian_products=1, hessian_samples=n
    )


def test_hessian_descent_waits_for_a_small_gradient() -> None:
    solution = solve(svrg_hessian, bowl_sum(), 1e6 * ONES, gamma=0.1, smoothness=1.0, steps=5)
    kinds = [event.kind for event in solution.trace]
    assert kinds.count("extraction") == 1
    assert kinds[-1] == "extraction"


def test_with_a_known_lipschitz_constant_the_step_is_the_papers() -> None:
    problem = problems.prescribed_spectrum([-1.0, 0.5, 2.0], power=3)
    start = problem.saddles[0].point
    solution = solve(svrg_hessian, problem.objective, start, gamma=0.2, hessian_lipschitz=1.0)
    assert solution.status is Ending.SECOND_ORDER_POINT
    first = solution.trace.of("escape")[0]
    assert first.note == "length 1"  # |q|/L2
    assert first.value == pytest.approx(-0.5 + 1.0 / 6.0)


@pytest.mark.parametrize(("lowest", "found"), [(-0.6, True), (-0.4, False)])
def test_a_direction_is_one_below_half_of_gamma(lowest: float, found: bool) -> None:
    problem = problems.prescribed_spectrum([lowest, 0.5, 2.0])
    x = problem.stationary_points[0].point
    run, known = new_run(problem.objective, x), options(gamma=1.0)
    settings = svrg_hessian.practical_settings(1, run, known)
    seen = svrg_hessian.hessian_descent(run, known, x, settings)
    assert seen.curvature == pytest.approx(lowest, rel=1e-6)
    assert (seen.direction is not None) == found


def test_every_round_of_the_theory_has_all_its_epochs() -> None:
    """Of two rounds the first leaves a saddle, and three epochs follow each start."""
    problem = problems.prescribed_spectrum([-1.0, 0.5, 2.0], power=3)
    known = {"smoothness": 10.0, "hessian_lipschitz": 1.0, "initial_gap": 1.0, "epochs": 3, "rounds": 2, "steps": 5}
    start = problem.saddles[0].point
    kinds = [e.kind for e in solve(svrg_hessian, problem.objective, start, theory=True, gamma=0.2, **known).trace]
    first = kinds.index("extraction")
    second = kinds.index("extraction", first + 1)
    assert kinds[:first].count("check") == kinds[first + 1 : second].count("check") == 4


def test_an_epoch_that_rose_is_undone() -> None:
    solution = solve(svrg_hessian, bowl_sum(), ONES, gamma=0.1, smoothness=1.0, step_size=4.0)
    assert solution.status is Ending.SECOND_ORDER_POINT
    values = [event.value for event in solution.trace.of("check")]
    assert values == sorted(values, reverse=True)


def test_theory_against_numbers_by_hand() -> None:
    """n = 1000, L1 = L2 = Δ = 1, ε = 0.01: η = 1/400, m = ⌊4000/3⌋, γ = 0.1, 1e6/1333 epochs, and, as q = γ/2 gains
    q³/(3L2²) = γ³/24, 24·1000 + 1 rounds."""
    known = options(eps=0.01, theory=True, smoothness=1.0, hessian_lipschitz=1.0, initial_gap=1.0)
    settings = svrg_hessian.theory_settings(1000, 3, known)
    assert settings.step_size == pytest.approx(1.0 / 400.0)
    assert settings.steps == 1333
    assert settings.gamma == pytest.approx(0.1)
    assert settings.epochs == math.ceil(1e6 / 1333)
    assert settings.rounds == pytest.approx(24_001, abs=1)
    assert settings.random_share == 0.5


def test_larger_batches_need_as_many_samples() -> None:
    """n^{2/3}/b steps of b samples for the same gain: m is a fifth at b = 5, and the epochs are as many."""
    known = options(eps=0.01, theory=True, smoothness=1.0, hessian_lipschitz=1.0, initial_gap=1.0, batch_size=5)
    assert svrg_hessian.theory_settings(1000, 3, known).epochs == math.ceil(1e6 / (266 * 5))


def test_by_theory_a_random_iterate_comes_from_any_epoch() -> None:
    """With one step an epoch, the iterates are the start and, all Hessians being I, half of it."""
    how = {"smoothness": 1.0, "hessian_lipschitz": 1.0, "initial_gap": 1.0, "random_share": 1.0, "step_size": 0.5}
    seeds = range(40)
    ends = [
        float(solve(svrg_hessian, bowl_sum(), ONES, theory=True, seed=seed, epochs=2, steps=1, rounds=1, **how).x[0])
        for seed in seeds
    ]
    assert set(ends) == {1.0, 0.5}
    assert 10 <= ends.count(1.0) <= 30


def test_a_stream_is_not_a_finite_sum() -> None:
    with pytest.raises(ValueError, match="got a stream"):
        solve(svrg_hessian, noisy_stream(), torch.zeros(5, dtype=DOUBLE))


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"random_share": 1.5}, r"random_share must be in \[0, 1\]"),
        ({"steps": 0}, "steps must be at least 1"),
        ({"hessian_lipschitz": -2.0}, "hessian_lipschitz must be a finite number > 0"),
    ],
)
def test_settings_that_cannot_be_are_refused(wrong: dict[str, float], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        solve(svrg_hessian, bowl_sum(), ONES, **wrong)
