"""SciPy's conventions, promoted: what `scipy.optimize.minimize` gives, without its saddles."""

import numpy as np
import pytest
import scipy.optimize
from scipy.optimize import OptimizeResult

from unsaddle.interop.scipy import minimize, neon, promotion
from unsaddle.interop.scipy.arguments import METHODS
from unsaddle.interop.scipy.bounded_verdict import verdict_at
from unsaddle.interop.scipy.promotion import BUDGET, NOT_FINITE, STUCK, TOO_MANY_ESCAPES, UNDECIDED

NEED_HESSIAN = ("trust-ncg", "trust-krylov", "trust-exact")


def f(x):
    return x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4


def g(x):
    return np.array([2 * x[0], -2 * x[1] + x[1] ** 3])


def h(x):
    return np.array([[2.0, 0.0], [0.0, -2.0 + 3.0 * x[1] ** 2]])


def both(x):
    return f(x), g(x)


def is_the_minimum(result):
    return result.success and np.allclose(np.abs(result.x), [0.0, np.sqrt(2.0)], atol=1e-3)


def hess_for(method):
    return h if method in NEED_HESSIAN else None


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("x0", [(1.0, 0.0), (0.0, 0.0)], ids=["on the ridge", "at the saddle"])
def test_no_method_ends_at_the_saddle(method, x0):
    result = minimize(f, x0, method=method, jac=g, hess=hess_for(method))
    assert is_the_minimum(result)
    assert result.verdict.kind == "minimum"
    assert result.status in (0, 1, 2)


def test_without_promotion_nine_of_ten_methods_do():
    plain = [scipy.optimize.minimize(f, (1.0, 0.0), method=m, jac=g, hess=hess_for(m)) for m in METHODS]
    assert sum(bool(r.success and np.allclose(r.x, 0.0, atol=1e-6)) for r in plain) == 9


@pytest.mark.parametrize("jac", [None, False, "2-point", "3-point", "cs"])
def test_without_a_gradient_differences_of_values_show_the_saddle_too(jac):
    result = minimize(f, (1.0, 0.0), jac=jac)
    assert is_the_minimum(result)
    assert result.escapes == 1


def test_differences_of_values_widen_the_error_of_what_is_measured():
    exact, by_values = (minimize(lambda x: f(x) + 1.0, (1.0, 0.0), jac=jac).verdict for jac in (g, None))
    assert by_values.evidence.noise > 1e3 * exact.evidence.noise
    assert by_values.resolution > 10.0 * exact.resolution


def test_the_result_is_scipys_with_the_verdict_and_escapes_beside():
    plain = scipy.optimize.minimize(f, (1.0, 0.5), method="L-BFGS-B", jac=g)
    result = minimize(f, (1.0, 0.5), method="L-BFGS-B", jac=g)
    assert isinstance(result, OptimizeResult)
    assert set(result) == set(plain) | {"verdict", "escapes"}
    assert result.escapes == 0
    np.testing.assert_array_equal(result.x, plain.x)
    assert (result.fun, result.message, result.status, result.nit) == (
        plain.fun,
        plain.message,
        plain.status,
        plain.nit,
    )


@pytest.mark.parametrize("method", METHODS)
def test_every_call_is_counted_and_no_other(method):
    calls = {"f": 0, "g": 0}

    def counted(name, fun):
        def call(x):
            calls[name] += 1
            return fun(x)

        return call

    result = minimize(counted("f", f), (1.0, 0.0), method=method, jac=counted("g", g), hess=hess_for(method))
    assert result.njev == calls["g"]
    assert result.nfev == calls["f"]


@pytest.mark.parametrize("method", [m for m in METHODS if m not in (*NEED_HESSIAN, "Newton-CG", "trust-constr")])
@pytest.mark.parametrize("jac", [None, "3-point", "cs"])
@pytest.mark.parametrize("offset", [0.0, 1.0, 100.0])
def test_without_a_gradient_the_saddle_is_left_and_every_value_is_counted(method, jac, offset):
    """SciPy ends 1e-20 from the saddle, where x tells no scale; values of 100 leave seven digits of a gradient."""
    calls = []
    result = minimize(lambda x: calls.append(1) or f(x) + offset, (1.0, 0.0), method=method, jac=jac)
    assert is_the_minimum(result)
    assert result.nfev == len(calls)


def test_with_both_in_one_function_every_call_is_counted_once():
    calls = []
    result = minimize(lambda x: calls.append(1) or both(x), (1.0, 0.0), jac=True)
    assert is_the_minimum(result)
    assert result.nfev == len(calls)


def test_with_a_hessian_a_look_takes_no_gradients():
    plain = scipy.optimize.minimize(f, (0.3, 1.0), method="trust-exact", jac=g, hess=h)
    result = minimize(f, (0.3, 1.0), method="trust-exact", jac=g, hess=h)
    assert (result.njev, result.nhev) == (plain.njev, plain.nhev)
    assert result.nfev == plain.nfev + 4  # Two where SciPy begins, two where it has converged.
    assert (result.verdict.cost.gradients, result.verdict.cost.samples) == (0, 0)
    assert str(result.verdict).endswith(f" {result.verdict.cost.hessian_products} Hessian products")


def test_with_hessian_products_a_look_takes_those():
    products = []

    def hessp(x, p):
        products.append(1)
        return h(x) @ p

    plain = scipy.optimize.minimize(f, (0.3, 1.0), method="trust-ncg", jac=g, hessp=hessp)
    before = len(products)
    result = minimize(f, (0.3, 1.0), method="trust-ncg", jac=g, hessp=hessp)
    assert result.njev == plain.njev
    assert result.nhev - plain.nhev == len(products) - 2 * before > 0


@pytest.mark.parametrize("x0", [[1, 0], (1, 0), np.array([1, 0]), np.array([1.0, 0.0], dtype=np.float32)])
def test_the_start_may_be_a_list_or_of_integers(x0):
    assert is_the_minimum(minimize(f, x0, jac=g))


def test_a_start_that_is_a_number_has_one_dimension():
    result = minimize(lambda x: (x[0] ** 2 - 1.0) ** 2, 0, jac=lambda x: 4.0 * x * (x**2 - 1.0))
    assert result.success
    assert abs(abs(float(result.x[0])) - 1.0) < 1e-4


def test_the_start_is_not_changed():
    x0 = np.array([1.0, 0.0])
    minimize(f, x0, jac=g)
    np.testing.assert_array_equal(x0, [1.0, 0.0])


@pytest.mark.parametrize("args", [(2.0,), 2.0], ids=["tuple", "single"])
def test_extra_arguments_are_handed_on(args):
    result = minimize(lambda x, a: a * f(x), (1.0, 0.0), args=args, jac=lambda x, a: a * g(x))
    assert is_the_minimum(result)


@pytest.mark.parametrize("wrap", [np.atleast_1d, lambda v: np.array([[v]]), np.float32, lambda v: np.array(v)])
def test_fun_may_return_one_element_in_any_shape(wrap):
    assert is_the_minimum(minimize(lambda x: wrap(f(x)), (1.0, 0.0), method="L-BFGS-B", jac=g))


def test_tol_is_scipys():
    coarse, fine = (minimize(f, (1.0, 0.3), method="BFGS", jac=g, tol=tol) for tol in (1e-1, 1e-10))
    assert np.linalg.norm(fine.jac) <= 1e-10 < np.linalg.norm(coarse.jac)


def test_options_are_scipys():
    result = minimize(f, (1.0, 0.3), method="BFGS", jac=g, options={"maxiter": 1})
    assert not result.success
    assert result.nit == 1
    assert result.verdict is None
    with pytest.warns(scipy.optimize.OptimizeWarning, match="Unknown solver options: nonsense"):
        minimize(f, (1.0, 0.0), method="BFGS", jac=g, options={"nonsense": 1})


@pytest.mark.parametrize(("method", "option"), [("BFGS", "maxiter"), ("TNC", "maxfun"), ("CG", "maxiter")])
def test_a_budget_of_none_is_no_budget(method, option):
    result = minimize(f, (1.0, 0.0), method=method, jac=g, options={option: None})
    assert result.success
    assert result.escapes == 1


def test_iterations_of_all_runs_count_against_maxiter():
    result = minimize(f, (1.0, 0.0), method="BFGS", jac=g, options={"maxiter": 4})
    assert result.escapes == 1
    assert not result.success
    assert result.nit == 4


@pytest.mark.parametrize("method", [m for m in METHODS if m != "TNC"])
def test_a_budget_of_nothing_is_scipys(method):
    """TNC calls 0 iterations no limit."""
    how = {"method": method, "jac": g, "hess": hess_for(method), "options": {"maxiter": 0}}
    plain, result = scipy.optimize.minimize(f, (1.0, 0.3), **how), minimize(f, (1.0, 0.3), **how)
    assert not result.success
    assert result.nit == plain.nit
    np.testing.assert_array_equal(result.x, plain.x)


@pytest.mark.parametrize("jac", [g, None])
@pytest.mark.parametrize("method", ["L-BFGS-B", "TNC"])
def test_values_of_searches_count_against_maxfun(method, jac):
    """A run of SciPy's may end a line search or a gradient later. Two values check jac at a start."""
    ends = set()
    for most in (1, 3, 5, 10, 20, 30, 60, 200):
        how = {"method": method, "jac": jac, "options": {"maxfun": most}}
        plain = scipy.optimize.minimize(f, (1.0, 0.0), **how)
        result = minimize(f, (1.0, 0.0), **how)
        assert result.nfev <= max(most, plain.nfev) + 8
        ends.add(True if result.success else result.status)
    assert {True, BUDGET} <= ends


@pytest.mark.parametrize("method", METHODS)
def test_the_callback_sees_every_run(method):
    seen = []
    hess = hess_for(method)
    result = minimize(f, (1.0, 0.0), method=method, jac=g, hess=hess, callback=lambda x, *_: seen.append(np.copy(x)))
    near_saddle = [np.linalg.norm(x) < 0.2 for x in seen]
    near_minimum = [abs(abs(x[1]) - np.sqrt(2.0)) < 0.2 for x in seen]
    assert any(near_minimum)
    assert any(near_saddle) or result.escapes == 0


def test_a_callback_with_an_intermediate_result_is_given_one():
    seen = []

    def callback(intermediate_result):
        seen.append(intermediate_result.fun)

    minimize(f, (1.0, 0.0), method="BFGS", jac=g, callback=callback)
    assert seen[-1] == pytest.approx(-1.0)


def test_a_callback_that_stops_is_obeyed():
    def callback(intermediate_result):
        raise StopIteration

    result = minimize(f, (1.0, 0.3), method="BFGS", jac=g, callback=callback)
    assert not result.success
    assert result.status == 99
    assert result.verdict is None


def test_as_a_custom_method_it_follows_scipys_protocol():
    seen = []
    result = scipy.optimize.minimize(
        lambda x, a: a * f(x),
        [1, 0],
        args=(3.0,),
        jac=lambda x, a: a * g(x),
        method=neon,
        tol=1e-6,
        callback=lambda x: seen.append(x),
        options={"method": "BFGS", "gamma": 0.5, "maxiter": 100},
    )
    assert is_the_minimum(result)
    assert result.verdict.gamma == 0.5
    assert len(seen) > 0
    assert np.linalg.norm(result.jac) <= 1e-6


@pytest.mark.parametrize("jac", [True, None])
def test_as_a_custom_method_it_takes_both_at_once_and_differences(jac):
    result = scipy.optimize.minimize(both if jac else f, [1.0, 0.0], jac=jac, method=neon)
    assert is_the_minimum(result)


@pytest.mark.parametrize("method", [None, "bfgs", "BFGS", "Bfgs"])
def test_methods_are_named_as_in_scipy(method):
    assert is_the_minimum(minimize(f, (1.0, 0.0), method=method, jac=g))


def test_a_curvature_above_minus_gamma_is_let_pass():
    result = minimize(f, (1.0, 0.0), jac=g, gamma=5.0)
    assert result.escapes == 0
    assert result.verdict.kind == "minimum"
    assert result.verdict.gamma == 5.0


def test_the_verdict_does_not_compare_the_gradient_with_itself():
    """SciPy decides what is stationary, by tests that differ between its methods."""
    text = str(minimize(f, (1.0, 0.0), jac=g).verdict)
    assert "  gradient " in text
    assert "counts as zero" not in text


@pytest.mark.parametrize("method", ["BFGS", "CG", "SLSQP"])
def test_where_fun_ends_the_lowest_finite_point_is_returned(method):
    """SciPy itself returns a point where the logarithm is of a negative number."""

    def fun(x):
        return 2.0 * np.log(x[0]) + x[1] ** 2

    with np.errstate(invalid="ignore", divide="ignore"):
        plain = scipy.optimize.minimize(fun, (0.5, 1.0), method=method)
        result = minimize(fun, (0.5, 1.0), method=method)
        assert np.isnan(fun(plain.x))
    assert not result.success
    assert result.fun == fun(result.x) <= fun((0.5, 1.0))
    assert np.isfinite(result.jac).all()
    assert "x is the lowest finite point" in result.message


# No endless loops


def test_a_function_without_a_minimum_ends():
    with np.errstate(all="ignore"):
        result = minimize(lambda x: x[0] ** 2 - x[1] ** 2, (1.0, 0.0), jac=lambda x: np.array([2 * x[0], -2 * x[1]]))
    assert result.escapes <= 100
    assert not (result.success and np.linalg.norm(result.x) < 1.0)


def test_nan_beside_the_saddle_is_reported():
    def broken(fun):
        return lambda x: fun(x) if x[1] == 0.0 else fun(x) * np.nan

    result = minimize(broken(f), (1.0, 0.0), jac=broken(g), check_gradient=False)
    assert not result.success
    assert result.status == UNDECIDED
    assert "NaN or infinite" in result.message


def test_infinite_values_beyond_a_wall_are_not_stepped_into():
    result = minimize(lambda x: f(x) if abs(x[1]) < 1.2 else np.inf, (1.0, 0.0), jac=g)
    assert np.isfinite(result.fun)
    assert abs(result.x[1]) < 1.2
    assert result.escapes == 1


def test_infinity_at_the_start_ends_there_too():
    result = minimize(lambda x: np.inf, (1.0, 0.0), jac=g)
    assert (result.success, result.status, result.nfev) == (False, NOT_FINITE, 1)
    assert "fun is inf at the start" in result.message


@pytest.mark.parametrize("jac", [g, None, True, "3-point"])
def test_nan_at_the_start_ends_at_the_first_evaluation(jac):
    calls = []

    def fun(x):
        calls.append(1)
        return (np.nan, np.full(2, np.nan)) if jac is True else np.nan

    result = minimize(fun, (1.0, 0.0), jac=jac)
    assert len(calls) == result.nfev == 1
    assert not result.success
    assert result.status == NOT_FINITE
    assert "fun is nan at the start" in result.message
    assert result.verdict is None


def test_a_gradient_that_is_not_finite_at_the_start_ends_there():
    result = minimize(f, (1.0, 0.0), jac=lambda x: np.array([1.0, np.inf]))
    assert (result.success, result.status, result.nfev, result.njev) == (False, NOT_FINITE, 1, 1)
    assert "jac is not finite at the start" in result.message


def test_a_jump_along_the_way_down_is_no_success_at_a_saddle():
    """Gradients say saddle; values are higher everywhere else."""
    result = minimize(lambda x: f(x) + 10.0 * (x[1] != 0.0), (1.0, 0.0), jac=g, check_gradient=False)
    assert not result.success
    assert result.status == STUCK
    assert "no value of fun along its direction is lower" in result.message


def test_a_staircase_ends():
    def stairs(x):
        return np.floor(10.0 * f(x)) / 10.0

    assert minimize(stairs, (1.0, 0.3), jac=g, check_gradient=False).nfev < 2000
    with pytest.raises(ValueError, match="component 0 is 2 by jac but 0 by differences"):
        minimize(stairs, (1.0, 0.3), jac=g)


def test_the_number_of_escapes_is_bounded():
    result = minimize(f, (1.0, 0.0), jac=g, max_escapes=0)
    assert not result.success
    assert result.status == TOO_MANY_ESCAPES
    assert ".;" not in result.message
    assert result.verdict.kind == "saddle"


def test_many_saddles_in_a_row_are_all_left():
    """A sum of double wells from the centre: each direction that is found leads down in several variables."""
    d = 12
    scale = np.arange(1.0, d + 1.0)
    result = minimize(
        lambda x: float((scale * (x**2 - 1.0) ** 2).sum()), np.zeros(d), jac=lambda x: scale * 4.0 * x * (x**2 - 1.0)
    )
    assert result.success
    np.testing.assert_allclose(np.abs(result.x), 1.0, atol=1e-3)
    assert result.escapes >= 1


def test_of_a_periodic_function_the_nearest_minimum_is_found():
    result = minimize(lambda x: np.cos(x).sum(), np.zeros(1), jac=lambda x: -np.sin(x))
    assert abs(result.x[0]) == pytest.approx(np.pi, abs=1e-4)


@pytest.mark.parametrize(("x0", "suspicious"), [((1.0, 0.3), [False]), ((1.0, 0.0), [True, True])])
def test_a_point_is_suspicious_if_fun_did_not_fall_or_a_saddle_was_left(x0, suspicious, monkeypatch):
    """fun falls from 0.16 to −0.67: their sum is negative, their difference is not."""
    seen = []

    def noted(end, **how):
        seen.append(end.suspicious)
        return verdict_at(end, **how)

    monkeypatch.setattr(promotion, "verdict_at", noted)
    found = minimize(lambda x: 0.25 * (x[0] - 1.0) ** 2 + x[1] ** 4 - 2.0 * x[1] ** 2 + 0.33, x0, method="BFGS")
    assert found.fun == pytest.approx(-0.67)
    assert seen == suspicious
