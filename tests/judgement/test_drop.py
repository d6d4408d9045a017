"""How far F falls along a direction, by values."""

import math

import pytest
import torch

from unsaddle import FiniteSum, Function, is_minimum
from unsaddle.cost import Ledger
from unsaddle.judgement.drop import drop_along

DOUBLE = torch.float64


def along(objective, x, v, curvature, samples=None):
    generator, ledger = torch.Generator().manual_seed(0), Ledger()
    how = {"samples": samples, "delta": 0.05, "generator": generator, "ledger": ledger}
    return drop_along(objective, x, v, curvature=curvature, radius=1e-7, **how), ledger


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e8])
def test_it_is_the_depth_of_the_well_to_a_factor(offset):
    """x⁴/4 − x²/2 falls by 1/4; a doubling search comes within a fifth of it, under an offset too."""
    f = Function(lambda x: offset + x[0] ** 4 / 4 - x[0] ** 2 / 2)
    drop, ledger = along(f, torch.zeros(1, dtype=DOUBLE), torch.ones(1, dtype=DOUBLE), -1.0)
    assert 0.2 <= drop.value <= 0.25 + 1e-6
    assert drop.interval == (drop.value, drop.value)
    assert ledger.cost.gradients == 0
    assert 0 < ledger.cost.values <= 70


def test_where_nothing_falls_it_is_zero():
    f = Function(lambda x: 1.0 + x @ x)
    drop, _ = along(f, torch.zeros(2, dtype=DOUBLE), torch.tensor([1.0, 0.0], dtype=DOUBLE), -1.0)
    assert drop.value == 0.0


def test_on_samples_it_has_an_interval_that_holds():
    """The truth is the fall of the whole sum at the length that was chosen."""
    held = 0
    for seed in range(40):
        rows = torch.randn(4000, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE)
        rows -= rows.mean()
        f = FiniteSum(lambda x, a: (x[0] ** 4 / 4 - x[0] ** 2 / 2 + 2.0 * a * x[0] ** 2).mean(), rows)
        generator = torch.Generator().manual_seed(seed)
        how = {"samples": 400, "delta": 0.05, "generator": generator, "ledger": Ledger()}
        x, v = torch.zeros(1, dtype=DOUBLE), torch.ones(1, dtype=DOUBLE)
        drop = drop_along(f, x, v, curvature=-1.0, radius=1e-7, **how)
        truth = drop.length**2 / 2 - drop.length**4 / 4
        held += drop.interval[0] <= truth <= drop.interval[1]
    assert held >= 34  # 38 expected; 33 or fewer come with probability 0.02


def test_verdicts_have_it():
    f = Function(lambda x: x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4)
    saddle = is_minimum(f, torch.zeros(2, dtype=DOUBLE))
    assert 0.7 <= saddle.drop <= 1.0
    assert "F falls by" in str(saddle)
    minimum = is_minimum(f, torch.tensor([0.0, 2.0], dtype=DOUBLE).sqrt())
    assert math.isnan(minimum.drop)
    assert minimum.bound <= 1e-6  # In two dimensions every eigenvalue is known.
