import math
import statistics

import pytest
import torch

from unsaddle import FiniteSum, Stream
from unsaddle.cost import Cost, Ledger
from unsaddle.measure import batches
from unsaddle.measure.direction import Measurement
from unsaddle.measure.mean_error import mean_error

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
    # Each has 31·6 degrees of freedom: a relative deviation of √(2/186) = 0.1, of the mean of 40 of 0.016.
    assert statistics.fmean(seen) == pytest.approx(variance, rel=0.1)


@pytest.mark.study
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


@pytest.mark.study
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


def test_the_standard_error_of_a_curvature_is_that_of_its_samples_and_the_interval_that_of_its_batches() -> None:
    seen = batches.SampledCurvature(mean=1.0, deviation=3.0, farthest=0.1, samples=36, batches=4)
    assert seen.standard_error == pytest.approx(0.5)  # 3/√36
    assert seen.error(0.1) == mean_error(deviation=1.0, farthest=0.1, count=4, delta=0.1)  # 3/√9, of one batch.


def test_batches_are_independent_equal_and_counted() -> None:
    objective, _ = noisy_bowl()
    ledger = Ledger()
    x = torch.ones(DIMENSION, dtype=torch.float64)
    seen = batches.gradient(objective, x, samples=320, generator=torch.Generator().manual_seed(0), ledger=ledger)
    assert (seen.samples, seen.batches) == (320, batches.BATCHES)
    assert (ledger.gradients, ledger.samples) == (batches.BATCHES, 320)


def test_few_samples_make_few_batches_of_one() -> None:
    objective, _ = noisy_bowl()
    functions = batches.drawn(objective, 3, torch.Generator().manual_seed(0))
    assert [f.size for f in functions] == [1, 1, 1]


def test_a_curvature_that_is_not_finite_is_nan() -> None:
    stream = Stream(lambda x, t: (x[0] * t).mean() * math.inf, lambda size, g: (torch.rand(size, generator=g),))
    x = torch.zeros(1)
    generator = torch.Generator().manual_seed(0)
    seen = batches.curvature(stream, x, torch.ones(1), radius=0.1, samples=8, generator=generator)
    assert math.isnan(seen.mean)
    assert math.isnan(seen.error(0.05))


# --- The checks of a verdict -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "samples", "checked"), [(None, 7, 28), (100, 12, 48), (100, 13, None), (100, 99, None)])
def test_checks_take_four_times_the_samples_or_everything(n: int | None, samples: int, checked: int | None) -> None:
    rows = torch.ones(n or 1)
    stream = Stream(lambda x, a: (x[0] * a).mean(), lambda m, g: (torch.rand(m, generator=g),))
    objective = stream if n is None else FiniteSum(lambda x, a: (x[0] * a).mean(), rows)
    assert batches.checking_samples(objective, samples) == checked


def test_the_norm_of_a_gradient_costs_one_of_four_times_the_samples() -> None:
    objective, variance = noisy_bowl()
    x, ledger = torch.ones(DIMENSION, dtype=torch.float64), Ledger()
    seen = batches.gradient_norm(objective, x, 160, 0.05, torch.Generator().manual_seed(0), ledger)
    assert ledger.cost == Cost(gradients=32, samples=640)
    assert abs(seen.norm - float(objective.sample().grad(x).norm())) <= seen.error
    assert seen.variance == pytest.approx(variance, rel=0.5)


def test_the_norm_of_a_gradient_on_everything_is_exact_and_has_its_variance() -> None:
    objective, variance = noisy_bowl()
    x, ledger = torch.ones(DIMENSION, dtype=torch.float64), Ledger()
    seen = batches.gradient_norm(objective, x, ROWS // 8, 0.05, torch.Generator().manual_seed(0), ledger)
    assert ledger.cost == Cost(gradients=33, samples=32 * (ROWS // 8 // 32) + ROWS)
    assert (seen.norm, seen.error) == (pytest.approx(float(objective.sample().grad(x).norm()), rel=1e-12), 0.0)
    assert seen.variance == pytest.approx(variance, rel=0.5)


@pytest.mark.study
@pytest.mark.parametrize("share", [0.003, 0.01, 0.05])
@pytest.mark.parametrize("d", [1, 5])
def test_a_rare_class_is_not_taken_for_a_gradient(share: float, d: int) -> None:
    """δ = 0.05 of 400, and 0.05 more for shares that 1024 samples may miss: P(more than 60 | 0.1) < 1e-3."""

    def draw(size: int, g: torch.Generator) -> tuple[torch.Tensor]:
        rare = (torch.rand(size, 1, generator=g, dtype=torch.float64) < share).double()
        return ((1.0 - rare / share) * torch.ones(d, dtype=torch.float64),)

    stream = Stream(lambda x, b: b.mean(0) @ x, draw)
    x = torch.zeros(d, dtype=torch.float64)
    wrong = 0
    for seed in range(400):
        seen = batches.gradient_norm(stream, x, 256, 0.05, torch.Generator().manual_seed(seed), Ledger())
        wrong += seen.norm - seen.error > 0.0
    assert wrong <= 60


# --- A direction on fresh samples ------------------------------------------------------------------------------------

X, V = torch.tensor([1.0, 2.0], dtype=torch.float64), torch.tensor([0.6, 0.8], dtype=torch.float64)


def _fresh(objective: FiniteSum, size: int, seed: int = 0, ledger: Ledger | None = None) -> Measurement:
    """After a measurement on `size` samples."""
    same = Measurement(curvature=-1.0, error=1e-3, radius=0.1, samples=size, fresh=False)
    random = torch.Generator().manual_seed(seed)
    return batches.on_fresh_samples(objective, X, V, same, 0.05, random, Ledger() if ledger is None else ledger)


def weighted(weights: torch.Tensor) -> FiniteSum:
    """Components ½w_i‖x‖²."""
    return FiniteSum(lambda x, w: (0.5 * w.mean() * x @ x, w.mean() * x), weights, gradient=True)


@pytest.mark.parametrize(("size", "count", "batch"), [(1, 4, 1), (7, 28, 1), (8, 32, 1), (15, 32, 1), (100, 32, 12)])
def test_up_to_32_batches_take_two_gradients_each(size: int, count: int, batch: int) -> None:
    ledger = Ledger()
    measurement = _fresh(weighted(torch.ones(1000, dtype=torch.float64)), size, ledger=ledger)
    assert ledger.cost == Cost(gradients=2 * count, samples=2 * count * batch)
    assert (measurement.samples, measurement.fresh) == (count * batch, True)
    assert measurement.curvature == pytest.approx(1.0)
    assert measurement.error == pytest.approx(0.0, abs=1e-10)


def test_on_everything_two_gradients_are_exact() -> None:
    weights, ledger = torch.linspace(-1.0, 2.0, 100, dtype=torch.float64), Ledger()
    measurement = _fresh(weighted(weights), 13, ledger=ledger)
    assert ledger.cost == Cost(gradients=2, samples=200)
    assert measurement.curvature == pytest.approx(0.5)
    assert (measurement.error, measurement.deviation, measurement.samples) == (1e-3, 0.0, 100)


@pytest.mark.study
@pytest.mark.parametrize("size", [1, 2, 8, 80])
def test_the_interval_is_too_low_as_seldom_as_delta_says(size: int) -> None:
    """δ = 0.05, one-sided, for batches of normal components: P(more than 23 of 200) < 1e-4."""
    assert 1.0 - sum(math.comb(200, i) * 0.05**i * 0.95 ** (200 - i) for i in range(24)) < 1e-4
    weights = torch.randn(5000, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    objective, truth = weighted(weights), float(weights.mean())
    measurements = [_fresh(objective, size, seed) for seed in range(200)]
    assert sum(m.curvature + m.error < truth for m in measurements) <= 23


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_one_batch_that_is_not_finite_spoils_the_measurement_without_an_exception(bad: float) -> None:
    weights = torch.ones(100, dtype=torch.float64)
    weights[:10] = bad
    assert not _fresh(weighted(weights), 10).is_finite
