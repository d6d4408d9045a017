"""What `minimize` refuses, and how it says so."""

import numpy as np
import pytest
import scipy.optimize
import torch
from scipy.optimize import Bounds, LinearConstraint

from unsaddle.interop.scipy import minimize
from unsaddle.interop.scipy.arguments import OUR_OWN


def f(x):
    return x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4


def g(x):
    return np.array([2 * x[0], -2 * x[1] + x[1] ** 3])


def both(x):
    return f(x), g(x)


@pytest.mark.parametrize(
    "constraints", [{"type": "eq", "fun": f}, [{"type": "eq", "fun": f}], LinearConstraint([1, 1])]
)
def test_constraints_are_refused(constraints):
    with pytest.raises(ValueError, match="constraints are not supported"):
        minimize(f, (1.0, 0.0), method="SLSQP", jac=g, constraints=constraints)


@pytest.mark.parametrize("method", ["Nelder-Mead", "COBYLA", "nonsense", 3])
def test_methods_without_gradients_are_refused(method):
    with pytest.raises(ValueError, match="method must be one that uses gradients"):
        minimize(f, (1.0, 0.0), method=method)


def test_bounds_are_refused_by_methods_that_have_none():
    with pytest.raises(ValueError, match="BFGS takes no bounds; use one of L-BFGS-B"):
        minimize(f, (1.0, 0.0), method="BFGS", jac=g, bounds=[(0, 1), (0, 1)])


@pytest.mark.parametrize("bounds", [[(0, 1)], [(0, 1, 2), (0, 1)], Bounds([0, 0, 0], [1, 1, 1]), [(1, 0), (0, 1)]])
def test_bounds_that_do_not_fit_are_refused(bounds):
    with pytest.raises(ValueError, match="bound"):
        minimize(f, (1.0, 0.0), jac=g, bounds=bounds)


def test_a_start_of_two_dimensions_is_refused():
    with pytest.raises(ValueError, match=r"x0 must have one dimension, got shape \(1, 2\)"):
        minimize(f, [[1.0, 0.0]], jac=g)


@pytest.mark.parametrize("shape", [(1,), (3,), (2, 1), (1, 2), ()])
@pytest.mark.parametrize("method", ["L-BFGS-B", "BFGS", "TNC"])
def test_a_gradient_of_the_wrong_shape_is_refused(shape, method):
    with pytest.raises(ValueError, match=r"jac must return an array of the shape of x, \(2,\)"):
        minimize(f, (1.0, 0.0), method=method, jac=lambda x: np.ones(shape))


def test_values_that_are_no_numbers_are_refused():
    with pytest.raises(TypeError, match="fun must return a number, got tuple; pass jac=True"):
        minimize(both, (1.0, 0.0), jac=g)
    with pytest.raises(TypeError, match="with jac=True, fun must return"):
        minimize(f, (1.0, 0.0), jac=True)
    with pytest.raises(ValueError, match="fun must return a scalar, got an array of shape"):
        minimize(g, (1.0, 0.0), jac=g)


@pytest.mark.parametrize("name", OUR_OWN)
def test_our_arguments_are_no_options(name):
    """SciPy would warn of an unknown option and go on without it."""
    with pytest.raises(ValueError, match=f"{name} is an argument of minimize and no option"):
        minimize(f, (1.0, 0.0), jac=g, options={name: 0.5})


@pytest.mark.parametrize("method", ["BFGS", "L-BFGS-B", "TNC", "SLSQP", "trust-constr"])
@pytest.mark.parametrize("most", [np.inf, 1e300, None])
def test_budgets_without_a_limit_are_taken(method, most):
    options = {"maxfun" if method == "TNC" else "maxiter": most}
    assert minimize(f, (1.0, 0.0), jac=g, method=method, options=options).success


NO_START = "x0 must be real numbers"


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"options": 5}, TypeError, "options must be a dictionary"),
        ({"options": {"maxiter": "a"}}, TypeError, "the option maxiter must be a number, got 'a'"),
        ({"options": {"maxiter": np.nan}}, TypeError, "the option maxiter must be a number, got nan"),
        ({"method": "trust-constr", "options": {"a": 1}}, TypeError, "trust-constr has no option 'a'; leave it out"),
        ({"bounds": 5}, TypeError, "bounds must be pairs"),
        ({"bounds": [(0, "a"), (0, 1)]}, ValueError, "bounds must be numbers for 2 variables"),
        ({"bounds": [(np.nan, 1), (0, 1)]}, ValueError, "each lower bound must be at most the upper one"),
        ({"jac": [1]}, ValueError, "jac must be a callable"),
        ({"jac": lambda x: {"a": 1}}, TypeError, "jac must return an array, got dict"),
        ({"jac": lambda x: g(x) + 1j}, TypeError, "jac must return an array, got ndarray"),
        ({"fun": lambda x: {"a": 1}}, TypeError, "fun must return a number, got dict"),
        ({"fun": lambda x: 1j}, TypeError, "fun must return a number, got complex"),
        ({"hess": 5}, TypeError, "hess must be a callable"),
        ({"hessp": 5}, TypeError, "hessp must be a callable"),
        ({"tol": "a"}, TypeError, "tol must be a number"),
        ({"callback": 5}, TypeError, "callback must be a callable, got 5"),
        ({"callback": int}, TypeError, "callback must be a callable, got <class 'int'>"),
        ({"callback": min}, TypeError, "callback must be a function that tells its arguments, got <built-in"),
        ({"callback": lambda: None}, TypeError, r"callback must take \(x\), got a function of \(\)"),
        ({"method": "trust-constr", "callback": lambda x: None}, TypeError, r"callback must take \(x, state\), got"),
        ({"seed": -1}, ValueError, "seed must be at least 0"),
        ({"seed": "a"}, TypeError, "seed must be an integer"),
        ({"method": "Newton-CG", "jac": None}, ValueError, "Newton-CG needs jac"),
        ({"method": "Newton-CG", "jac": "2-point"}, ValueError, "Newton-CG needs jac"),
        ({"method": "trust-constr", "options": {"maxfun": 9}}, ValueError, "trust-constr has no option maxfun"),
        ({"method": "trust-ncg"}, ValueError, "trust-ncg needs hess or hessp"),
        ({"method": "trust-exact", "hessp": f}, ValueError, "trust-exact needs hess;"),
        ({"x0": torch.zeros(2, requires_grad=True)}, TypeError, NO_START),
        ({"x0": "a"}, TypeError, NO_START),
        ({"x0": ["a", "b"]}, TypeError, NO_START),
        ({"x0": None}, TypeError, NO_START),
        ({"x0": [None, 1.0]}, TypeError, NO_START),
        ({"x0": [1j, 1.0]}, TypeError, NO_START),
        ({"x0": [[1.0], [1.0, 2.0]]}, TypeError, NO_START),
        ({"x0": []}, ValueError, "x0 is empty"),
    ],
)
def test_mistakes_are_refused_in_our_own_words(given, error, message):
    with pytest.raises(error, match=message):
        minimize(**({"fun": f, "x0": (1.0, 0.0), "jac": g} | given))


def test_what_scipy_takes_is_taken():
    bounded = minimize(f, (1.0, 0.0), jac=g, bounds=zip([-2, -2], [2, 2], strict=True), constraints=None)
    assert bounded.success
    assert bounded.escapes == 1
    for seed in (np.int64(3), 2**64 - 1):
        assert minimize(f, (1.0, 0.0), jac=g, seed=seed).escapes == 1


@pytest.mark.parametrize("bounds", [None, [(-2, 2), (-2, 2)]])
def test_the_default_method_is_scipys(bounds):
    """A result of BFGS has hess_inv as an array, one of L-BFGS-B as an operator."""
    plain = scipy.optimize.minimize(f, (1.0, 0.5), jac=g, bounds=bounds)
    result = minimize(f, (1.0, 0.5), jac=g, bounds=bounds)
    assert type(result.hess_inv) is type(plain.hess_inv)
    np.testing.assert_array_equal(result.x, plain.x)
