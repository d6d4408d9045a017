"""Extractors that run on settings: what they are allowed to take, they take."""

from __future__ import annotations

import pytest
import torch

from unsaddle import Function, negative_curvature
from unsaddle.curvature.result import Status

SIZES = torch.linspace(1e-3, 1.0, 200, dtype=torch.float64)


@pytest.mark.parametrize("extractor", ["neon", "neon+-renormalised", "power"])
def test_a_run_that_finds_nothing_takes_all_of_its_budget(extractor: str) -> None:
    """All but what is kept for measuring a direction. Steps of one call each: one gradient more, one step more."""
    costs = []
    for most in (100, 101):
        F = Function(lambda x: 0.5 * (SIZES * x * x).sum())
        found = negative_curvature(F, torch.ones_like(SIZES), extractor=extractor, gamma=1e-3, max_gradients=most)
        assert found.status is Status.BUDGET_SPENT
        costs.append(found.cost.gradients + found.cost.hessian_products)
    assert costs == [80, 81]
