import math

import numpy as np

from unsaddle.experiments.fits import exponent


def noisy_law(power, *, seed, deviation=0.2, runs=5, at=(10.0, 20.0, 40.0, 80.0)):
    random = np.random.default_rng(seed)
    return {x: (7.0 * x**power * np.exp(deviation * random.standard_normal(runs))).tolist() for x in at}


def test_a_power_law_without_noise_is_recovered_exactly():
    fit = exponent(noisy_law(3.5, seed=0, deviation=0.0))
    assert abs(fit.value - 3.5) < 1e-12
    assert (fit.points, fit.missing) == (4, 0)
    assert fit.high - fit.low < 1e-6


def test_the_interval_covers_the_true_exponent_as_often_as_it_says():
    covered = sum(fit.low <= 2.0 <= fit.high for fit in (exponent(noisy_law(2.0, seed=seed)) for seed in range(400)))
    assert 360 <= covered <= 398  # Binomial(400, 0.95): outside with probability 1e-5 below, 1e-6 above.


def test_a_bend_widens_the_interval():
    straight, bent = noisy_law(1.0, seed=1), noisy_law(1.0, seed=1)
    bent[80.0] = [10.0 * c for c in bent[80.0]]
    a, b = exponent(straight), exponent(bent)
    assert b.high - b.low > 2.0 * (a.high - a.low)


def test_an_x_at_which_a_run_failed_is_left_out_and_the_failure_is_counted():
    counts = noisy_law(2.0, seed=0, deviation=0.0)
    counts[80.0][0] = math.inf
    fit = exponent(counts)
    assert abs(fit.value - 2.0) < 1e-12
    assert (fit.points, fit.missing) == (3, 1)


def test_nothing_is_claimed_from_one_point():
    fit = exponent({10.0: [5.0, 6.0]})
    assert not fit.known
    assert str(fit) == "–"


def test_two_runs_give_a_slope_without_an_interval():
    fit = exponent({1.0: [2.0], 10.0: [200.0]})
    assert abs(fit.value - 2.0) < 1e-12
    assert math.isnan(fit.low)
    assert str(fit) == "2.00"
