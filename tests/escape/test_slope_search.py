"""The length of a step along a direction of negative curvature."""

import math

import pytest

from unsaddle.escape import slope_search


def along(function, slope):
    calls = []

    def line(s):
        calls.append(s)
        return function(s), slope(s)

    return line, calls


@pytest.mark.parametrize("first", [1e-6, 1e-3, 1.0, 50.0, -1e-3, -50.0])
def test_the_minimum_is_found_from_lengths_far_too_short_and_far_too_long(first):
    line, calls = along(lambda s: s**4 / 4 - s**2, lambda s: s**3 - 2 * s)
    best = slope_search.search(line, value=0.0, first=first, max_evaluations=16)
    assert best.loss < -0.9
    assert math.copysign(1.0, best.length) == math.copysign(1.0, first)
    assert len(calls) <= 16


def test_where_nothing_is_lower_the_length_is_zero():
    line, calls = along(lambda s: s**2, lambda s: 2 * s)
    best = slope_search.search(line, value=0.0, first=1.0, max_evaluations=6)
    assert (best.length, best.loss, len(calls)) == (0.0, 0.0, 6)


def test_losses_that_round_to_the_same_number_do_not_end_the_growth():
    rounding = 2e-5
    line, _ = along(
        lambda s: 1.0 - 0.001 * s * s + 1e-4 * s**4 + (rounding if s < 0.1 else 0.0), lambda s: -0.002 * s + 4e-4 * s**3
    )
    assert slope_search.search(line, value=1.0, first=1e-3, max_evaluations=8).length == 0.0
    found = slope_search.search(line, value=1.0, first=1e-3, max_evaluations=8, resolution=5e-5)
    assert 1.0 < found.length < 4.0


@pytest.mark.parametrize("beyond", [math.inf, math.nan])
def test_a_loss_that_is_not_finite_bounds_the_length(beyond):
    line, _ = along(lambda s: -s if s < 2.0 else beyond, lambda s: -1.0 if s < 2.0 else beyond)
    best = slope_search.search(line, value=0.0, first=0.01, max_evaluations=12)
    assert 0.5 < best.length < 2.0


def test_no_more_than_the_evaluations_allowed_are_made():
    line, calls = along(lambda s: -s, lambda s: -1.0)
    assert slope_search.search(line, value=0.0, first=1.0, max_evaluations=5).length == 4.0**4
    assert len(calls) == 5
