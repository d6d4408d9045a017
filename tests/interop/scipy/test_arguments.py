"""What `minimize` refuses, and how it says so."""

import numpy as np
import pytest
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
