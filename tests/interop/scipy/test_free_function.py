"""Verdicts within bounds: what is held, what is free, and what is at its bound without being pressed to it."""

import numpy as np
import pytest
from scipy.optimize import Bounds

from unsaddle.interop.scipy import minimize
from unsaddle.interop.scipy.arguments import BOUNDED
from unsaddle.interop.scipy.free_function import EndPoint
from unsaddle.interop.scipy.promotion import TOO_MANY_ESCAPES, UNDECIDED

AT_BOUNDS = ("L-BFGS-B", "TNC", "SLSQP")
"""Methods that stay at a bound where they begin; interior points do not begin there."""


def f(x):
    return x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4


def g(x):
    return np.array([2 * x[0], -2 * x[1] + x[1] ** 3])


@pytest.mark.parametrize("method", BOUNDED)
def test_a_saddle_within_bounds_is_left_and_the_bounds_are_kept(method):
    outside = []

    def inside(fun):
        def call(x):
            outside.append(not (-2.0 - 1e-9 <= x[0] <= 2.0 + 1e-9 and -1.0 - 1e-9 <= x[1] <= 1.0 + 1e-9))
            return fun(x)

        return call

    result = minimize(inside(f), (1.0, 0.0), method=method, jac=inside(g), bounds=[(-2.0, 2.0), (-1.0, 1.0)])
    assert result.success
    np.testing.assert_allclose(np.abs(result.x), [0.0, 1.0], atol=1e-3)  # Interior points end before a bound.
    assert method == "trust-constr" or not any(outside)  # Which leaves them on its way, by SciPy's own design.


@pytest.mark.parametrize("bounds", [[(1, 5), (-1, 1), (None, 3)], Bounds([1, -1, -np.inf], [5, 1, 3])])
def test_curvature_counts_within_the_free_variables_only(bounds):
    """Along the first variable f is concave, but it is held at its bound; the second is free."""
    result = minimize(
        lambda x: 9.0 - (x[0] - 9.0) ** 2 / 4.0 - 4.0 * x[0] * 0 + 5.0 * x[0] + x[1] ** 2 + x[2] ** 2,
        (2.0, 0.5, 1.0),
        jac=lambda x: np.array([-(x[0] - 9.0) / 2.0 + 5.0, 2.0 * x[1], 2.0 * x[2]]),
        bounds=bounds,
    )
    assert result.success
    np.testing.assert_allclose(result.x, [1.0, 0.0, 0.0], atol=1e-5)
    assert result.verdict.evidence.direction is None
    assert len(result.verdict._x) == 2


def test_at_a_vertex_no_variable_is_free_and_the_verdict_is_one_to_first_order():
    result = minimize(lambda x: x.sum(), (1.0, 1.0), jac=np.ones_like, bounds=[(0, 2), (0, 2)])
    assert result.success
    assert result.verdict.kind == "minimum"
    assert result.verdict.cost.gradients == 0
    assert np.isnan([result.verdict.gamma, result.verdict.curvature, *result.verdict.interval]).all()
    assert str(result.verdict).startswith("A minimum, to first order.\n")
    assert result.verdict.reason.startswith("Every variable is at a bound")
    assert result.verdict.plot() is not None


def test_bounds_may_fix_variables():
    result = minimize(f, (0.5, 0.0), jac=g, bounds=[(0.5, 0.5), (None, None)])
    np.testing.assert_allclose(np.abs(result.x), [0.5, np.sqrt(2.0)], atol=1e-4)


@pytest.mark.parametrize("method", AT_BOUNDS)
@pytest.mark.parametrize("side", [1.0, -1.0], ids=["lower", "upper"])
def test_a_way_down_from_a_bound_with_zero_derivative_is_inside(method, side):
    """f = −x² + x⁴/4 is stationary at its bound, and concave."""
    result = minimize(
        lambda x: float(-(x[0] ** 2) + x[0] ** 4 / 4.0),
        [0.0],
        jac=lambda x: -2.0 * x + x**3,
        bounds=[(0.0, 3.0) if side > 0.0 else (-3.0, 0.0)],
        method=method,
    )
    assert result.success
    assert result.escapes == 1
    assert side * result.x[0] == pytest.approx(np.sqrt(2.0), abs=1e-4)


@pytest.mark.parametrize("seed", range(10))
def test_a_fixed_variable_is_no_obstacle_to_an_interior_point_method(seed):
    """trust-constr ends beside the bound by rounding, and a look evaluates nothing outside."""
    random = np.random.default_rng(seed)
    a = random.standard_normal((3, 3))
    a = a @ a.T + np.eye(3)
    b, fixed = random.standard_normal(3), random.standard_normal()
    result = minimize(
        lambda x: x @ a @ x / 2.0 - b @ x,
        random.standard_normal(3),
        method="trust-constr",
        jac=lambda x: a @ x - b,
        bounds=[(fixed, fixed), (None, None), (None, None)],
    )
    assert result.success
    assert result.x[0] == fixed
    np.testing.assert_allclose(result.x[1:], np.linalg.solve(a[1:, 1:], b[1:] - a[1:, 0] * fixed), atol=1e-4)


@pytest.mark.filterwarnings("ignore:Method L-BFGS-B does not use Hessian information:RuntimeWarning")
@pytest.mark.parametrize("hess", [None, lambda x: np.array([[0.0, 1.0], [1.0, 2.0]])], ids=["jac", "hess"])
def test_a_way_down_that_takes_free_variables_along_is_found(hess):
    """f = xy + y² with x ≥ 0: convex in either variable, and falling along (2, −1)."""
    outside = []

    def fun(x):
        outside.append(x[0] < 0.0 or x[0] > 3.0)
        return float(x[0] * x[1] + x[1] ** 2)

    result = minimize(
        fun, [0.0, 0.0], jac=lambda x: np.array([x[1], x[0] + 2.0 * x[1]]), hess=hess, bounds=[(0, 3), (-5, 5)]
    )
    assert result.success
    np.testing.assert_allclose(result.x, [3.0, -1.5], atol=1e-4)
    assert not any(outside)


@pytest.mark.parametrize("method", AT_BOUNDS)
def test_where_negative_curvature_of_several_variables_leads_out_of_the_bounds_it_is_undecided(method):
    """f = xy with x, y ≥ 0: along (1, −1) it falls, and that is outside. That it falls nowhere else is not known."""
    result = minimize(
        lambda x: float(x[0] * x[1]), [0.0, 0.0], jac=lambda x: x[::-1].copy(), bounds=[(0, 3), (0, 5)], method=method
    )
    assert not result.success
    assert result.status == UNDECIDED
    assert result.verdict.kind == "undecided"
    assert result.verdict.direction is None
    assert result.escapes == 0
    assert result.nfev < 40
    assert "2 variables are at their bounds with a derivative of zero" in result.message
    assert "other lines may lead down" in result.message
    assert 0 < result.njev - result.verdict.cost.gradients < 5  # What SciPy took itself.


@pytest.mark.filterwarnings("ignore:Method .* does not use Hessian information:RuntimeWarning")
@pytest.mark.parametrize("by", ["jac", "hess"])
@pytest.mark.parametrize("method", AT_BOUNDS)
def test_a_way_down_inside_is_found_beside_a_steeper_one_that_leads_out(method, by):
    """The lowest curvature is along (0, 0, 1, −1), which leads out; inside f falls along (1, 1, 0, 0)."""
    hessian = np.array([[2.0, -3.0, 0.0, 0.0], [-3.0, 2.0, 0.0, 0.0], [0.0, 0.0, 0.2, 10.0], [0.0, 0.0, 10.0, 0.2]])
    hess = None if by == "jac" else lambda x: hessian + np.diag(1.2 * x**2)
    for seed in range(5):
        result = minimize(
            lambda x: float(x @ hessian @ x / 2.0 + 0.1 * (x**4).sum()),
            np.zeros(4),
            method=method,
            jac=lambda x: hessian @ x + 0.4 * x**3,
            hess=hess,
            bounds=[(0, 1)] * 4,
            tol=1e-10,  # SLSQP would leave x_2, along which fun is soft, at 1e-3.
            seed=seed,
        )
        assert result.fun < -0.24
        np.testing.assert_allclose(result.x, [1.0, 1.0, 0.0, 0.0], atol=1e-3)


@pytest.mark.parametrize("d", [1, 2])
def test_gradients_that_are_not_finite_inside_leave_it_undecided(d):
    result = minimize(
        lambda x: float(x @ x),
        np.zeros(d),
        jac=lambda x: np.where(x > 0.0, np.nan, 0.0),
        bounds=[(0, 1)] * d,
        check_gradient=False,
    )
    assert not result.success
    assert result.status == UNDECIDED
    assert "NaN or infinite" in result.message


def test_one_variable_at_its_bound_is_decided_by_values_inwards():
    """x^{3/2}, which has no Hessian at the bound, beside a free variable: values rise, and that is all it takes."""
    result = minimize(
        lambda x: float(x[0] ** 1.5 + x[1] ** 2),
        [0.0, 1.0],
        jac=lambda x: np.array([1.5 * np.sqrt(x[0]), 2.0 * x[1]]),
        bounds=[(0, 3), (-5, 5)],
    )
    assert result.success
    assert "One variable is at its bound with a derivative of zero" in result.verdict.reason
    assert result.verdict.cost.gradients > 5  # Of both looks.


def test_a_minimum_at_a_bound_with_zero_derivative_is_seen_whole():
    """x² + y² with x ≥ 0: nothing is in doubt if the function is convex beyond the bound, too."""
    result = minimize(lambda x: float(x @ x), [0.0, 1.0], jac=lambda x: 2.0 * x, bounds=[(0, None), (None, None)])
    assert result.success
    assert len(result.verdict._x) == 2
    assert result.verdict.curvature == pytest.approx(2.0)


@pytest.mark.parametrize(("sign", "end"), [(1.0, 0.0), (-1.0, 3.0)])
def test_a_bound_without_a_hessian_is_decided_by_values(sign, end):
    """±x^{3/2}: the derivative vanishes at the bound, and the Hessian does not exist there."""
    result = minimize(
        lambda x: float(sign * x[0] ** 1.5), [0.0], jac=lambda x: sign * 1.5 * np.sqrt(x), bounds=[(0.0, 3.0)]
    )
    assert result.success
    assert result.x[0] == pytest.approx(end)


def test_the_way_from_a_bound_counts_as_an_escape():
    result = minimize(lambda x: float(-(x @ x)), [0.0], jac=lambda x: -2.0 * x, bounds=[(0.0, 3.0)], max_escapes=0)
    assert not result.success
    assert result.status == TOO_MANY_ESCAPES
    assert result.verdict.kind == "saddle"


@pytest.mark.parametrize("method", ["L-BFGS-B", "TNC", "SLSQP", "trust-constr"])
@pytest.mark.parametrize("jac", [None, "3-point"])
def test_a_start_outside_of_the_bounds_is_moved_to_them(method, jac):
    """trust-constr refuses one where it takes differences, the others clip it."""
    result = minimize(
        lambda x: (x[0] - 1.0) ** 2 + (x[1] + 0.5) ** 2, (5.0, 7.0), method=method, jac=jac, bounds=[(0, 2), (0, 2)]
    )
    assert result.success
    np.testing.assert_allclose(result.x, [1.0, 0.0], atol=1e-3)


def test_without_a_run_nothing_was_spent():
    end = EndPoint(function=None, x=np.zeros(1), value=0.0, start=np.zeros(1))
    assert (end.spent, end.suspicious, end.inverse) == (0, False, None)
