"""The ladder: the radii at which a number is steady, and what it is off by there."""

import math

import pytest
import torch

from unsaddle.measure import ladder
from unsaddle.measure.ladder import plateau


def climbed(at, first, **how):
    """The plateau, and how many radii it took."""
    seen = []
    found = plateau(lambda t: seen.append(t) or at(t), first, **how)
    return found, len(seen)


def test_where_the_first_radii_agree_three_do():
    found, radii = climbed(lambda t: -2.0 + t, 1e-6)
    assert radii == 3
    assert found.radius == 1e-6
    assert abs(found.value + 2.0) <= found.error < 1e-5
    assert found.smooth


@pytest.mark.parametrize("first", [1e-4, 1e-2, 0.3, 3.0])
def test_too_far_it_moves_inwards(first):
    """c = −1 + 30t² + …: at 3 it is 269."""
    found, radii = climbed(lambda t: -1.0 + 30.0 * t**2 + 5.0 * t**4, first)
    assert radii <= 3 + 2 * ladder.MOVES
    assert found.radius <= first
    if first <= 0.3:
        assert abs(found.value + 1.0) <= found.error + 1e-12
        assert found.error <= 0.5


def test_where_the_ladder_was_moved_the_error_is_doubled():
    moved, _ = climbed(lambda t: -1.0 + 100.0 * t**2, 1.0)
    inner = 100.0 * (ladder.RATIO**2 - 1.0) * moved.radius**2  # Extrapolated, both pairs are exact.
    assert moved.radius < 1.0
    assert moved.error == pytest.approx(2.0 * (inner + ladder.RATIO**2 * inner / 2.0), rel=1e-6)


def test_too_near_it_moves_outwards():
    """Rounding of 1e-6/t beside −1, from t = 1e-6 on. It is often out of it in the three moves that it has."""
    clear = 0
    for seed in range(20):
        noise = torch.Generator().manual_seed(seed)
        found, _ = climbed(lambda t, noise=noise: -1.0 + 1e-6 * float(torch.randn((), generator=noise)) / t + t, 1e-6)
        if found.smooth and found.error < 0.5:
            clear += found.radius > 1e-6
            assert abs(found.value + 1.0) <= 3.0 * found.error
    assert clear >= 10


def test_noise_alone_is_seldom_clear():
    clear = 0
    for seed in range(500):
        noise = torch.Generator().manual_seed(seed)
        found, _ = climbed(lambda t, noise=noise: float(torch.randn((), generator=noise)) / t, 1e-3)
        clear += found.smooth and found.error < 0.5 * abs(found.value)
    assert clear <= 50


@pytest.mark.parametrize("power", [-1.0, -0.5])
def test_a_kink_is_not_smooth(power):
    found, _ = climbed(lambda t: -(t**power), 1e-3)
    assert not found.smooth


def test_no_radius_below_the_smallest():
    seen = []
    plateau(lambda t: seen.append(t) or -1.0 + 1e6 * t**2, 1.0, within=(0.3, 100.0))
    assert min(seen) >= 0.25


def test_the_known_rounding_is_in_the_error_and_falls_with_the_radius():
    found, _ = climbed(lambda t: -1.0, 1.0, rounding=0.05)
    assert found.error == pytest.approx(0.05)


def test_what_is_not_finite_ends_it():
    found, radii = climbed(lambda t: math.nan, 1.0)
    assert radii == 3
    assert math.isnan(found.error)


@pytest.mark.parametrize(("rounding", "smooth"), [(0.2, True), (0.05, False)])
def test_differences_within_the_rounding_are_smooth(rounding, smooth):
    """0.1 between the first two rungs, and nothing between the others."""
    found = ladder.plateau(lambda t: -0.1 if t < 1.5 else -0.2, 1.0, rounding=rounding, within=(1.0, 4.0))
    assert found.radius == 1.0
    assert found.smooth is smooth
