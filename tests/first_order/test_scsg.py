"""SCSG: the law of its length, its counts, and SVRG as what it is with an anchor of everything."""

from __future__ import annotations

import statistics

import pytest
import torch

from tests.first_order.sums import DOUBLE, Witness, bowls, random
from unsaddle.cost import Cost
from unsaddle.first_order.anchor import anchor_at
from unsaddle.first_order.method import Local
from unsaddle.first_order.scsg import Scsg, epoch_length, scsg_epoch

X0 = torch.tensor([1.0, -2.0, 0.5], dtype=DOUBLE)


def known(smoothness: float = 2.0, n: int | None = 200) -> Local:
    return Local(eps=0.1, num_samples=n, smoothness=smoothness, variance=0.0, gradient_norm=1.0)


@pytest.mark.parametrize(("anchor", "batch"), [(100, 10), (64, 1), (9, 3)])
def test_the_length_is_geometric_from_zero_with_mean_b_over_b(anchor: int, batch: int) -> None:
    """E13: P(N = 0) = b/(B + b), mean B/b. Cutting at ten times the mean takes less than 1e-3 of the mean off it."""
    generator, runs = random(), 4000
    lengths = [epoch_length(anchor, batch, generator) for _ in range(runs)]
    mean = anchor / batch
    deviation = (mean * (mean + 1.0)) ** 0.5
    assert abs(statistics.fmean(lengths) - mean) < 4.0 * deviation / runs**0.5
    stop = batch / (anchor + batch)
    zeros, ones = lengths.count(0) / runs, lengths.count(1) / runs
    assert abs(zeros - stop) < 4.0 * (stop / runs) ** 0.5
    assert abs(ones - stop * (1.0 - stop)) < 4.0 * (stop / runs) ** 0.5
    assert min(lengths) == 0


def test_no_epoch_is_longer_than_ten_times_the_mean() -> None:
    generator = random()
    assert max(epoch_length(3, 3, generator) for _ in range(20_000)) == 10  # P(N > 10) = 2^-11 without the cut.


@pytest.mark.parametrize(("anchor", "batch"), [(40, 3), (64, 1), (50, 10)])
def test_an_epoch_costs_the_anchor_and_two_batches_a_step(anchor: int, batch: int) -> None:
    for seed in range(5):
        sums = Witness(bowls())
        seen = anchor_at(sums, X0, anchor, random())
        scsg_epoch(sums, seen, batch_size=batch, step_size=0.1, generator=random(seed))
        steps = epoch_length(anchor, batch, random(seed))
        assert sums.cost == Cost(gradients=8 + 2 * steps, samples=anchor + 2 * batch * steps)


def test_with_an_anchor_of_everything_it_is_svrg_of_a_random_length() -> None:
    """Against SVRG written out, on the gradients that were given."""
    for seed in range(5):
        sums = Witness(bowls(n=60))
        seen = anchor_at(sums, X0, None, random())
        last = scsg_epoch(sums, seen, batch_size=1, step_size=0.1, generator=random(seed)).last
        full, inner = sums.answers[0], sums.answers[1:]
        assert len(inner) == 2 * epoch_length(60, 1, random(seed))
        x = X0
        for at_anchor, at_x in zip(inner[::2], inner[1::2], strict=True):
            assert (at_anchor.size, at_x.size) == (1, 1)
            x = x - 0.1 * (at_x.gradient - at_anchor.gradient + full.gradient)
        torch.testing.assert_close(last, x)


def test_with_measured_constants_it_costs_that_and_the_values_of_the_anchor() -> None:
    sums = Witness(bowls())
    y, z = Scsg(anchor_size=64).advance(sums, X0, None, known(), random(3))
    assert y is z
    batch = 4  # 0.2·64^{2/3} = 3.2
    assert {answer.size for answer in sums.answers[8:]} == {batch}
    steps = len(sums.answers[8:]) // 2
    assert sums.cost == Cost(gradients=8 + 2 * steps, samples=64 + 2 * batch * steps, values=8, value_samples=64)


def test_its_step_is_half_of_one_over_l1() -> None:
    sums = Witness(bowls())
    seed = next(s for s in range(20) if epoch_length(64, 4, random(s)) >= 2)
    seen = anchor_at(sums, X0, 64, random())
    Scsg().advance(sums, X0, seen, known(4.0), random(seed))
    torch.testing.assert_close(sums.answers[11].x, X0 - 0.125 * seen.gradient)


def test_an_epoch_that_rises_is_undone_and_l1_doubled_unless_the_step_was_given() -> None:
    sums = bowls()
    seed = next(s for s in range(20) if epoch_length(200, 7, random(s)) >= 5)
    local = known(0.05)  # Steps of 10, on curvatures about 1.
    seen = anchor_at(sums, X0, None, random())
    y, z = Scsg().advance(sums, X0, seen, local, random(seed))
    assert y is z is X0
    assert local.smoothness == 0.1
    y, _ = Scsg(step_size=10.0).advance(sums, X0, seen, local, random(seed))
    assert float(y.norm()) > 100.0
    assert local.smoothness == 0.1


def test_its_anchor_is_four_times_v_over_the_squared_gradient() -> None:
    noisy = Local(eps=0.1, num_samples=None, variance=3.0, gradient_norm=0.4)
    assert Scsg().test_size(noisy) == 300  # 4·3/(0.4²/4)
    assert Scsg(anchor_size=77).test_size(noisy) == 77
