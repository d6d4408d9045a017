"""Natasha with measured constants: counts and guard."""

from __future__ import annotations

import pytest
import torch

from tests.first_order.sums import DOUBLE, Witness, bowls, random
from unsaddle.cost import Cost
from unsaddle.first_order.anchor import anchor_at
from unsaddle.first_order.method import Local
from unsaddle.first_order.natasha import Natasha

X0 = torch.tensor([1.0, -2.0, 0.5], dtype=DOUBLE)


def known(smoothness: float = 2.0) -> Local:
    return Local(eps=0.1, num_samples=200, smoothness=smoothness, variance=0.0, gradient_norm=1.0)


@pytest.mark.parametrize(
    ("settings", "batch", "steps"),
    [
        ({}, 4, 8),  # 0.2·64^{2/3} = 3.2; 64/(4·2)
        ({"batch_size": 10}, 10, 4),  # 64/(10·2) = 3.2
    ],
)
def test_an_epoch_costs_the_anchor_its_values_and_two_batches_a_step(
    settings: dict[str, int], batch: int, steps: int
) -> None:
    sums = Witness(bowls())
    y, z = Natasha(anchor_size=64, **settings).advance(sums, X0, None, known(), random())
    assert y is z
    taken = 2 * steps  # p = 2 sub-epochs
    assert sums.cost == Cost(gradients=8 + 2 * taken, samples=64 + 2 * batch * taken, values=8, value_samples=64)


def test_its_first_step_follows_l1_and_sigma() -> None:
    """α = 0.5/(L1 + 2σ), σ = L1/10: the first step is α∇F_S."""
    for settings, alpha in (({}, 0.5 / 4.8), ({"sigma": 2.0}, 0.5 / 8.0), ({"step_size": 0.01}, 0.01)):
        sums = Witness(bowls())
        seen = anchor_at(sums, X0, 64, random())
        Natasha(**settings).advance(sums, X0, seen, known(4.0), random())
        torch.testing.assert_close(sums.answers[11].x, X0 - alpha * seen.gradient)


def test_an_epoch_that_rises_is_undone_and_l1_doubled_unless_the_step_was_given() -> None:
    local = known(0.05)
    y, z = Natasha(anchor_size=64).advance(bowls(), X0, anchor_at(bowls(), X0, 64, random()), local, random())
    assert y is z
    assert torch.equal(y, X0)
    assert local.smoothness == 0.1
    y, _ = Natasha(step_size=10.0).advance(bowls(), X0, None, local, random())
    assert float(y.norm()) > 100.0
    assert local.smoothness == 0.1
