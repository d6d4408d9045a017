"""SVRG: its counts and its guard; its inner loop is tested as SCSG's."""

from __future__ import annotations

import math

import pytest
import torch

from tests.first_order.sums import DOUBLE, Witness, bowls, random
from unsaddle.cost import Cost
from unsaddle.first_order.method import Local
from unsaddle.first_order.svrg import Svrg

X0 = torch.tensor([1.0, -2.0, 0.5], dtype=DOUBLE)


def known(smoothness: float = 2.0) -> Local:
    return Local(eps=0.1, num_samples=200, smoothness=smoothness, variance=0.0, gradient_norm=1.0)


@pytest.mark.parametrize(
    ("settings", "batch", "steps"),
    [
        ({}, 7, 29),  # 0.2·200^{2/3} = 6.84, 200/7 = 28.6
        ({"batch_size": 10}, 10, 20),
        ({"batch_size": 1, "num_steps": 5}, 1, 5),
    ],
)
def test_an_epoch_costs_everything_and_two_batches_a_step_and_the_values_of_everything(
    settings: dict[str, int], batch: int, steps: int
) -> None:
    sums = Witness(bowls())
    Svrg(**settings).advance(sums, X0, None, known(), random())
    assert sums.cost == Cost(gradients=1 + 2 * steps, samples=200 + 2 * batch * steps, values=1, value_samples=200)


def test_its_first_step_is_half_the_full_gradient_over_l1() -> None:
    sums = Witness(bowls())
    Svrg().advance(sums, X0, None, known(4.0), random())
    torch.testing.assert_close(sums.answers[4].x, X0 - 0.125 * bowls().sample().grad(X0))


def test_an_epoch_that_rises_is_undone_and_l1_doubled_unless_the_step_was_given() -> None:
    local = known(0.05)
    y, z = Svrg().advance(bowls(), X0, None, local, random())
    assert y is z is X0
    assert local.smoothness == 0.1
    y, _ = Svrg(step_size=10.0).advance(bowls(), X0, None, local, random())
    assert float(y.norm()) > 100.0
    assert local.smoothness == 0.1


def test_epochs_come_to_the_minimum_linearly() -> None:
    """The gradient of the whole, not of a batch, goes to zero: SGD with this batch and step would not."""
    sums, x, local = bowls(), X0, known()
    for _ in range(15):
        x, _ = Svrg().advance(sums, x, None, local, random())
    assert float(sums.sample().grad(x).norm()) < 1e-6
    assert math.isfinite(local.smoothness)


def test_its_anchor_is_always_everything() -> None:
    assert Svrg().test_size(known()) is None
