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
    last, _ = descend(sums, X0, h, loop(12), random())
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
        last, _ = descend(bowls(), X0, h, loop(1, batch_size=1), random(seed))
        torch.testing.assert_close(last, X0 - 0.1 * h)


def test_on_a_plain_function_it_is_gradient_descent() -> None:
    bowl = diagonal(1.0, 0.5, 0.25)
    last, _ = descend(bowl, X0, bowl.sample().grad(X0), loop(30, batch_size=1), random())
    s = torch.tensor([1.0, 0.5, 0.25], dtype=DOUBLE)
    torch.testing.assert_close(last, (1.0 - 0.1 * s) ** 30 * X0)


def test_it_can_be_gone_on_with() -> None:
    bowl = diagonal(1.0, 0.5, 0.25)
    h = bowl.sample().grad(X0).clone()
    whole, _ = descend(bowl, X0, h, loop(30, batch_size=1), random())
    half, _ = descend(bowl, X0, h, loop(11, batch_size=1), random())
    rest, _ = descend(bowl, X0, h, loop(19, batch_size=1), random(), start=half)
    torch.testing.assert_close(rest, whole)


def test_the_secant_is_the_curvature_on_the_way_and_zero_before_it_is_looked_at() -> None:
    bowl = diagonal(3.0, 3.0, 3.0)
    h = bowl.sample().grad(X0).clone()
    assert descend(bowl, X0, h, loop(7, batch_size=1), random())[1] == 0.0
    assert descend(bowl, X0, h, loop(8, batch_size=1), random())[1] == pytest.approx(3.0)
    assert descend(bowl, X0, torch.zeros_like(h), loop(8, batch_size=1), random())[1] == 0.0  # It never moved.


def test_the_anchor_is_not_changed() -> None:
    x = X0.clone()
    last, _ = descend(bowls(), x, X0, loop(5), random())
    assert torch.equal(x, X0)
    still, _ = descend(bowls(), x, X0, loop(0), random())
    assert still is not x
    assert last.data_ptr() != x.data_ptr()
