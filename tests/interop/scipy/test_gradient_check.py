"""jac against fun: wrong gradients are named, right ones pass, and what is wrong away from the start only is seen."""

import numpy as np
import pytest

from unsaddle.interop.scipy import minimize
from unsaddle.interop.scipy.counted_function import CountedFunction
from unsaddle.interop.scipy.gradient_check import contradicting_curvature
from unsaddle.interop.scipy.promotion import UNDECIDED


def f(x):
    return x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4


def g(x):
    return np.array([2 * x[0], -2 * x[1] + x[1] ** 3])


@pytest.mark.parametrize("d", [2, 10, 200])
@pytest.mark.parametrize("wrong", [0, 1])
def test_a_wrong_gradient_is_named_with_its_worst_component(d, wrong):
    x0 = np.linspace(0.5, 1.5, d)

    def jac(x):
        grad = 4.0 * x**3
        grad[wrong] *= 1.5
        if d > 2:
            grad[-1] += 1e-3
        return grad

    with pytest.raises(ValueError, match=f"jac is not the gradient of fun: near the start, component {wrong} is"):
        minimize(lambda x: float((x**4).sum()), x0, jac=jac)


def test_a_right_gradient_in_single_precision_passes():
    def fun(x):
        return np.float32(100.0) + (x.astype(np.float32) ** 4).sum()

    result = minimize(fun, np.ones(20), method="L-BFGS-B", jac=lambda x: 4.0 * x.astype(np.float32) ** 3, tol=1e-3)
    assert result.nfev < 1000


def test_at_a_stationary_point_rounding_is_not_taken_for_a_wrong_gradient():
    """Residuals of 1e-12 among terms of size 1: neither gradient nor values have a digit that is right."""
    rows = np.random.default_rng(0).standard_normal((40, 22))
    target = rows @ np.ones(22) * (1.0 + 1e-13 * np.arange(40))
    for x0 in np.ones(22), np.ones(22) + 1e-12:
        result = minimize(
            lambda x: float(((rows @ x - target) ** 2).sum()), x0, jac=lambda x: 2.0 * rows.T @ (rows @ x - target)
        )
        assert result.success


def test_steps_too_short_to_change_a_value_are_not_believed():
    """Near zero cos(x) is 1 to the last digit, and so is every value at a distance in proportion to x."""
    x0 = np.full(6, 1e-10) * np.arange(1, 7)
    result = minimize(lambda x: float(6.0 - np.cos(x).sum()), x0, jac=np.sin)
    assert result.success


def test_a_right_gradient_of_a_function_that_oscillates_over_the_steps_passes():
    """cos(x²) at a thousand: over a step its phase changes by twelve, and its differences are nearly zero."""
    for seed in range(20):
        x0 = np.random.default_rng(seed).uniform(500.0, 2000.0, 5)
        value, slope = lambda x: float(np.cos(x**2).sum()), lambda x: -2.0 * x * np.sin(x**2)
        assert minimize(value, x0, jac=slope, options={"maxiter": 1}).nit == 1  # It was let past the check.


def test_a_right_gradient_of_badly_scaled_variables_passes():
    """A variable of 1e-4 beside one of 500, as in a fit of a rate and an amplitude."""
    t = np.linspace(70.0, 760.0, 14)
    target = 240.0 * (1.0 - np.exp(-5.5e-4 * t))

    def fun(x):
        return float(((x[0] * (1.0 - np.exp(-x[1] * t)) - target) ** 2).sum())

    def jac(x):
        off = x[0] * (1.0 - np.exp(-x[1] * t)) - target
        return 2.0 * np.array([off @ (1.0 - np.exp(-x[1] * t)), off @ (x[0] * t * np.exp(-x[1] * t))])

    assert minimize(fun, (500.0, 1e-4), jac=jac).nfev > 0


def test_the_check_can_be_left_out():
    result = minimize(f, (1.0, 0.0), jac=lambda x: 1.1 * g(x), check_gradient=False)
    assert result.nfev > 0


# Wrong away from a symmetric start only


@pytest.mark.parametrize("d", [2, 10, 300])
def test_a_gradient_that_is_right_where_a_coordinate_is_zero_and_wrong_elsewhere_is_named(d):
    """The start and the point that it leads to have x_1 = 0, where the wrong term vanishes: by jac a minimum."""
    scale = np.linspace(1.0, 2.0, d)
    start = np.ones(d)
    start[1] = 0.0

    def fun(x):
        return float((scale * x**2).sum() / 2.0 - 3.0 * x[1] ** 2 + x[1] ** 4)

    def jac(x):
        wrong = scale * x
        wrong[1] += 4.0 * x[1] ** 3
        return wrong

    with pytest.raises(ValueError, match="beside the point where SciPy has converged, component 1 is"):
        minimize(fun, start, jac=jac)
    assert minimize(fun, start, jac=jac, check_gradient=False).success


@pytest.mark.parametrize("others", [[(0, 1)], [(0, 1), (-1, 0)]], ids=["one", "two"])
def test_a_variable_at_its_bound_with_zero_derivative_does_not_hide_a_wrong_gradient(others):
    """Line and curvature of the check are those of the free variables."""
    d = 2 + len(others)

    def fun(x):
        return f(x) + float((x[2:] ** 2).sum())

    def jac(x):
        return np.concatenate([[2 * x[0], 2 * x[1] + x[1] ** 3], 2 * x[2:]])

    start, bounds = np.eye(1, d)[0], [(None, None)] * 2 + others
    with pytest.raises(ValueError, match="beside the point where SciPy has converged, component 1 is"):
        minimize(fun, start, jac=jac, bounds=bounds)
    assert minimize(fun, start, jac=jac, bounds=bounds, check_gradient=False).success
    right = minimize(fun, start, jac=lambda x: np.concatenate([g(x), 2 * x[2:]]), bounds=bounds)
    assert right.success
    np.testing.assert_allclose(np.abs(right.x), [0.0, np.sqrt(2.0), *[0.0] * len(others)], atol=1e-4)


def test_a_gradient_that_is_wrong_after_an_escape_is_named():
    """By jac it is the saddle that it is; where the run goes on, the other component is wrong."""
    with pytest.raises(ValueError, match="after leaving a saddle, component 0 is"):
        minimize(f, (0.0, 0.0), jac=lambda x: g(x) + np.array([x[1], 0.0]) * abs(x[1]))


@pytest.mark.parametrize("bounds", [None, [(0.0, 2.0), (0.0, 2.0)], [(-1.0, 1.0), (0.0, 2.0)]])
@pytest.mark.parametrize("jac", [lambda x: g(x)[::-1].copy(), np.zeros_like])
def test_at_a_saddle_a_jac_that_is_swapped_or_zero_is_named_and_not_fun(jac, bounds):
    """At the saddle itself jac is right. Its changes are not symmetric, or zero: fun looks rough, or constant."""
    with pytest.raises(ValueError, match=r"jac is not the gradient of fun: .*differences: \[") as raised:
        minimize(f, [0.0, 0.0], jac=jac, bounds=bounds)
    assert "kink" not in str(raised.value)


@pytest.mark.parametrize(("fun", "jac"), [(lambda x: 3.0, np.zeros_like), (lambda x: np.abs(x).sum(), np.sign)])
def test_a_constant_and_a_kink_are_not_blamed_on_jac(fun, jac):
    assert minimize(fun, [0.0, 0.0], jac=jac).status == UNDECIDED


def test_a_gradient_that_makes_a_saddle_of_a_minimum_is_named():
    """Values do not fall along the direction that it shows, and beside x it proves to be wrong."""
    with pytest.raises(ValueError, match="beside the point where SciPy has converged, component 1 is"):
        minimize(lambda x: float(x @ x), (1.0, 0.0), jac=lambda x: np.array([2.0, -2.0]) * x)


def test_a_hessian_that_is_not_that_of_the_function_leaves_it_undecided():
    result = minimize(f, (1.0, 0.0), jac=g, hess=lambda x: np.diag([2.0, 2.0]), method="trust-exact")
    assert not result.success
    assert result.status == UNDECIDED
    assert "by hess but" in result.message


def free_function(fun, d):
    return CountedFunction(fun, None, (), np.full(d, -np.inf), np.full(d, np.inf))


@pytest.mark.parametrize("offset", [0.0, 1.0, 1e6])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_curvature_by_values_contradicts_a_wrong_one_and_no_right_one(offset, scale):
    """Two values where it agrees. With 1e6 beside it rounding leaves little, and nothing wrong is said."""

    def fun(x):
        return offset + np.cosh(x[0] / scale) + (x[1] / scale) ** 2

    x, v = np.array([0.5, -1.0]) * scale, np.array([0.6, 0.8])
    right = (0.36 * np.cosh(0.5) + 2.0 * 0.64) / scale**2
    function = free_function(fun, 2)
    known = {"largest": 2.0 / scale**2, "size": float(np.linalg.norm(x))}
    assert contradicting_curvature(function, x, fun(x), v, curvature=right, **known) is None
    assert function.nfev == 2
    wrong = contradicting_curvature(function, x, fun(x), v, curvature=-right, **known)
    assert wrong == (None if offset == 1e6 else pytest.approx(right, rel=0.01))


@pytest.mark.parametrize(
    "fun",
    [lambda x: np.abs(x).sum(), lambda x: (np.abs(x) ** 1.5).sum(), lambda x: x @ x + 1e-5 * np.sin(1e6 * x[0])],
    ids=["kink", "power 3/2", "ripples"],
)
def test_rough_functions_do_not_contradict(fun):
    x, v = np.zeros(2), np.array([0.6, 0.8])
    known = {"curvature": 2.0, "largest": 2.0, "size": 1.0}
    assert contradicting_curvature(free_function(fun, 2), x, float(fun(x)), v, **known) is None


@pytest.mark.parametrize("size", [1e-160, 1e-155, 1e-150])
def test_where_squares_of_steps_underflow_nothing_is_said(size):
    minimize(lambda x: float((x**2).sum()), [size] * 2, jac=lambda x: 2.0 * x)
    function, x, v = free_function(lambda x: float(x @ x), 2), np.zeros(2), np.array([0.6, 0.8])
    assert contradicting_curvature(function, x, 0.0, v, curvature=2.0, largest=2.0, size=size) is None
    assert function.nfev == 0


def test_a_function_that_turns_over_the_length_of_the_steps_does_not_contradict():
    """Humps 1.5 apart in a wide bowl, and steps of up to 100: on some of 300 lines two in a row agree by accident."""

    def fun(x):
        humps = np.sin(2.0 * x[1:]) ** 2 * np.sin(2.0 * x[:-1]) ** 2
        return float((humps + 0.05 * (x[1:] ** 2 + x[:-1] ** 2)).sum())

    generator, function, x = np.random.default_rng(0), free_function(fun, 20), np.zeros(20)
    for _ in range(300):
        v = generator.standard_normal(20) * (generator.random(20) < 0.3) + 1e-3
        v /= np.linalg.norm(v)
        right = 0.2 - 0.1 * (v[0] ** 2 + v[-1] ** 2)
        known = {"curvature": right, "largest": 0.2, "size": 10.0 ** generator.uniform(0.0, 5.0)}
        assert contradicting_curvature(function, x, 0.0, v, **known) is None
