"""λ_max of a burst, its error, and how many batches it takes, on numbers and matrices with known noise."""

import random
import statistics

import numpy as np
import pytest

from unsaddle.torch_optim.monitor_burst import FEWEST, MOST, UNKNOWN, WANTED, Noise, across, highest


def bursts(noise, size, count, seed=0):
    draw = random.Random(seed)
    return [[10.0 * (1.0 + noise * draw.gauss(0.0, 1.0)) for _ in range(size)] for _ in range(count)]


def test_noise_is_that_of_single_batches():
    noise = Noise()
    for burst in bursts(0.1, 10, 40):
        noise = noise.after(burst)
    assert noise.deviation == pytest.approx(0.1, rel=0.35)


def test_the_error_holds_as_often_as_stated_and_the_size_is_what_it_takes():
    """One-sided, at 0.95: of 400 bursts, at least 367 hold (binomial, three standard errors)."""
    noise = Noise(0.15**2, 100)
    assert noise.size == 9
    drawn = bursts(0.15, noise.size + 1, 400)
    found = [highest(searched, rest, 0.0, noise) for searched, *rest in drawn]
    assert sum(mean + error >= 10.0 for mean, error in found) >= 367
    assert sum(mean - error <= 10.0 for mean, error in found) >= 367
    assert statistics.stdev(mean for mean, _ in found) == pytest.approx(10.0 * WANTED, rel=0.2)


def test_what_a_batch_flatters_its_own_vector_by_is_taken_off():
    """Symmetric noise on a matrix whose highest eigenvalue is 10: a batch sees more, its vector has less."""
    rng, d = np.random.default_rng(0), 40
    hessian = np.diag([10.0, *np.linspace(-1.0, 1.0, d - 1)])

    def noisy():
        noise = rng.normal(size=(d, d))
        return hessian + 0.25 * (noise + noise.T)

    seen, above, below = [], [], []
    for _ in range(200):
        values, vectors = np.linalg.eigh(noisy())
        u = vectors[:, -1]
        products = [noisy() @ u for _ in range(4)]
        burst, total = [float(u @ h) for h in products], sum(products)
        beside = across(total @ total, [h @ h for h in products]) - across(sum(burst) ** 2, [q * q for q in burst])
        above.append(values[-1])
        below.append(statistics.fmean(burst))
        seen.append(highest(float(values[-1]), burst, beside, Noise(1e-4, 8))[0])
    assert statistics.fmean(above) > 10.3
    assert statistics.fmean(below) < 9.7
    assert statistics.fmean(seen) == pytest.approx(10.0, abs=0.12)


def test_sizes_stay_within_their_bounds():
    assert Noise().size == UNKNOWN
    assert Noise(0.0, 1).size == FEWEST
    assert Noise(1.0, 3).size == MOST
    assert Noise(0.02**2, 20).size == UNKNOWN  # Two that agree may do so by chance.
    assert Noise(0.05**2 * 3.0, 1).size > Noise(0.05**2 * 3.0, 8).size  # Few terms are not to be trusted.
    assert Noise(0.01, 3).after([-1.0, 0.0, -1.0]) == Noise(0.01, 3)
