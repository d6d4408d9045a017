"""The look after SciPy: what it costs, and when it gives way to the long one."""

import numpy as np
import pytest
import scipy.optimize

from unsaddle.interop.scipy import minimize


@pytest.mark.parametrize(("sign", "kind"), [(1.0, "minimum"), (-1.0, "saddle")])
def test_a_function_that_moves_in_small_steps_is_looked_at_from_farther_away(sign, kind):
    """Steps of 1e-9 are invisible to a shift by some roundings of x: gradients seem exact, and probes are too short."""
    scale = np.linspace(1.0, 2.0, 20)
    scale[0] *= sign

    def stepped(x):
        return np.round((x - 1.0) / 1e-9) * 1e-9

    x0 = np.full(20, 1.5)
    x0[0] = 1.0
    result = minimize(
        lambda x: float((scale * stepped(x) ** 2).sum() / 2.0), x0, jac=lambda x: scale * stepped(x), max_escapes=0
    )
    assert result.verdict.kind == kind
    assert result.verdict.resolution > 1e-7


def spectrum(eigenvalues):
    """A quadratic with a rotated Hessian, its gradient, and how often that was asked."""
    d = len(eigenvalues)
    rotation = np.linalg.qr(np.random.default_rng(0).standard_normal((d, d)))[0]
    matrix = rotation * eigenvalues @ rotation.T
    calls = []

    def jac(x):
        calls.append(1)
        return matrix @ (x - 1.0)

    return lambda x: float((x - 1.0) @ matrix @ (x - 1.0) / 2.0), jac, calls


@pytest.mark.parametrize(("distinct", "gradients"), [(1, 2), (2, 3), (3, 4), (4, 4), (6, 6)])
def test_at_a_minimum_a_look_takes_a_gradient_for_each_eigenvalue_and_one_more_if_there_are_few(distinct, gradients):
    fun, jac, calls = spectrum(np.repeat(np.arange(1.0, distinct + 1.0), 60 // distinct))
    plain = scipy.optimize.minimize(fun, np.zeros(60), jac=jac, method="BFGS")
    before = len(calls)
    result = minimize(fun, np.zeros(60), jac=jac, method="BFGS")
    assert result.success
    assert len(calls) - 2 * before == result.njev - plain.njev == gradients


@pytest.mark.parametrize("lowest", [-1.0, -0.1, -0.011])
@pytest.mark.parametrize("seed", range(5))
def test_no_strict_saddle_is_missed(lowest, seed):
    """δ = 0.05 is for a start that hides a curvature of just −γ; of 15 fixed ones none does."""
    fun, jac, _ = spectrum(np.r_[lowest, np.linspace(0.05, 1.0, 59)])
    result = minimize(fun, np.ones(60), jac=jac, seed=seed, max_escapes=0)
    assert result.verdict.kind == "saddle"
    assert result.verdict.curvature == pytest.approx(lowest, rel=0.1)


@pytest.mark.slow
def test_among_few_variables_no_start_is_unlucky():
    """On a plane, one random start in twenty lies so near to an axis that it seems to be the only one."""
    for angle in np.linspace(0.0, np.pi, 40, endpoint=False):
        v = np.array([np.cos(angle), np.sin(angle)])
        matrix = np.eye(2) - 1.1 * np.outer(v, v)
        for seed in range(5):
            result = minimize(
                lambda x, m=matrix: float(x @ m @ x / 2.0),
                np.zeros(2),
                jac=lambda x, m=matrix: m @ x,
                seed=seed,
                max_escapes=0,
            )
            assert result.verdict.kind == "saddle"


@pytest.mark.parametrize(
    ("fun", "jac"),
    [
        (lambda x: np.abs(x).sum(), np.sign),
        (lambda x: (np.abs(x) ** 1.5).sum(), lambda x: 1.5 * np.sign(x) * np.sqrt(np.abs(x))),
    ],
    ids=["kink", "power 3/2"],
)
@pytest.mark.parametrize("d", [1, 2, 3, 30])
def test_where_gradients_do_not_add_up_to_a_hessian_it_is_undecided(fun, jac, d):
    result = minimize(fun, np.zeros(d), jac=jac, check_gradient=False)
    assert result.verdict is None or result.verdict.kind == "undecided"
    assert not result.success


def test_noise_in_gradients_gives_way_to_probes_that_are_long_enough():
    generator = np.random.default_rng(0)

    def jac(x):
        return x + 1e-6 * generator.standard_normal(x.size)

    result = minimize(lambda x: float(x @ x / 2.0), np.zeros(20), jac=jac, check_gradient=False, tol=1e-3)
    assert result.verdict.kind == "minimum"
    assert result.verdict.curvature == pytest.approx(1.0, abs=0.01)
    assert result.verdict.resolution > 1e-3


@pytest.mark.parametrize("offset", [1e4, 1e6])
def test_what_coarse_values_hide_is_undecided_and_the_reason_names_them(offset):
    result = minimize(lambda x: x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4 + offset, [1.0, 0.0], method="BFGS")
    assert (result.success, result.verdict.kind) == (False, "undecided")
    assert "Gradients are differences of fun here, off by up to" in result.verdict.reason


def flat_saddle(x):
    """Its Hessian at 0 is zero along y. There fun falls at fourth order, to a minimum at y² = 2/3."""
    return x[0] ** 2 - x[1] ** 4 + x[1] ** 6


def slope_of_flat_saddle(x):
    return np.array([2.0 * x[0], -4.0 * x[1] ** 3 + 6.0 * x[1] ** 5])


@pytest.mark.parametrize("jac", [slope_of_flat_saddle, None], ids=["jac", "differences"])
@pytest.mark.parametrize("method", ["BFGS", "CG", "L-BFGS-B", "SLSQP"])
def test_a_point_that_is_flat_to_second_order_is_left_if_fun_falls_from_it(method, jac):
    result = minimize(flat_saddle, [1.0, 0.0], jac=jac, method=method)
    assert result.success
    assert result.verdict.kind == "minimum"
    assert result.escapes == 1
    assert abs(result.x) == pytest.approx([0.0, np.sqrt(2.0 / 3.0)], abs=1e-3)


@pytest.mark.parametrize("bounds", [[(-1, 1), (-0.5, 0.5)], [(-1, 1), (0, 0.5)]], ids=["inside", "at a bound"])
def test_within_bounds_it_is_left_as_far_as_they_allow(bounds):
    result = minimize(flat_saddle, [1.0, 0.0], jac=slope_of_flat_saddle, bounds=bounds)
    assert result.success
    assert abs(result.x) == pytest.approx([0.0, 0.5], abs=1e-6)


def test_the_message_says_that_it_is_flat_and_that_fun_falls():
    result = minimize(flat_saddle, [1.0, 0.0], jac=slope_of_flat_saddle, max_escapes=0)
    assert not result.success
    assert "fun falls along a direction where its curvature is zero" in result.message
    assert result.verdict.kind == "undecided"
    assert "the curvature is zero, but F falls both ways" in result.verdict.reason


def test_a_fall_within_the_tolerance_is_a_success_that_is_told():
    result = minimize(flat_saddle, [1.0, 0.0], jac=slope_of_flat_saddle, tol=0.5)
    assert result.success
    assert result.escapes == 0
    assert "There fun falls by 0.15" in result.message
    assert "within the tolerance" in result.message


def test_with_a_gamma_a_flat_direction_is_accepted_as_any_curvature_above_it():
    result = minimize(flat_saddle, [1.0, 0.0], jac=slope_of_flat_saddle, gamma=0.1)
    assert result.success
    assert result.x == pytest.approx([0.0, 0.0], abs=1e-6)


@pytest.mark.parametrize("power", [4, 6])
def test_a_flat_minimum_costs_at_most_ten_values(power):
    """Along the flat direction fun rises: that is seen on each side at the first length where it does not drown."""

    def jac(x):
        return np.array([2.0 * x[0], power * x[1] ** (power - 1)])

    plain = scipy.optimize.minimize(lambda x: x[0] ** 2 + x[1] ** power, [1.0, 0.0], jac=jac)
    result = minimize(lambda x: x[0] ** 2 + x[1] ** power, [1.0, 0.0], jac=jac, check_gradient=False)
    assert result.success
    assert result.verdict.kind == "minimum"
    assert 0 < result.nfev - plain.nfev <= 10
