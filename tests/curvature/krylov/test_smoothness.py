"""L1 by a few steps of the Krylov process."""

from __future__ import annotations

import math

import pytest
import torch

from tests.first_order.sums import Witness
from unsaddle import FiniteSum, Function
from unsaddle.curvature.krylov.smoothness import smoothness

DOUBLE = torch.float64
ONES = torch.ones(2, dtype=DOUBLE)


def random() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def diagonal(*curvatures: float) -> Function:
    s = torch.tensor(curvatures, dtype=DOUBLE)
    return Function(lambda x: 0.5 * s @ x**2)


def test_l1_is_the_largest_curvature_of_either_sign() -> None:
    x = torch.ones(6, dtype=DOUBLE)
    assert smoothness(diagonal(-1.0, 0.25, 0.5, 1.0, 2.0, 4.0), x, random()) == pytest.approx(4.0, rel=1e-6)
    assert smoothness(diagonal(-7.0, 0.25, 0.5, 1.0, 2.0, 4.0), x, random()) == pytest.approx(7.0, rel=1e-6)


def test_l1_of_many_components_is_measured_on_256_of_them() -> None:
    sums = Witness(FiniteSum(lambda x, a: 0.5 * a.mean() * x @ x, torch.full((1000,), 3.0, dtype=DOUBLE)))
    assert smoothness(sums, ONES, random()) == pytest.approx(3.0, rel=1e-6)
    assert {answer.size for answer in sums.answers} == {256}


def test_l1_where_nothing_is_finite_is_not_a_number() -> None:
    assert math.isnan(smoothness(Function(lambda x: x.sum() * math.nan), ONES, random()))
