"""What a method is told, the guard that methods share, and methods that users write."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tests.first_order.sums import DOUBLE, Witness, bowls, diagonal, random
from unsaddle.cost import Cost
from unsaddle.first_order.anchor import anchor_at
from unsaddle.first_order.method import Local, PlainMethod, guarded

ONE = torch.ones(1, dtype=DOUBLE)


def local(smoothness: float = 1.0, **known: float) -> Local:
    return Local(eps=0.1, num_samples=None, smoothness=smoothness, **known)


@pytest.mark.parametrize(
    ("gradient_norm", "wanted"),
    [(0.0, 1200), (0.2, 1200), (0.4, 300), (4.0, 16), (math.inf, 16)],  # 4·3/max(0.01, ĝ²/4), at least 16
)
def test_a_batch_is_as_large_as_the_gradient_needs(gradient_norm: float, wanted: int) -> None:
    assert local(variance=3.0, gradient_norm=gradient_norm).samples_for(4.0, at_least=16) == wanted


def test_more_than_half_of_everything_is_everything() -> None:
    assert Local(0.1, 2400, variance=3.0, gradient_norm=0.0).samples_for(4.0, at_least=16) == 1200
    assert Local(0.1, 2399, variance=3.0, gradient_norm=0.0).samples_for(4.0, at_least=16) is None
    assert Local(0.1, 1, variance=0.0).samples_for(4.0, at_least=16) is None


def test_the_guard_keeps_what_is_lower_and_lowers_l1_as_far_as_the_secants_allow() -> None:
    for secant, expected in ((0.0, 0.9), (0.95, 0.95)):
        known = local()
        seen = anchor_at(diagonal(1.0), ONE, None, random())
        half = 0.5 * ONE
        assert guarded(seen, half, known, secant) is half
        assert known.smoothness == expected


@pytest.mark.parametrize("worse", [1.5, math.nan, math.inf])
def test_the_guard_undoes_an_epoch_that_rises_and_doubles_l1(worse: float) -> None:
    known = local()
    seen = anchor_at(diagonal(1.0), ONE, None, random())
    assert guarded(seen, worse * ONE, known, secant=0.3) is ONE
    assert known.smoothness == 2.0


def test_the_guard_forgives_rounding() -> None:
    known = local()
    seen = anchor_at(diagonal(1.0), ONE, None, random())
    assert guarded(seen, ONE * (1.0 + 2e-16), known) is not ONE
    assert known.smoothness == 0.9


def test_the_guard_costs_the_samples_of_the_look_once() -> None:
    sums = Witness(bowls())
    seen = anchor_at(sums, torch.ones(3, dtype=DOUBLE), 40, random())
    before = sums.cost
    guarded(seen, torch.zeros(3, dtype=DOUBLE), local())
    assert sums.cost - before == Cost(values=8, value_samples=40)


# --- A user's own ---------------------------------------------------------------------------------------------------


def test_a_plain_callable_is_a_method() -> None:
    sums = bowls()

    def mine(objective: object, x: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        assert objective is sums
        assert isinstance(generator, torch.Generator)
        return x + 1.0, x + 2.0

    x = torch.zeros(3, dtype=DOUBLE)
    y, z = PlainMethod(mine).advance(sums, x, None, local(), random())
    assert (y.tolist(), z.tolist()) == ([1.0] * 3, [2.0] * 3)


def test_it_may_change_the_x_that_it_is_given() -> None:
    def mine(objective: object, x: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        x.add_(1.0)
        return x, x

    x = torch.zeros(3, dtype=DOUBLE)
    y, z = PlainMethod(mine).advance(bowls(), x, None, local(), random())
    assert x.tolist() == [0.0] * 3
    assert y is z


@pytest.mark.parametrize("answer", [torch.zeros(2), None, (torch.zeros(2),), [torch.zeros(2)] * 2])
def test_it_must_return_a_pair(answer: object) -> None:
    method = PlainMethod(lambda objective, x, generator: answer)  # type: ignore[arg-type,return-value]
    with pytest.raises(TypeError, match=r"a method must return a pair \(y, z\), got .*return \(x, x\) for one x"):
        method.advance(bowls(), torch.zeros(3, dtype=DOUBLE), None, local(), random())
