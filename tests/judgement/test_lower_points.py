"""Lower points beside x: which count, which do not, and what they cost."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from unsaddle import Function
from unsaddle.cost import Ledger
from unsaddle.judgement.lower_points import NEARER, Around, _order

DOUBLE = torch.float64
ZERO, ALONG = torch.zeros(2, dtype=DOUBLE), torch.tensor([0.0, 1.0], dtype=DOUBLE)


def around(fun: Callable[[Tensor], Tensor], x: Tensor = ZERO) -> tuple[Around, Ledger]:
    ledger = Ledger()
    return Around(Function(fun).sample(ledger=ledger), x, 1.0), ledger


@pytest.mark.parametrize("constant", [0.0, 1.0])
@pytest.mark.parametrize(
    ("fun", "straight"),
    [
        (lambda x: x[0] ** 2 + x[1] ** 3, True),
        (lambda x: x[0] ** 2 - x[1] ** 4 + x[1] ** 6, True),
        (lambda x: x[0] ** 2 - x[1] ** 8, True),
        (lambda x: (x[0] - x[1] ** 2) * (x[0] - 3.0 * x[1] ** 2), False),  # Each line through 0 rises first.
    ],
    ids=["cubic", "quartic", "octic", "curve"],
)
def test_a_fall_of_higher_order_is_found(fun: Callable[[Tensor], Tensor], straight: bool, constant: float) -> None:
    found = around(lambda x: fun(x) + constant)[0].lower_point(ALONG)
    assert found is not None
    assert found.straight == straight
    there = ZERO + found.distance * found.way
    assert float(fun(ZERO) - fun(there)) == pytest.approx(found.fall, rel=1e-6)
    assert found.fall > 0.0
    assert found.nearest <= 0.5 * found.distance


@pytest.mark.parametrize("start", range(4))
def test_a_descent_from_beside_x_finds_what_the_line_misses(start: int) -> None:
    """Along most directions x⁴ − y⁴ + … rises; F is lower along y alone."""
    x = torch.zeros(4, dtype=DOUBLE)
    v = torch.tensor([0.9, 0.3, 0.2, 0.0], dtype=DOUBLE).roll(start)
    v[3] = 0.1
    f, _ = around(lambda x: (x[:3] ** 4).sum() - x[3] ** 4 + x[3] ** 6, x)
    assert f.lower_point(v / v.norm(), by_descent=False) is None
    found = f.lower_point(v / v.norm())
    assert found is not None
    assert abs(float(found.way[3])) > 0.8


@pytest.mark.parametrize(
    "fun",
    [
        lambda x: x[0] ** 2 + x[1] ** 4,
        lambda x: x[0] ** 2 + x[1] ** 4 - 2.0 * x[1] ** 6,  # lower again beyond a barrier
        lambda x: x[0] ** 2 + (x[1] - 0.1) ** 2,  # a gradient
        lambda x: x[0] ** 2 - 1e-3 * x[1] ** 2,  # a curvature
        lambda x: x[0] ** 2 + (x[0] * x[1] - 0.0) ** 2,  # a valley
    ],
    ids=["minimum", "barrier", "gradient", "curvature", "valley"],
)
def test_what_is_no_fall_of_higher_order_is_none(fun: Callable[[Tensor], Tensor]) -> None:
    assert around(fun)[0].lower_point(ALONG) is None


def test_where_f_does_not_change_values_tell_alone() -> None:
    f, ledger = around(lambda x: x[0] ** 2)
    assert f.lower_point(ALONG) is None
    assert ledger.gradients == 0


def test_where_f_ends_nothing_is_found() -> None:
    assert around(lambda x: x[0] ** 2 + x[1].sqrt() * 0.0)[0].lower_point(ALONG) is None


def test_the_order_is_that_of_the_fall() -> None:
    for k in (1, 2, 3, 5):
        assert _order([(NEARER**i) ** k for i in range(6)]) == pytest.approx(k)


def test_a_value_of_minus_infinity_is_no_lower_point() -> None:
    """A logarithm of zero, not a fall."""
    beyond = around(lambda x: x[0] ** 2 + torch.where(x[1].abs() > 1e-3, -math.inf, 0.0))[0]
    assert beyond.lower_point(ALONG, by_descent=False) is None
