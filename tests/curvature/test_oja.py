"""Oja's method: fresh samples at every step, with exact products or with gradients only."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tests.curvature.quadratics import rng
from unsaddle import FiniteSum, Function, Stream
from unsaddle.cost import Cost, Ledger
from unsaddle.curvature import Status, negative_curvature
from unsaddle.curvature.oja import OjaSettings, oja, practical_settings, theory_settings

DOUBLE = torch.float64
SPECTRUM = torch.cat([torch.tensor([-1.0]), torch.linspace(0.0, 1.0, 9)]).double()
X = torch.linspace(-1.0, 1.0, 10, dtype=DOUBLE)


def _noisy(n: int, noise: float, spectrum: Tensor = SPECTRUM) -> FiniteSum:
    """Components ½Σ_j (s_j + z_ij)x_j², with Σ_i z_ij = 0."""
    z = noise * torch.randn(n, spectrum.numel(), generator=rng(5), dtype=DOUBLE)
    curvatures = spectrum + z - z.mean(0)

    def value_and_grad(x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        s = rows.mean(0)
        return 0.5 * (s * x * x).sum(), s * x

    return FiniteSum(value_and_grad, curvatures, gradient=True, hvp=lambda x, v, rows: value_and_grad(v, rows)[1])


@pytest.mark.parametrize("objective", [_noisy(200, 0.5), _noisy(8, 0.5)], ids=["batches", "everything"])
def test_both_forms_walk_the_same_way_on_quadratics(objective: FiniteSum) -> None:
    """A difference of gradients is a product there, and both draw the same samples from the same seed."""
    walks: list[list[Tensor]] = [[], []]
    for walk, radius in zip(walks, (None, 1e-2), strict=True):
        settings = OjaSettings(step_size=0.1, num_steps=40, steps_a_round=20, batch=8, target=math.inf, radius=radius)
        oja(
            objective,
            X,
            lambda v: SPECTRUM * v,
            settings,
            rng(0),
            observer=lambda _, w, walk=walk: walk.append(w.clone()),
        )
    exact, first_order = (torch.stack(walk) for walk in walks)
    assert exact.shape == (40, 10)
    torch.testing.assert_close(first_order, exact, rtol=0.0, atol=1e-11)


@pytest.mark.parametrize("radius", [None, 1e-2], ids=["exact", "first-order"])
def test_a_step_costs_one_product_or_two_gradients_of_a_batch(radius: float | None) -> None:
    settings = OjaSettings(step_size=0.1, num_steps=45, steps_a_round=20, batch=8, target=math.inf, radius=radius)
    ledger, judged = Ledger(), []

    def judge(v: Tensor) -> Tensor:
        judged.append(v)
        return SPECTRUM * v

    found = oja(_noisy(200, 0.5), X, judge, settings, rng(0), ledger=ledger, keep_history=True)
    assert len(judged) == 2  # After each whole round.
    assert len(found.history) == 45
    assert (found.status, found.exhausted) == (Status.NOTHING_FOUND, True)
    if radius is None:
        assert ledger.cost == Cost(hessian_products=45, hessian_samples=45 * 8)
    else:
        assert ledger.cost == Cost(gradients=90, samples=90 * 8)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["oja", "oja-first-order"])
def test_curvature_is_found_through_the_noise_of_single_components(method: str) -> None:
    """Each component is indefinite in every direction; only their mean has one negative eigenvalue.

    δ = 0.05: of 40 runs at a rate of 0.95, fewer than 30 succeed with probability below 1e-4.
    """
    objective = _noisy(400, 2.0)
    good = 0
    for seed in range(40):
        result = negative_curvature(
            objective, X, gamma=0.8, extractor=method, smoothness=2.0, hessian_lipschitz=0.0, seed=seed
        )
        if result.direction is not None:
            truth = float(SPECTRUM @ result.direction**2)
            assert truth < 0.0
            good += truth <= -0.4
    assert good >= 30


@pytest.mark.parametrize("method", ["oja", "oja-first-order"])
def test_where_the_mean_is_positive_nothing_is_found_though_the_components_are_not(method: str) -> None:
    objective = _noisy(400, 2.0, spectrum=torch.linspace(0.0, 1.0, 10, dtype=DOUBLE))
    for seed in range(5):
        result = negative_curvature(
            objective, X, gamma=0.8, extractor=method, smoothness=2.0, hessian_lipschitz=0.0, seed=seed
        )
        assert result.status is Status.NOTHING_FOUND


def test_a_stream_is_searched_with_batches_of_32() -> None:
    """d = 10, δ = 0.05, γ = 0.8, L1 = 2: η = min(1/4, 32·0.8/16) = 1/4, T = ⌈ln(4000)/0.2⌉ = ⌈41.47⌉ = 42."""

    def value_and_grad(x: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        s = SPECTRUM + z.mean(0)
        return 0.5 * (s * x * x).sum(), s * x

    stream = Stream(
        value_and_grad,
        lambda m, g: (0.3 * torch.randn(m, 10, generator=g, dtype=DOUBLE),),
        gradient=True,
        hvp=lambda x, v, z: value_and_grad(v, z)[1],
    )
    result = negative_curvature(
        stream, X, gamma=0.8, extractor="oja", samples=80, smoothness=2.0, hessian_lipschitz=0.0
    )
    assert result.status is Status.FOUND
    # One gradient at x, 42 products of 32, one judgement on the 80, six gradients of the 80, and two on each of 32
    # batches of 10.
    assert result.cost == Cost(
        gradients=1 + 6 + 2 * 32,
        samples=80 * (1 + 6) + 2 * 32 * 10,
        hessian_products=42 + 1,
        hessian_samples=42 * 32 + 80,
    )


def test_practical_settings_take_everything_where_that_is_a_batch() -> None:
    question = {"gamma": 0.1, "delta": 0.05, "dimension": 10, "smoothness": 1.0, "radius": None}
    whole = practical_settings(num_samples=20, **question)
    assert (whole.batch, whole.step_size, whole.num_steps) == (20, 0.5, whole.steps_a_round)
    # ln(4000)/(0.5·0.1) = 165.9
    assert whole.num_steps == 166
    # η = min(1/2, 32·0.1/4) = 1/2; five rounds, since 2^{-5} ≤ 0.05
    part = practical_settings(num_samples=1000, **question)
    assert (part.batch, part.step_size, part.steps_a_round, part.num_steps) == (32, 0.5, 166, 5 * 166)
    # η = 32·0.01/4 = 0.08; ln(4000)/(0.08·0.01) = 10367.6
    small = practical_settings(num_samples=None, **(question | {"gamma": 0.01}))
    assert (small.batch, small.step_size, small.steps_a_round) == (32, 0.08, 10368)


def test_theory_settings_are_natasha_2s_with_constant_one() -> None:
    settings = theory_settings(gamma=0.5, delta=0.1, dimension=100, smoothness=2.0, radius=None, num_samples=None)
    # T = 16·ln²(1000) = 16·47.717 = 763.5; η = 1/(2√764); ⌈log₂ 10⌉ = 4 rounds
    assert (settings.steps_a_round, settings.num_steps, settings.batch) == (764, 4 * 764, 1)
    assert settings.step_size == pytest.approx(1.0 / (2.0 * math.sqrt(764.0)))


@pytest.mark.parametrize(("largest", "told"), [(3.0, True), (2.2, True), (1.8, False)])
def test_steps_that_overshoot_are_told(largest: float, told: bool) -> None:
    """|1 − ηλ| > 1, so that the largest curvature grows; −0.1 grows more slowly."""
    settings = OjaSettings(step_size=1.0, num_steps=200, steps_a_round=200, batch=1, target=0.5)
    s = torch.cat([0.1 * SPECTRUM[:-1], torch.tensor([largest])])
    f = Function(lambda x: (0.0, s * x), gradient=True, hvp=lambda x, v: s * v)
    found = oja(f, X, lambda v: s * v, settings, rng(0))
    assert found.status is (Status.SMOOTHNESS_EXCEEDED if told else Status.NOTHING_FOUND)


def test_when_a_step_takes_everything_away_a_new_start_is_drawn() -> None:
    f = Function(lambda x: (0.0, 2.0 * x), gradient=True, hvp=lambda x, v: 2.0 * v)
    settings = OjaSettings(step_size=0.5, num_steps=6, steps_a_round=3, batch=1, target=0.5)
    found = oja(f, X, lambda v: 2.0 * v, settings, rng(0))
    assert (found.status, found.lowest) == (Status.NOTHING_FOUND, pytest.approx(2.0))


def test_a_product_that_is_not_finite_is_a_status() -> None:
    f = Function(lambda x: (0.0, x), gradient=True, hvp=lambda x, v: v * math.nan)
    settings = OjaSettings(step_size=0.5, num_steps=6, steps_a_round=3, batch=1, target=0.5)
    assert oja(f, X, lambda v: v, settings, rng(0)).status is Status.NOT_FINITE
