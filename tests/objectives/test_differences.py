"""Gradients by differences: their accuracy, what they evaluate, and the error that they state."""

import numpy as np
import pytest

from unsaddle.objectives.differences import CENTRAL, FORWARD, gradient, rounding_error

X = np.array([0.5, -2.0, 3.0])
TOLERANCE = {"2-point": 1e-6, "3-point": 1e-9, "cs": 1e-15}
every_scheme = pytest.mark.parametrize("scheme", TOLERANCE)


class Counted:
    """sin, summed, with an offset; it keeps the points that it is asked at, and overwrites them afterwards."""

    def __init__(self, offset=0.0):
        self.offset, self.points = offset, []

    def __call__(self, x):
        self.points.append(x.copy())
        value = np.sin(x).sum() + self.offset
        x.fill(np.nan)
        return value


@every_scheme
def test_the_gradient_is_the_closed_form(scheme):
    x = X.copy()
    np.testing.assert_allclose(gradient(Counted(), x, scheme), np.cos(X), rtol=TOLERANCE[scheme], atol=0.0)
    np.testing.assert_array_equal(x, X)


@pytest.mark.parametrize(("scheme", "values"), [("2-point", 4), ("3-point", 6), ("cs", 3)])
def test_it_costs_so_many_values(scheme, values):
    fun = Counted()
    gradient(fun, X, scheme)
    assert len(fun.points) == values


@pytest.mark.parametrize(("scheme", "step"), [("2-point", FORWARD), ("3-point", CENTRAL)])
def test_steps_are_scipys(scheme, step):
    """One-sided ones are of one length, central ones of max(1, |x|)."""
    fun = Counted()
    gradient(fun, X, scheme)
    lengths = np.array([np.abs(point - X).max() for point in fun.points])
    expected = [0.0, step, step, step] if scheme == "2-point" else np.repeat(step * np.maximum(1.0, np.abs(X)), 2)
    np.testing.assert_allclose(lengths, expected, rtol=1e-6)


@pytest.mark.parametrize("scheme", ["2-point", "3-point"])
@pytest.mark.parametrize("at", ["lower", "upper", "between"])
def test_no_point_outside_of_the_bounds_is_evaluated(scheme, at):
    lower = {"lower": X, "upper": X - 1.0, "between": X - 1e-9}[at]
    upper = {"lower": X + 1.0, "upper": X, "between": X + 1.0}[at]
    fun = Counted()
    grad = gradient(fun, X, scheme, lower, upper)
    np.testing.assert_allclose(grad, np.cos(X), rtol=1e-4)
    assert all((lower <= point).all() and (point <= upper).all() for point in fun.points)


def test_a_large_coordinate_does_not_swallow_the_step():
    assert gradient(lambda x: 3.0 * x[0], np.array([1e12]), "2-point") == pytest.approx([3.0], rel=1e-3)


@pytest.mark.parametrize("scheme", ["2-point", "3-point"])
@pytest.mark.parametrize("offset", [1e3, 1e6, 1e9])
def test_the_error_stated_covers_what_rounding_does(scheme, offset):
    """Values of such a size lose digits to the offset; truncation, seen without one, is far smaller."""
    generator = np.random.default_rng(0)
    for _ in range(20):
        x = generator.standard_normal(30)
        fun = Counted(offset)
        error = np.linalg.norm(gradient(fun, x, scheme) - gradient(Counted(), x, scheme))
        stated = rounding_error(scheme, offset, float(np.linalg.norm(np.cos(x))), 30)
        assert 0.01 * stated < error < stated


@pytest.mark.parametrize("scheme", [None, "cs"])
def test_there_is_no_such_error_without_a_difference(scheme):
    assert rounding_error(scheme, 1e9, 1.0, 30) == 0.0
