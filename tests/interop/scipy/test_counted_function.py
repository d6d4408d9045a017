"""fun, jac, hess and hessp: what SciPy is given, what is counted, and what is remembered."""

import numpy as np
import pytest

from unsaddle.interop.scipy.counted_function import REMEMBERED, CountedFunction

X = np.array([1.0, 2.0])


def f(x):
    return float(x @ x)


def g(x):
    return 2.0 * x


def function(fun=f, jac=g, **others):
    return CountedFunction(fun, jac, (), np.full(2, -np.inf), np.full(2, np.inf), **others)


@pytest.mark.parametrize("jac", [None, False, "2-point", "3-point", "cs"])
def test_differences_are_asked_of_scipy_in_its_users_words(jac):
    """To some of its methods None and "2-point" are not the same."""
    assert function(jac=jac).for_scipy()["jac"] is jac


@pytest.mark.parametrize(("jac", "values"), [("2-point", 3), ("3-point", 4), ("cs", 2)])
def test_values_of_differences_count(jac, values):
    counted = function(lambda x: x @ x, jac)
    np.testing.assert_allclose(counted.gradient(X), 2.0 * X, rtol=1e-6)
    assert (counted.nfev, counted.njev) == (values, 1)


@pytest.mark.parametrize(("fun", "jac", "values"), [(f, g, 0), (lambda x: (f(x), g(x)), True, 1)], ids=["jac", "both"])
def test_the_last_gradients_are_remembered_and_nobody_can_change_them(fun, jac, values):
    counted = function(fun, jac)
    for i in range(REMEMBERED):
        counted.gradient(X + i).fill(np.nan)
    for i in range(REMEMBERED):
        np.testing.assert_array_equal(counted.gradient(X + i), 2.0 * (X + i))
    assert (counted.nfev, counted.njev) == (values * REMEMBERED, REMEMBERED)
    counted.gradient(X - 1.0)
    counted.gradient(X)
    assert counted.njev == REMEMBERED + 2


def test_what_was_evaluated_at_the_start_is_given_to_scipy_once():
    counted = function()
    assert counted.begin(X)[0] == f(X)
    given = counted.for_scipy()
    given["fun"](X), given["jac"](X)
    assert (counted.nfev, counted.njev) == (1, 1)
    given["fun"](X)
    assert counted.nfev == 2


def test_a_hessian_that_scipy_has_just_evaluated_is_taken_from_there():
    counted = function(hess=lambda x: 2.0 * np.eye(2))
    counted.for_scipy()["hess"](X)
    np.testing.assert_array_equal(counted.products(X)(X), 2.0 * X)
    assert counted.nhev == 0
    counted.products(2.0 * X)
    assert counted.nhev == 1


def test_products_count_one_by_one():
    counted = function(hessp=lambda x, p: 2.0 * p)
    product = counted.products(X)
    np.testing.assert_array_equal(product(X) + product(X), 4.0 * X)
    assert counted.nhev == 2
    assert function().products(X) is None


def test_what_is_no_function_or_gradient_is_refused():
    with pytest.raises(TypeError, match="fun must be callable, got int"):
        function(3)
    with pytest.raises(ValueError, match="jac must be a callable, True, None, '2-point', '3-point' or 'cs', got 'x'"):
        function(jac="x")


@pytest.mark.parametrize("wrong", ["fun", "jac", "hess", "hessp"])
def test_an_error_of_the_users_own_code_comes_through_with_a_note_of_what_it_was_called_with(wrong):
    def broken(x, *others):
        return x[2]

    called = function(**{"fun": f, "jac": g, wrong: broken})
    ask = {"fun": called.value, "jac": called.gradient}.get(wrong, lambda x: called.products(x)(x))
    with pytest.raises(IndexError) as raised:
        ask(X)
    assert f"your own {wrong}, which was called with float64 of shape (2,)" in raised.value.__notes__[0]
