"""The interval of a mean: against SciPy's Poisson, and against noise whose mean is known."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from scipy import stats
from torch import Tensor

from unsaddle.measure.batches import BATCHES
from unsaddle.measure.mean_error import farthest_from, mean_error

DOUBLE = torch.float64


def width(values: Tensor, delta: float) -> float:
    mean = float(values.mean())
    return mean_error(
        deviation=float(values.std()), farthest=farthest_from(mean, values.tolist()), count=len(values), delta=delta
    )


@pytest.mark.parametrize("delta", [0.05, 0.0125, 1e-3, 1e-4])
@pytest.mark.parametrize("met", range(1, 30))
def test_rare_samples_that_were_met_are_no_fewer_than_poisson_says(met: int, delta: float) -> None:
    """`met` rare samples, one in each of as many batches of a large number: their count is Poisson's."""
    values = torch.zeros(10_000, dtype=DOUBLE)
    values[:met] = 1.0
    exact = stats.chi2.ppf(1.0 - delta, 2 * (met + 1)) / 2.0
    assert met + len(values) * width(values, delta) >= exact


@pytest.mark.parametrize("count", [2, 16, 32])
def test_of_equal_batches_it_is_zero_and_of_others_more_than_students(count: int) -> None:
    assert mean_error(deviation=0.0, farthest=0.0, count=count, delta=0.05) == 0.0
    t = float(stats.t.ppf(0.95, count - 1)) / math.sqrt(count)
    assert mean_error(deviation=1.0, farthest=0.0, count=count, delta=0.05) == pytest.approx(t, rel=1e-9)
    assert mean_error(deviation=1.0, farthest=2.0, count=count, delta=0.05) > t


@pytest.mark.parametrize("delta", [1e-300, 0.0, 0.9])
def test_any_delta_has_a_width(delta: float) -> None:
    assert 0.0 <= mean_error(deviation=1.0, farthest=2.0, count=32, delta=delta) < math.inf


def _exponential(g: torch.Generator, *shape: int) -> Tensor:
    return -torch.log1p(-torch.rand(*shape, generator=g, dtype=DOUBLE)) - 1.0


def _lognormal(sigma: float) -> Callable[..., Tensor]:
    def draw(g: torch.Generator, *shape: int) -> Tensor:
        normal = torch.randn(*shape, generator=g, dtype=DOUBLE)
        return torch.exp(sigma * normal) - math.exp(sigma**2 / 2.0)

    return draw


def _bernoulli(p: float) -> Callable[..., Tensor]:
    return lambda g, *shape: (torch.rand(*shape, generator=g, dtype=DOUBLE) < p).double() - p


NOISES: dict[str, Callable[..., Tensor]] = {
    "normal": lambda g, *shape: torch.randn(*shape, generator=g, dtype=DOUBLE),
    "exponential": _exponential,
    "lognormal": _lognormal(1.0),
    "lognormal, σ = 1.5": _lognormal(1.5),
    "1 %": _bernoulli(0.01),
    "5 %": _bernoulli(0.05),
}


@pytest.mark.study
@pytest.mark.parametrize("side", [1.0, -1.0], ids=["tail above", "tail below"])
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("samples", [1024, 4096])
def test_the_truth_is_above_as_seldom_as_stated(noise: str, samples: int, side: float) -> None:
    """δ = 0.025 of 1000: more than 42 come with probability below 1e-3. Student's t alone fails for the skewed ones."""
    assert stats.binom.sf(42, 1000, 0.025) < 1e-3
    g = torch.Generator().manual_seed(0)
    above = 0
    for _ in range(1000):
        values = side * NOISES[noise](g, BATCHES, samples // BATCHES).mean(1)
        above += float(values.mean()) + width(values, 0.025) < 0.0
    assert above <= 42
