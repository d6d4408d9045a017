import math
import statistics

import pytest
import torch

from unsaddle import FiniteSum, Stream
from unsaddle.cost import Ledger
from unsaddle.measure import batches

DIMENSION, ROWS = 6, 4000


def noisy_bowl() -> tuple[FiniteSum, float]:
    """F = mean of ½‖x − t_i‖²: ∇f_i(x) = x − t_i, so V is the variance of the targets."""
    targets = torch.randn(ROWS, DIMENSION, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 2.0
    variance = float((targets - targets.mean(dim=0)).square().sum(dim=1).mean())
    return FiniteSum(lambda x, t: 0.5 * (x - t).square().sum(dim=1).mean(), targets), variance


def test_v_is_that_of_the_components() -> None:
    objective, variance = noisy_bowl()
    x = torch.ones(DIMENSION, dtype=torch.float64)
    seen = [
        batches.gradient(objective, x, samples=640, generator=torch.Generator().manual_seed(seed)).variance
        for seed in range(40)
    ]
    # Each has 15·6 degrees of freedom: a relative deviation of √(2/90) = 0.15, of the mean of 40 of 0.024.
    assert statistics.fmean(seen) == pytest.approx(variance, rel=0.1)


@pytest.mark.slow
def test_the_gradient_lies_within_its_error_as_often_as_stated() -> None:
    objective, _ = noisy_bowl()
    x = torch.ones(DIMENSION, dtype=torch.float64)
    truth = objective.sample().grad(x)
    covered = 0
    for seed in range(200):
        seen = batches.gradient(objective, x, samples=160, generator=torch.Generator().manual_seed(seed))
        covered += bool((seen.mean - truth).norm() <= seen.error(0.1))
    assert covered >= 165  # P(fewer | rate 0.9) < 1e-3 for a binomial of 200.


def test_the_norm_has_its_bias_taken_out() -> None:
    objective, _ = noisy_bowl()
    minimiser = torch.zeros(DIMENSION, dtype=torch.float64)
    minimiser -= objective.sample().grad(minimiser)
    seen = batches.gradient(objective, minimiser, samples=160, generator=torch.Generator().manual_seed(1))
    assert seen.norm < seen.mean.norm()


@pytest.mark.slow
def test_the_deviation_of_a_curvature_is_that_of_the_components() -> None:
    curvatures = torch.randn(ROWS, dtype=torch.float64, generator=torch.Generator().manual_seed(2)) * 3.0 + 1.0
    objective = FiniteSum(lambda x, c: 0.5 * (c * x[0] ** 2).mean(), curvatures)
    x, v = torch.zeros(1, dtype=torch.float64), torch.ones(1, dtype=torch.float64)
    deviations, inside = [], 0
    for seed in range(200):
        generator = torch.Generator().manual_seed(seed)
        seen = batches.curvature(objective, x, v, radius=1e-3, samples=160, generator=generator)
        deviations.append(seen.deviation)
        inside += float(curvatures.mean()) <= seen.mean + seen.error(0.1)
    assert statistics.fmean(deviations) == pytest.approx(float(curvatures.std()), rel=0.1)
    assert inside >= 165


def test_batches_are_independent_equal_and_counted() -> None:
    objective, _ = noisy_bowl()
    ledger = Ledger()
    x = torch.ones(DIMENSION, dtype=torch.float64)
    seen = batches.gradient(objective, x, samples=320, generator=torch.Generator().manual_seed(0), ledger=ledger)
    assert (seen.samples, seen.batches) == (320, batches.BATCHES)
    assert (ledger.gradients, ledger.samples) == (batches.BATCHES, 320)


def test_few_samples_make_few_batches_of_one() -> None:
    objective, _ = noisy_bowl()
    functions = batches.batches(objective, 3, torch.Generator().manual_seed(0))
    assert [f.size for f in functions] == [1, 1, 1]


def test_a_curvature_that_is_not_finite_is_nan() -> None:
    stream = Stream(lambda x, t: (x[0] * t).mean() * math.inf, lambda size, g: (torch.rand(size, generator=g),))
    x = torch.zeros(1)
    generator = torch.Generator().manual_seed(0)
    seen = batches.curvature(stream, x, torch.ones(1), radius=0.1, samples=8, generator=generator)
    assert math.isnan(seen.mean)
    assert math.isnan(seen.error(0.05))
