"""The length of a step along a direction of negative curvature."""

import math
from types import SimpleNamespace

import pytest
import torch

from unsaddle.escape.line_search import Point, _between, by_slopes, by_values
from unsaddle.escape.steps import by_guessed_lengths, by_line_search


def along(function, slope):
    calls = []

    def line(s):
        calls.append(s)
        return function(s), slope(s)

    return line, calls


@pytest.mark.parametrize("first", [1e-6, 1e-3, 1.0, 50.0, -1e-3, -50.0])
def test_the_minimum_is_found_from_lengths_far_too_short_and_far_too_long(first):
    line, calls = along(lambda s: s**4 / 4 - s**2, lambda s: s**3 - 2 * s)
    best = by_slopes(line, value=0.0, first=first, max_evaluations=16)
    assert best.value < -0.9
    assert math.copysign(1.0, best.length) == math.copysign(1.0, first)
    assert len(calls) <= 16


def test_where_nothing_is_lower_the_length_is_zero():
    line, calls = along(lambda s: s**2, lambda s: 2 * s)
    best = by_slopes(line, value=0.0, first=1.0, max_evaluations=6)
    assert (best.length, best.value, len(calls)) == (0.0, 0.0, 6)


def test_losses_that_round_to_the_same_number_do_not_end_the_growth():
    rounding = 2e-5
    line, _ = along(
        lambda s: 1.0 - 0.001 * s * s + 1e-4 * s**4 + (rounding if s < 0.1 else 0.0), lambda s: -0.002 * s + 4e-4 * s**3
    )
    assert by_slopes(line, value=1.0, first=1e-3, max_evaluations=8).length == 0.0
    found = by_slopes(line, value=1.0, first=1e-3, max_evaluations=8, resolution=5e-5)
    assert 1.0 < found.length < 4.0


@pytest.mark.parametrize("beyond", [math.inf, math.nan])
def test_a_loss_that_is_not_finite_bounds_the_length(beyond):
    line, _ = along(lambda s: -s if s < 2.0 else beyond, lambda s: -1.0 if s < 2.0 else beyond)
    best = by_slopes(line, value=0.0, first=0.01, max_evaluations=12)
    assert 0.5 < best.length < 2.0


def test_inside_a_bracket_the_minimum_of_the_cubic_is_taken():
    """0.3 and 1.2 bracket the minimum of a parabola, which is its own cubic: the next point is exact."""
    line, calls = along(lambda s: (s - 1.0) ** 2 - 1.0, lambda s: 2.0 * (s - 1.0))
    best = by_slopes(line, value=0.0, first=0.3, max_evaluations=3)
    assert calls == pytest.approx([0.3, 1.2, 1.0])
    assert best == pytest.approx((1.0, -1.0, 0.0))


def test_at_a_lower_point_without_a_slope_the_search_ends():
    line, calls = along(lambda s: (s - 1.0) ** 2 - 1.0, lambda s: 2.0 * (s - 1.0))
    assert by_slopes(line, value=0.0, first=1.0, max_evaluations=8) == (1.0, -1.0, 0.0)
    assert calls == [1.0]


@pytest.mark.parametrize("beyond", [math.inf, math.nan])
def test_before_a_loss_that_is_not_finite_the_geometric_mean_is_taken(beyond):
    line, calls = along(lambda s: -s if s < 2.0 else beyond, lambda s: -1.0 if s < 2.0 else beyond)
    best = by_slopes(line, value=0.0, first=1.0, max_evaluations=4)
    assert calls == pytest.approx([1.0, 4.0, 2.0, math.sqrt(2.0)])
    assert best.length == pytest.approx(math.sqrt(2.0))


def test_no_more_than_the_evaluations_allowed_are_made():
    line, calls = along(lambda s: -s, lambda s: -1.0)
    assert by_slopes(line, value=0.0, first=1.0, max_evaluations=5).length == 4.0**4
    assert len(calls) == 5


# --- By values ------------------------------------------------------------------------------------------------------

CURVES = {
    "double well": lambda s: s**4 / 4 - s**2,
    "tilted": lambda s: s**4 / 4 - s**2 + 0.3 * s,
    "hardly tilted": lambda s: s**4 / 4 - s**2 - 1e-3 * s,
    "narrow": lambda s: 1e6 * s**4 - s**2,
    "bowl": lambda s: s * s,
    "flat": lambda s: 3.0,
    "steep wall": lambda s: -(s**2) if abs(s) < 0.3 else math.inf,
    "high up": lambda s: 1e6 - s**2 + s**4,
    "cosine": lambda s: math.cos(3.0 * s),
}
EPS = 2.0**-52


def doubled_lengths(value, first, curvature):
    """Both signs at doubled lengths until one is ahead, and on until a length does not lower the value further.

    Where the fall is not that of the curvature, two have to.
    """
    here = value(0.0)
    rounding = 16 * EPS * abs(here)
    s, signs, best, at, worse = max(first, math.sqrt(2 * rounding / curvature)), [1, -1], here - rounding, None, 0
    for _ in range(60):
        tried = [value(sign * s) for sign in signs]
        low = min(tried)
        sign = signs[tried.index(low)]
        if low < best:
            best, at, worse = low, sign * s, 0
        elif at is not None:
            share = (here - best) / (curvature * at**2 / 2)
            worse += 2 if 0.05 < share < 2.0 else 1
        if worse >= 2 or not math.isfinite(low):
            break
        if len(signs) == 2 and abs(tried[0] - tried[1]) > max(rounding, 0.1 * abs(low - here)):
            signs = [sign]
        s *= 2
    return at


def guessed_lengths(value, first):
    """A first length that is quartered until a sign is lower, and then doubled as long as that helps."""
    here = value(0.0)
    s = first
    for _ in range(10):
        above, below = value(s), value(-s)
        if min(above, below) < here - 4 * EPS * abs(here):
            break
        s /= 4
    else:
        return None
    best, s = (above, s) if above <= below else (below, -s)
    while (further := value(2 * s)) < best:
        best, s = further, 2 * s
    return s


def recorded(curve):
    calls = []

    def value(x):
        s = float(x)
        calls.append(s)
        return curve(s)

    return value, calls


@pytest.mark.parametrize("first", [1e-6, 1e-2, 0.5, 40.0])
@pytest.mark.parametrize("name", CURVES)
def test_one_search_asks_for_just_the_points_of_doubled_lengths_and_of_guessed_ones(name, first):
    ours, asked = recorded(CURVES[name])
    expected, would_ask = recorded(CURVES[name])
    here, rounding = ours(0.0), 16 * EPS * abs(CURVES[name](0.0))
    first_length = max(first, math.sqrt(2 * rounding / 2.0))
    found = by_values(ours, here, first=first_length, rounding=rounding, curvature=2.0)
    assert (None if found is None else found.length) == doubled_lengths(expected, first, 2.0)
    assert asked == would_ask

    ours, asked = recorded(CURVES[name])
    expected, would_ask = recorded(CURVES[name])
    here = ours(0.0)
    settings = {"quarterings": 10, "patience": 1, "ahead": None}
    found = by_values(ours, here, first=first, rounding=4 * EPS * abs(here), **settings)
    assert (None if found is None else found.length) == guessed_lengths(expected, first)
    assert asked == would_ask


@pytest.mark.parametrize("name", CURVES)
def test_the_steps_ask_for_them_too(name):
    x, v = torch.zeros(1, dtype=torch.float64), torch.ones(1, dtype=torch.float64)
    for step, plain in (
        (lambda f: by_line_search(f, x, v, curvature=2.0, first_length=1e-3), lambda f: doubled_lengths(f, 1e-3, 2.0)),
        (lambda f: by_guessed_lengths(f.value, x, v, float(f.value(x))), lambda f: guessed_lengths(f, 1e-2)),
    ):
        ours, asked = recorded(CURVES[name])
        expected, would_ask = recorded(CURVES[name])
        moved, length = step(SimpleNamespace(value=ours)), plain(expected)
        moved = moved[0] if isinstance(moved, tuple) else moved
        assert (None if moved is None else float(moved)) == length
        assert asked == would_ask


def test_nothing_finite_ahead_ends_the_search_and_a_shorter_guess_goes_on():
    """Beyond 1 there are no numbers."""

    def value(s):
        return -s * s if abs(s) < 1.0 else math.nan

    assert by_values(value, 0.0, first=2.0) is None
    found = by_values(value, 0.0, first=2.0, quarterings=10, patience=1, ahead=None)
    assert found is not None
    assert (found.length, found.value) == (0.5, -0.25)


@pytest.mark.parametrize("first", [1e-6, 1e-4, 1e-3, 3e-3, 0.01, 0.3])
@pytest.mark.parametrize("frequency", [1e-2, 1.0, 37.0])
def test_of_a_periodic_function_the_nearest_fall_is_taken(first, frequency):
    """Doubled lengths sample a cosine as if at random, and with patience some later one is always lower."""
    found = by_values(
        lambda s: math.cos(frequency * s), 1.0, first=first / frequency, rounding=1e-15, curvature=frequency**2
    )
    assert abs(found.length) * frequency < 2.0 * math.pi
    assert found.value < 0.0


def test_values_that_fall_by_less_or_more_than_the_curvature_says_are_given_patience():
    """Noise of 1e-5 makes the second value lower than the third. It is six times the fall of the curvature."""

    def noisy(s):
        return -(s**2) / 2.0 + s**4 + 1e-5 * {0.002: -1.0}.get(round(s, 6), 0.0)

    found = by_values(noisy, 0.0, first=0.001, rounding=1e-12, curvature=1.0)
    assert 0.3 < found.length < 0.7


@pytest.mark.parametrize(("slope", "length"), [(1e-9, 0.9), (-1e-9, 0.9)])
def test_a_cubic_s_minimum_at_the_far_end_is_kept_away_from_it(slope, length):
    assert _between(Point(0.0, 0.0, -1.0), Point(1.0, -0.5, slope)) == pytest.approx(length)
