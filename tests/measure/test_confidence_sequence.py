"""The interval of a curvature holds whenever it is looked at, for noise that is symmetric and changes with the past."""

import math

import numpy as np
import pytest

from unsaddle.measure.confidence_sequence import SETTLING, UNKNOWN, interval

DELTA, TRIALS, LENGTH = 0.05, 200, 40
MOST_WRONG = 18
"""Of 200, if 5 % are wrong: more with probability 0.8 % (binomial)."""


def batch_means(rng, draw, rows):
    return draw(rng, (LENGTH, rows)).mean(axis=1)


NOISES = {
    "normal": lambda rng: rng.normal(size=LENGTH),
    "Student's t, 2 degrees": lambda rng: rng.standard_t(2, size=LENGTH),
    "growing": lambda rng: rng.normal(size=LENGTH) * np.exp(np.linspace(-2.0, 2.0, LENGTH)),
    "shrinking": lambda rng: rng.normal(size=LENGTH) * np.exp(np.linspace(2.0, -2.0, LENGTH)),
    "signs": lambda rng: rng.choice([-1.0, 1.0], size=LENGTH),
    "skewed, mean of 8": lambda rng: 1.0 - batch_means(rng, lambda r, s: r.exponential(size=s), 8),
    "skewed the other way, mean of 8": lambda rng: batch_means(rng, lambda r, s: r.exponential(size=s), 8) - 1.0,
}
MADE = ("normal", "skewed, mean of 8")
"""Those of `make test`; the others are a study."""


@pytest.mark.parametrize(
    "noise",
    [pytest.param(n, marks=() if k in MADE else pytest.mark.study) for k, n in NOISES.items()],
    ids=NOISES.keys(),
)
def test_an_end_is_wrong_at_any_of_forty_looks_in_no_more_than_delta_of_all_runs(noise):
    rng, above, below = np.random.default_rng(0), 0, 0
    for _ in range(TRIALS):
        seen = (0.3 + noise(rng)).tolist()
        looks = [interval(seen[:n], DELTA) for n in range(SETTLING + 1, LENGTH + 1)]
        above += any(look.upper < 0.3 for look in looks)
        below += any(look.lower > 0.3 for look in looks)
    assert above <= MOST_WRONG
    assert below <= MOST_WRONG


def test_curvatures_that_change_with_the_past_are_not_called_negative_while_none_is():
    """c_t ≥ 0 follows the last number, as the curvature along a direction that batches turn."""
    rng, wrong = np.random.default_rng(1), 0
    for _ in range(TRIALS):
        seen = [0.0]
        while len(seen) < LENGTH:
            seen.append(max(0.0, 0.5 * seen[-1]) + rng.normal() * (1.0 + abs(seen[-1])))
        wrong += any(interval(seen[:n], DELTA).upper < 0.0 for n in range(SETTLING + 1, LENGTH + 1))
    assert wrong <= MOST_WRONG


def test_it_is_a_few_times_the_standard_error_and_shrinks_with_the_numbers():
    rng = np.random.default_rng(2)
    seen = rng.normal(size=200).tolist()
    for n in (25, 50, 100, 200):
        assert 2.0 < interval(seen[:n], DELTA).error * math.sqrt(n) < 6.0


def test_early_numbers_fade():
    """A direction that was bad for 10 batches and good for 30 has a mean near the good value."""
    rng = np.random.default_rng(3)
    seen = [*(0.5 + 0.1 * rng.normal(size=10)), *(-0.5 + 0.1 * rng.normal(size=30))]
    assert interval(seen, DELTA).mean < -0.42 < np.mean(seen)
    assert interval(seen, DELTA).upper < 0.0


@pytest.mark.parametrize("scale", [1e-150, 1e-6, 1.0, 1e6, 1e120])
def test_the_unit_of_curvature_changes_nothing(scale):
    seen = np.random.default_rng(4).normal(size=30) - 2.0
    plain, scaled = interval(seen.tolist(), DELTA), interval((scale * seen).tolist(), DELTA)
    assert [end / scale for end in scaled] == pytest.approx(list(plain), rel=1e-6)


def test_its_mirror_image_is_that_of_the_negative_numbers():
    seen = np.random.default_rng(5).normal(size=30).tolist()
    there, back = interval(seen, DELTA), interval([-q for q in seen], DELTA)
    assert (-back.upper, -back.lower) == pytest.approx((there.lower, there.upper))


def test_too_few_numbers_and_such_as_are_not_finite_tell_nothing():
    assert interval([1.0] * SETTLING, DELTA) == pytest.approx(UNKNOWN, nan_ok=True)
    assert interval([1.0] * 20 + [math.nan], DELTA) == pytest.approx(UNKNOWN, nan_ok=True)
    assert interval([0.0] * 30, DELTA).error < 1e-10
