"""The inner loop of SVRG and SCSG."""

from __future__ import annotations

import pytest
import torch

from tests.first_order.sums import DOUBLE, Witness, bowls, diagonal, random
from unsaddle.cost import Cost
from unsaddle.first_order.variance_reduced import InnerLoop, descend

X0 = torch.tensor([1.0, -2.0, 0.5], dtype=DOUBLE)


def loop(num_steps: int, batch_size: int = 3, step_size: float = 0.1) -> InnerLoop:
    return InnerLoop(batch_size=batch_size, step_size=step_size, num_steps=num_steps)


def test_each_step_is_the_difference_on_fresh_samples_plus_the_gradient_at_the_anchor() -> None:
    sums = Witness(bowls())
    h = torch.tensor([0.3, 0.1, -0.2], dtype=DOUBLE)
    last = descend(sums, X0, h, loop(12), random()).last
    x = X0
    for at_anchor, at_x in zip(sums.answers[::2], sums.answers[1::2], strict=True):
        assert torch.equal(at_anchor.x, X0)
        torch.testing.assert_close(at_x.x, x)
        x = x - 0.1 * (at_x.gradient - at_anchor.gradient + h)
    torch.testing.assert_close(last, x)


@pytest.mark.parametrize(("num_steps", "batch_size"), [(0, 3), (1, 1), (9, 4)])
def test_it_costs_two_batches_a_step(num_steps: int, batch_size: int) -> None:
    sums = Witness(bowls())
    descend(sums, X0, torch.zeros(3, dtype=DOUBLE), loop(num_steps, batch_size), random())
    assert sums.cost == Cost(gradients=2 * num_steps, samples=2 * batch_size * num_steps)


def test_the_noise_of_a_step_vanishes_at_the_anchor() -> None:
    """The first step is −ηh, whatever is drawn."""
    h = torch.tensor([0.3, 0.1, -0.2], dtype=DOUBLE)
    for seed in range(5):
        last = descend(bowls(), X0, h, loop(1, batch_size=1), random(seed)).last
        torch.testing.assert_close(last, X0 - 0.1 * h)


def test_on_a_plain_function_it_is_gradient_descent() -> None:
    bowl = diagonal(1.0, 0.5, 0.25)
    last = descend(bowl, X0, bowl.sample().grad(X0), loop(30, batch_size=1), random()).last
    s = torch.tensor([1.0, 0.5, 0.25], dtype=DOUBLE)
    torch.testing.assert_close(last, (1.0 - 0.1 * s) ** 30 * X0)


@pytest.mark.parametrize("choose", [0, 1, 11, 29])
def test_an_iterate_on_the_way_can_be_chosen_and_is_that_of_a_shorter_loop(choose: int) -> None:
    sums, h = bowls(), torch.tensor([0.3, 0.1, -0.2], dtype=DOUBLE)
    whole = descend(sums, X0, h, loop(30), random(), choose=choose)
    assert torch.equal(whole.last, descend(sums, X0, h, loop(30), random()).last)
    assert torch.equal(whole.chosen, descend(sums, X0, h, loop(choose), random()).last)


def test_a_batch_of_everything_draws_nothing() -> None:
    sums, h = bowls(8), torch.tensor([0.3, 0.1, -0.2], dtype=DOUBLE)
    generator = random()
    last = descend(sums, X0, h, loop(3, batch_size=8), generator).last
    assert torch.equal(generator.get_state(), random().get_state())
    torch.testing.assert_close(last, descend(sums, X0, h, loop(3, batch_size=8), random(1)).last, rtol=0.0, atol=0.0)


def test_the_secant_is_the_curvature_on_the_way_and_zero_before_it_is_looked_at() -> None:
    bowl = diagonal(3.0, 3.0, 3.0)
    h = bowl.sample().grad(X0).clone()
    assert descend(bowl, X0, h, loop(7, batch_size=1), random()).secant == 0.0
    assert descend(bowl, X0, h, loop(8, batch_size=1), random()).secant == pytest.approx(3.0)
    assert descend(bowl, X0, torch.zeros_like(h), loop(8, batch_size=1), random()).secant == 0.0  # It never moved.


def test_the_anchor_is_not_changed() -> None:
    x = X0.clone()
    last = descend(bowls(), x, X0, loop(5), random()).last
    assert torch.equal(x, X0)
    still = descend(bowls(), x, X0, loop(0), random()).last
    assert still is not x
    assert last.data_ptr() != x.data_ptr()
