"""How unlucky a random start can be, against the exact distribution: (q·v)² ~ Beta(1/2, (d−1)/2)."""

from __future__ import annotations

import math

import pytest
import torch
from scipy.special import betainc, betaincinv

from unsaddle import vectors
from unsaddle.theory.start import log_unlucky, unlucky_component


@pytest.mark.parametrize("delta", [0.5, 0.05, 1e-4, 1e-8])
@pytest.mark.parametrize("dimension", [2, 3, 4, 10, 1000, 10**6])
def test_it_is_below_the_exact_quantile_by_a_share_of_at_most_delta_squared(dimension: int, delta: float) -> None:
    component = unlucky_component(dimension=dimension, delta=delta)
    reached = float(betainc(0.5, (dimension - 1) / 2.0, component))
    rounding = 1e-7  # Of Γ((d−1)/2)/Γ(d/2) by a difference of logarithms, at d = 1e6.
    assert delta * (1.0 - delta**2 - rounding) <= reached <= delta * (1.0 + rounding)
    assert component <= float(betaincinv(0.5, (dimension - 1) / 2.0, delta)) * (1.0 + 2.0 * rounding)


@pytest.mark.parametrize("dimension", [2, 3])
def test_in_two_and_three_dimensions_it_is_exact(dimension: int) -> None:
    exact = float(betaincinv(0.5, (dimension - 1) / 2.0, 0.05))
    assert unlucky_component(dimension=dimension, delta=0.05) == pytest.approx(exact, rel=1e-9)


def test_on_the_line_no_start_is_unlucky() -> None:
    """c² = 1 always, and is never below it."""
    assert unlucky_component(dimension=1, delta=0.05) == 1.0


@pytest.mark.slow
def test_random_directions_are_as_unlucky_as_it_says() -> None:
    """20 000 starts at δ = 0.05: 1000 are expected; beyond 1000 ± 120, 3.9 standard deviations, P < 1e-4."""
    generator = torch.Generator().manual_seed(0)
    like = torch.zeros(7, dtype=torch.float64)
    component = unlucky_component(dimension=7, delta=0.05)
    unlucky = sum(float(vectors.random_direction(like, generator)[3]) ** 2 <= component for _ in range(20_000))
    assert 880 <= unlucky <= 1120


@pytest.mark.parametrize("dimension", [1, 2, 50])
def test_the_logarithm_is_that_of_the_component_and_has_no_end(dimension: int) -> None:
    assert log_unlucky(dimension, 0.05) == math.log(unlucky_component(dimension=dimension, delta=0.05))
    assert log_unlucky(dimension, 1e-300) == (0.0 if dimension == 1 else -math.inf)
