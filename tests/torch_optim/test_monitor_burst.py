"""λ_max of a burst, its error, and how many batches it takes, on numbers and matrices with known noise."""

import random
import statistics

import numpy as np
import pytest

from unsaddle.torch_optim.monitor_burst import FIRST_BATCHES, MOST, UNKNOWN, WANTED, Noise, across, highest, is_seen


def bursts(noise, size, count, seed=0):
    draw = random.Random(seed)
    return [[10.0 * (1.0 + noise * draw.gauss(0.0, 1.0)) for _ in range(size)] for _ in range(count)]


def test_noise_is_that_of_single_batches():
    noise = Noise()
    for burst in bursts(0.1, 10, 40):
        noise = noise.after(burst)
    assert noise.deviation == pytest.approx(0.1, rel=0.35)


def test_noise_of_earlier_steps_counts_only_where_there_is_little_of_the_present():
    early = Noise().after([10.0, 30.0, 2.0])
    (late,) = bursts(0.1, 2, 1)
    assert early.after(late).terms == 1 + 2
    (late,) = bursts(0.1, 10, 1)
    assert early.after(late) == Noise().after(late)


def test_the_error_holds_as_often_as_stated_and_the_size_is_what_it_takes():
    """One-sided, at 0.95: of 400 bursts, at least 367 hold (binomial, three standard errors)."""
    noise = Noise(0.15**2, 100)
    assert noise.size == 19
    found = [highest(burst, 0.0, None, noise) for burst in bursts(0.15, noise.size, 400)]
    assert sum(mean + error >= 10.0 for mean, error in found) >= 367
    assert sum(mean - error <= 10.0 for mean, error in found) >= 367
    assert statistics.stdev(mean for mean, _ in found) == pytest.approx(10.0 * WANTED, rel=0.2)


def test_what_the_vector_of_a_batch_lacks_is_added():
    """Symmetric noise on a matrix whose highest eigenvalue is 10: a batch sees more, its vector has less."""
    rng, d = np.random.default_rng(0), 40
    hessian = np.diag([10.0, *np.linspace(0.0, 6.0, d - 1)])

    def noisy():
        noise = rng.normal(size=(d, d))
        return hessian + 0.25 * (noise + noise.T)

    seen, above, below = [], [], []
    for _ in range(200):
        values, vectors = np.linalg.eigh(noisy())
        u = vectors[:, -1]
        products = [noisy() @ u for _ in range(8)]
        burst, total = [float(u @ h) for h in products], sum(products)
        beside = across(total @ total, [h @ h for h in products]) - across(sum(burst) ** 2, [q * q for q in burst])
        p = total - (u @ total) * u
        p /= np.linalg.norm(p)
        above.append(values[-1])
        below.append(statistics.fmean(burst))
        seen.append(highest(burst, beside, float(p @ noisy() @ p), Noise(1e-4, 8))[0])
    assert statistics.fmean(above) > 10.5
    assert statistics.fmean(below) < 9.5
    assert statistics.fmean(seen) == pytest.approx(10.0, abs=0.12)


def test_only_what_would_change_the_answer_is_worth_a_batch():
    assert is_seen(10.0, 0.3)
    assert not is_seen(10.0, 0.1)
    assert not is_seen(10.0, -0.3)


def test_sizes_stay_within_their_bounds():
    assert Noise().size == UNKNOWN
    assert Noise(0.0, 1).size == FIRST_BATCHES
    assert Noise(1.0, 3).size == MOST
    assert Noise(0.02**2, 20).size == UNKNOWN  # Two that agree may do so by chance.
    assert Noise(0.05**2 * 3.0, 1).size > Noise(0.05**2 * 3.0, 8).size  # Few terms are not to be trusted.
    assert Noise(0.01, 3).after([-1.0, 0.0, -1.0]) == Noise(0.01, 3)
