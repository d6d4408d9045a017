"""How far a sample's Hessian may hide a lower curvature: against samples whose spread is known."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from unsaddle import FiniteSum, Function, negative_curvature
from unsaddle.curvature.result import Curvature, Status
from unsaddle.judgement.sampling_error import hessian_error
from unsaddle.measure import student
from unsaddle.measure.batches import BATCHES

DOUBLE = torch.float64
ORIGIN = torch.zeros(3, dtype=DOUBLE)


def found_nothing(*deciding: Tensor) -> Curvature:
    bowl = Function(lambda x: 0.5 * x @ x)
    nothing = negative_curvature(bowl, ORIGIN)
    assert nothing.status is Status.NOTHING_FOUND
    return replace(nothing, deciding=deciding)


def noisy(deviations: list[float], n: int = 100_000) -> FiniteSum:
    """½Σ(1 + s_i ξ)x_i², ξ standard normal: the curvature along axis i has the deviation s_i in one sample."""
    s = torch.tensor(deviations, dtype=DOUBLE)
    xi = torch.randn(n, 1, generator=torch.Generator().manual_seed(0), dtype=DOUBLE)
    return FiniteSum(lambda x, z: 0.5 * ((1.0 + s * z) * x.square()).sum(1).mean(), xi)


def axis(i: int) -> Tensor:
    return torch.eye(3, dtype=DOUBLE)[i]


@pytest.mark.slow
def test_it_is_the_interval_along_the_noisiest_of_the_lowest_directions() -> None:
    """Over 60 draws the mean of a sample deviation from 16 batches is within a fifth of the truth, by far."""
    found, objective = found_nothing(axis(0), axis(1), axis(2)), noisy([0.5, 2.0, 50.0])
    seen = [
        hessian_error(objective, ORIGIN, found, 1600, 0.05, torch.Generator().manual_seed(seed)) for seed in range(60)
    ]
    deviation = sum(error.deviation for error in seen) / len(seen)
    assert deviation == pytest.approx(2.0, rel=0.2)  # The last direction is the highest, and does not decide.
    for error in seen:
        quantile = student.quantile(0.95, BATCHES - 1)
        assert error.slack == pytest.approx(quantile * error.deviation / math.sqrt(1600), rel=1e-9)


def test_an_extractor_that_names_no_direction_leaves_it_unknown() -> None:
    error = hessian_error(noisy([1.0, 1.0, 1.0]), ORIGIN, found_nothing(), 160, 0.05, torch.Generator())
    assert error.slack == math.inf
