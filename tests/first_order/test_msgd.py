"""MSGD: one step on the samples of the look, shortened until it helps."""

from __future__ import annotations

import pytest
import torch

from tests.first_order.sums import DOUBLE, Witness, bowls, diagonal, random
from unsaddle.cost import Cost
from unsaddle.first_order.anchor import anchor_at
from unsaddle.first_order.method import Local
from unsaddle.first_order.msgd import Msgd

X0 = torch.tensor([1.0, -2.0, 0.5], dtype=DOUBLE)


def known(smoothness: float, n: int | None = 1) -> Local:
    return Local(eps=0.1, num_samples=n, smoothness=smoothness, variance=0.0, gradient_norm=1.0)


def test_the_step_is_the_gradient_over_l1_and_l1_then_falls() -> None:
    local, bowl = known(2.0), diagonal(1.0, 1.0, 1.0)
    y, z = Msgd().advance(bowl, X0, anchor_at(bowl, X0, None, random()), local, random())
    assert y is z
    torch.testing.assert_close(z, 0.5 * X0)
    assert local.smoothness == pytest.approx(1.8)


def test_l1_is_doubled_until_the_value_falls_by_a_quarter_of_the_squared_gradient_over_it() -> None:
    """On ½‖x‖² a step of 1/L1 gains (1/L1 − 1/(2·L1²))‖x‖², a quarter of ‖x‖²/L1 or more from L1 = 2/3 on."""
    for start, taken in ((2.0 / 3.0, 2.0 / 3.0), (0.66, 1.32), (0.1, 0.8), (1e-3, 1.024)):
        local, bowl = known(start), Witness(diagonal(1.0, 1.0, 1.0))
        seen = anchor_at(bowl, X0, None, random())
        _, z = Msgd().advance(bowl, X0, seen, local, random())
        torch.testing.assert_close(z, (1.0 - 1.0 / taken) * X0)
        assert local.smoothness == pytest.approx(0.9 * taken)


def test_a_step_costs_the_look_and_as_many_values() -> None:
    sums = Witness(bowls())
    Msgd(batch_size=40).advance(sums, X0, None, known(4.0, 200), random())
    assert sums.cost == Cost(gradients=8, samples=40, values=8, value_samples=40)


def test_the_look_of_the_test_is_the_sample_of_the_step() -> None:
    sums = Witness(bowls())
    seen = anchor_at(sums, X0, 40, random())
    before = sums.cost
    _, z = Msgd().advance(sums, X0, seen, known(4.0, 200), random())
    assert (sums.cost - before).gradients == 0
    torch.testing.assert_close(z, X0 - seen.gradient / 4.0)


def test_a_given_step_is_taken_unjudged() -> None:
    bowl = Witness(diagonal(1.0, 1.0, 1.0))
    _, z = Msgd(step_size=3.0).advance(bowl, X0, None, known(1.0), random())
    torch.testing.assert_close(z, -2.0 * X0)
    assert bowl.cost == Cost(gradients=1, samples=1)


def test_where_the_gain_is_lost_in_rounding_the_step_is_still_taken() -> None:
    """In float32, 1 + ½‖x‖² does not show a gain of 1e-8. L1 may not run away over that."""
    x = torch.full((1,), 1e-4)
    from unsaddle import Function

    bowl, local = Function(lambda x: (1.0 + 0.5 * x @ x, x), gradient=True), known(2.0)
    for _ in range(10):
        x, _ = Msgd().advance(bowl, x, None, local, random())
    assert local.smoothness <= 4.0
    assert abs(float(x)) < 1e-6


def test_where_no_step_helps_it_stays() -> None:
    """A value that rises in every direction, with a gradient that says otherwise."""
    from unsaddle import Function

    liar = Function(lambda x: ((x - X0).norm(), torch.ones_like(x)), gradient=True)
    y, z = Msgd().advance(liar, X0, None, known(1.0), random())
    assert y is z is X0
