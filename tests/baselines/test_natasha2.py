"""Natasha 1.5's epoch, and Natasha 2 around it: counts, centres, the penalty, and Oja's products."""

from __future__ import annotations

import math

import pytest
import torch

from tests.baselines.running import DOUBLE, bowl_sum, new_run, options, solve
from unsaddle import Function, problems
from unsaddle.baselines import natasha2
from unsaddle.cost import Cost
from unsaddle.first_order.natasha15 import Natasha15Settings, natasha15_epoch
from unsaddle.run import Budget, CountedObjective, Ending

BOWL = Function(lambda x: (0.5 * x @ x, x.clone()), gradient=True, hvp=lambda x, v: v.clone())
ONES = torch.ones(3, dtype=DOUBLE)
GIVEN = {"smoothness": 1.0, "anchor_size": 16, "batch_size": 2, "steps": 3, "sub_epochs": 2}


def _random() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_an_epoch_costs_two_batches_a_step() -> None:
    ledger = Budget()
    settings = Natasha15Settings(step_size=0.1, sigma=0.1, sub_epochs=3, steps=4, batch_size=5)
    natasha15_epoch(CountedObjective(bowl_sum(100), ledger), ONES, ONES, settings, _random())
    assert ledger.cost == Cost(gradients=2 * 12, samples=2 * 5 * 12)


def test_steps_are_exact_where_every_hessian_is_the_same() -> None:
    """There variance reduction leaves no variance: x ← x − α(x + 2σ(x − x̂)), worked out by hand."""
    alpha, sigma = 0.25, 0.5
    settings = Natasha15Settings(step_size=alpha, sigma=sigma, sub_epochs=2, steps=2)
    last, centres = natasha15_epoch(bowl_sum(100), ONES, ONES, settings, _random())
    # 1 → 3/4 → 3/4 − ¼(3/4 − 1/4) = 5/8, the next centre; → 15/32 → 15/32 − ¼(15/32 − 5/32) = 25/64.
    assert torch.allclose(centres[1], 0.625 * ONES)
    assert torch.allclose(last, 25.0 / 64.0 * ONES)


def test_the_centre_is_a_random_iterate_their_average_or_the_last() -> None:
    iterates = [0.5**t for t in range(5)]

    def centre(rule: str, seed: int = 0) -> float:
        settings = Natasha15Settings(step_size=0.5, sigma=0.0, sub_epochs=1, steps=4, centre=rule)
        return float(natasha15_epoch(BOWL, ONES, ONES, settings, torch.Generator().manual_seed(seed))[0][0])

    assert centre("last") == iterates[4]
    assert centre("average") == pytest.approx(sum(iterates[:4]) / 4)
    assert {centre("random", seed) for seed in range(60)} == set(iterates[:4])
    with pytest.raises(ValueError, match="centre must be one of random, average, last"):
        centre("first")


def test_the_penalty_is_the_gradient_of_its_formula() -> None:
    y, radius, L1 = torch.zeros(3, dtype=DOUBLE), 0.5, 2.0
    x = ONES.clone().requires_grad_()
    (expected,) = torch.autograd.grad(L1 * (torch.linalg.vector_norm(x - y) - radius) ** 2, x)
    got = natasha2.penalty_gradient(ONES, y, radius, L1)
    assert got is not None
    assert torch.allclose(got, expected)
    assert natasha2.penalty_gradient(0.2 * ONES, y, radius, L1) is None


def test_one_epoch_and_the_final_sgd_cost_what_they_should() -> None:
    solution = solve(natasha2, bowl_sum(100), 9.0 * ONES, first_order_steps=1, **GIVEN)
    assert solution.status is Ending.OUTPUT
    anchor, epoch, sgd, look = 16, 2 * 2 * 3 * 2, 16 * 2, 16
    assert solution.cost.samples == anchor + epoch + sgd + look
    assert solution.cost.value_samples == 16  # Whether the epoch helped.
    assert solution.cost.hessian_samples == 0


def test_by_default_a_batch_is_a_fifth_of_the_anchor_s_two_thirds_power() -> None:
    given = {name: size for name, size in GIVEN.items() if name != "batch_size"} | {"anchor_size": 64}
    solution = solve(natasha2, bowl_sum(100), 9.0 * ONES, first_order_steps=1, **given)
    anchor, epoch, sgd, look = 64, 2 * 4 * 3 * 2, 64, 64  # 64^(2/3)/5 = 3.2. The final SGD takes single samples.
    assert solution.cost.samples == anchor + epoch + sgd + look


def test_ojas_products_are_counted_apart() -> None:
    solution = solve(natasha2, BOWL, 0.0 * ONES, gamma=0.1, smoothness=1.0)
    assert solution.status is Ending.SECOND_ORDER_POINT
    steps = natasha2.oja_settings(gamma=0.1, delta=0.05, dimension=3, smoothness=1.0, num_samples=1).num_steps
    assert steps == math.ceil(math.log(3 / 0.05**2) / 0.05)
    tried = [math.ceil(steps / 16), math.ceil(steps / 4), steps]
    assert solution.cost == Cost(
        gradients=1, samples=1, hessian_products=sum(tried) + 3, hessian_samples=sum(tried) + 3
    )
    assert solution.curvature == pytest.approx(1.0)


@pytest.mark.parametrize("lipschitz", [None, 6.0])
def test_it_leaves_a_saddle_by_a_line_search_or_by_the_paper_step(lipschitz: float | None) -> None:
    problem = problems.two_dimensional_saddle()
    solution = solve(natasha2, problem.objective, problem.saddles[0].point, gamma=0.5, hessian_lipschitz=lipschitz)
    assert solution.status is Ending.SECOND_ORDER_POINT
    if lipschitz is not None:
        assert solution.trace.of("escape")[0].note == f"length {0.5 / 6.0:.3g}"
    assert float((solution.x.abs() - torch.tensor([0.0, math.sqrt(2.0)], dtype=DOUBLE)).norm()) < 1e-3


def test_theory_against_numbers_by_hand() -> None:
    """L1 = L2 = V = Δ = 1, ε = 1e-3, δ = 1: L1δ/(Vε)^{1/3} = 10 ≥ L2, so σ̃ = L̃ = 0.1; B = 1e6, p = 100, m = 1e4."""
    settings = natasha2.theory_settings(
        new_run(BOWL, ONES),
        options(eps=1e-3, gamma=1.0, theory=True, smoothness=1.0, hessian_lipschitz=1.0, variance=1.0, initial_gap=1.0),
    )
    assert settings.sigma == pytest.approx(0.1)
    assert settings.anchor_size == 10**6
    assert settings.sub_epochs == pytest.approx(100, abs=1)
    assert settings.step_size == pytest.approx(1.0 / (0.1 * 1e4), rel=0.02)
    assert settings.first_order_steps == pytest.approx(1000, rel=0.02)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"sigma": -1.0}, "sigma must be a finite number >= 0"),
        ({"sub_epochs": 0}, "sub_epochs must be at least 1"),
        ({"hessian_lipschitz": 0.0}, "hessian_lipschitz must be a finite number > 0"),
    ],
)
def test_settings_that_cannot_be_are_refused(wrong: dict[str, float], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        solve(natasha2, bowl_sum(100), ONES, **(GIVEN | wrong))
