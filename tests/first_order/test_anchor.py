"""A look: so many samples, their mean, and V."""

from __future__ import annotations

import math
import statistics

import pytest
import torch

from tests.first_order.sums import DOUBLE, Witness, bowls, random
from unsaddle.cost import Cost
from unsaddle.first_order.anchor import Anchor, anchor_at

ONES = torch.ones(3, dtype=DOUBLE)


@pytest.mark.parametrize(("size", "batches"), [(2, 2), (7, 7), (8, 8), (15, 8), (16, 8), (100, 8)])
def test_it_takes_just_as_many_samples_as_it_was_asked_for(size: int, batches: int) -> None:
    sums = Witness(bowls())
    seen = anchor_at(sums, ONES, size, random())
    assert sums.cost == Cost(gradients=batches, samples=size)
    assert seen.samples == size
    sizes = [f.size for f in seen.functions]
    assert sum(sizes) == size
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("size", [2, 15, 100])
def test_gradient_and_value_are_the_means_over_all_its_samples(size: int) -> None:
    seen = anchor_at(bowls(), ONES, size, random())
    both = [(f.size, *f.value_and_grad(ONES)) for f in seen.functions]
    torch.testing.assert_close(seen.gradient, sum(m * g for m, _, g in both) / size)
    assert seen.value == pytest.approx(sum(m * float(v) for m, v, _ in both) / size)
    assert seen.value_at(ONES) == pytest.approx(seen.value)
    elsewhere = 2.0 * ONES
    assert seen.value_at(elsewhere) == pytest.approx(
        sum(f.size * float(f.value(elsewhere)) for f in seen.functions) / size
    )


def test_a_value_elsewhere_costs_the_samples_once() -> None:
    sums = Witness(bowls())
    seen = anchor_at(sums, ONES, 15, random())
    before = sums.cost
    seen.value_at(ONES)
    assert sums.cost - before == Cost(values=8, value_samples=15)


@pytest.mark.slow
@pytest.mark.parametrize("size", [13, 64])
def test_v_is_that_of_the_components_also_where_batches_differ(size: int) -> None:
    sums = bowls()
    gradients = torch.stack([sums.sample(1, random(seed)).grad(ONES) for seed in range(2000)])
    truth = float((gradients - sums.sample().grad(ONES)).square().sum(dim=1).mean())
    seen = [anchor_at(sums, ONES, size, random(seed)).variance for seed in range(200)]
    # 7·3 degrees of freedom each: a relative deviation of √(2/21) = 0.31, of the mean of 200 of 0.022.
    # Batches without replacement have less variance by (n − m)/(n − 1), at most 4 % here.
    assert statistics.fmean(seen) == pytest.approx(truth, rel=0.12)


@pytest.mark.parametrize("size", [None, 200, 1000])
def test_everything_is_one_gradient_without_error(size: int | None) -> None:
    sums = Witness(bowls())
    seen = anchor_at(sums, ONES, size, random())
    assert sums.cost == Cost(gradients=1, samples=200)
    assert seen.everything
    assert seen.squared_error == 0.0
    torch.testing.assert_close(seen.gradient, bowls().sample().grad(ONES))


def test_one_sample_is_taken_as_two_since_one_has_no_variance() -> None:
    seen = anchor_at(bowls(), ONES, 1, random())
    assert seen.samples == 2
    assert seen.variance > 0.0


def test_the_noise_counts_against_what_passes_and_for_what_may() -> None:
    def seen(norm: float, variance: float, everything: bool = False) -> Anchor:
        return Anchor(
            x=torch.zeros(1),
            functions=(),
            gradient=torch.tensor([norm], dtype=DOUBLE),
            value=0.0,
            variance=variance,
            samples=4,
            everything=everything,
        )

    assert seen(3.0, 4.0 * 16.0).passes(5.0)  # 9 + 16 = 25
    assert not seen(3.0, 4.0 * 16.1).passes(5.0)
    assert seen(5.0, math.nan, everything=True).passes(5.0)
    assert seen(9.0, 4.0 * 25.0).may_pass(5.0)  # 81 − 25 ≤ 56.25
    assert not seen(9.1, 4.0 * 25.0).may_pass(5.0)
    assert not seen(math.nan, 1.0).passes(5.0)
    assert not seen(math.inf, 1.0).is_finite
