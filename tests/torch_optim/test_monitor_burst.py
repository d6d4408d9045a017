"""The mean of a burst, its error, and how long a burst has to be, on numbers with known noise."""

import random
import statistics

import pytest

from unsaddle.torch_optim.monitor_burst import FEWEST, MOST, TURNS, UNKNOWN, WANTED, Noise, highest


def bursts(noise, size, count, seed=0):
    draw = random.Random(seed)
    return [[10.0 * (1.0 + noise * draw.gauss(0.0, 1.0)) for _ in range(size)] for _ in range(count)]


def test_noise_is_that_of_single_batches_whatever_the_trend():
    for trend in (0.0, 1.0):
        noise = Noise()
        for burst in bursts(0.1, 10, 40):
            noise = noise.after([q + trend * i for i, q in enumerate(burst)])
        level = 10.0 + 4.5 * trend
        assert noise.deviation == pytest.approx(0.1 * 10.0 / level, rel=0.35)


def test_the_error_holds_as_often_as_stated_and_the_size_is_what_it_takes():
    """One-sided, at 0.95: of 400 bursts, at least 370 hold (binomial, three standard errors: 367)."""
    noise = Noise(0.15**2, 32)
    assert noise.size == TURNS + 9
    means = [highest(burst, noise) for burst in bursts(0.15, noise.size, 400)]
    assert sum(mean + error >= 10.0 for mean, error in means) >= 367
    assert sum(mean - error <= 10.0 for mean, error in means) >= 367
    assert statistics.stdev(mean for mean, _ in means) == pytest.approx(10.0 * WANTED, rel=0.2)


def test_measurements_of_a_direction_that_still_turned_are_left_out():
    burst = [4.0, 7.0, 9.0, 9.8, 10.0]
    noise = Noise().after(burst)
    mean, error = highest(burst, noise)
    assert mean == pytest.approx(9.9, rel=0.02)
    assert error > 0.1  # It still rises.
    assert noise.deviation < 0.05


def test_sizes_stay_within_their_bounds():
    assert Noise().size == TURNS + UNKNOWN
    assert Noise(0.0, 1).size == TURNS + FEWEST
    assert Noise(1.0, 3).size == TURNS + MOST
    assert Noise(0.01, 3).after([1.0, 1.0, 0.0, -1.0, 0.0]) == Noise(0.01, 3)
