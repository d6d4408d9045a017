"""Soft saddles with a large fall are left, and flat valleys are no saddles: where the function's truth is known."""

import numpy as np
import pytest
import scipy.optimize

from unsaddle.interop.scipy import minimize
from unsaddle.interop.scipy.arguments import METHODS

NEED_HESSIAN = ("trust-ncg", "trust-krylov", "trust-exact")


class SoftSaddle:
    """−ρs²/2 + ρ²s⁴/16 along one direction v, positive curvature between 0.01 and 1 across it.

    The saddle is at x = 1. fun falls by exactly 1 from there, at a distance of 2/√ρ.
    """

    def __init__(self, d, ratio):
        rotation = np.linalg.qr(np.random.default_rng(d).standard_normal((d, d)))[0]
        self.ratio, self.v = ratio, rotation[:, 0]
        self.matrix = rotation * np.r_[-ratio, np.geomspace(1e-2, 1.0, d - 1)[::-1]] @ rotation.T
        across = rotation[:, 1:] @ np.random.default_rng(0).standard_normal(d - 1)
        self.ridge, self.saddle = 1.0 + across, np.ones(d)

    def fun(self, x):
        z = x - 1.0
        return float(z @ self.matrix @ z / 2.0 + self.ratio**2 * (self.v @ z) ** 4 / 16.0)

    def jac(self, x):
        z = x - 1.0
        return self.matrix @ z + self.ratio**2 * (self.v @ z) ** 3 / 4.0 * self.v

    def hess(self, x):
        return self.matrix + 0.75 * self.ratio**2 * (self.v @ (x - 1.0)) ** 2 * np.outer(self.v, self.v)

    def run(self, minimizer, method, x0):
        hess = self.hess if method in NEED_HESSIAN else None
        options = {"maxfun": 1000} if method == "TNC" else None  # Its own bound is 100 here.
        return minimizer(self.fun, x0, method=method, jac=self.jac, hess=hess, options=options)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("ratio", [1e-3, 1e-4])
@pytest.mark.parametrize("d", [2, 5, 9, 10, 20, 50])
def test_a_soft_saddle_with_a_large_fall_is_never_a_success(d, ratio, method):
    f = SoftSaddle(d, ratio)
    for x0 in (f.saddle, f.ridge):
        result = f.run(minimize, method, x0)
        lowest = np.linalg.eigvalsh(f.hess(result.x))[0]
        assert not (result.success and lowest < 0.0), result.message
        assert result.fun < -0.9


def test_without_promotion_soft_saddles_are_successes():
    plain = [SoftSaddle(20, 1e-3).run(scipy.optimize.minimize, m, SoftSaddle(20, 1e-3).ridge) for m in METHODS]
    assert sum(bool(r.success and r.fun > -0.1) for r in plain) >= 8


class FlatValley:
    """z₀² − 5e-10·z₁² + z₁⁴/4 in rotated coordinates z around x = 1. Along the valley fun falls by 2.5e-19."""

    rotation = np.array([[0.8, 0.6], [-0.6, 0.8]])
    bottom = np.ones(2)
    slope = bottom + rotation.T @ np.array([1.0, 0.0])

    def fun(self, x):
        z = self.rotation @ (x - 1.0)
        return float(z[0] ** 2 - 5e-10 * z[1] ** 2 + z[1] ** 4 / 4.0)

    def jac(self, x):
        z = self.rotation @ (x - 1.0)
        return self.rotation.T @ np.array([2.0 * z[0], -1e-9 * z[1] + z[1] ** 3])

    def hess(self, x):
        z = self.rotation @ (x - 1.0)
        return self.rotation.T @ np.diag([2.0, -1e-9 + 3.0 * z[1] ** 2]) @ self.rotation


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")  # Of trust-krylov, where ∇f = 0.
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("start", ["bottom", "slope"])
def test_the_curvature_of_a_flat_valley_is_not_worth_a_step(start, method):
    f = FlatValley()
    assert np.linalg.eigvalsh(f.hess(f.bottom))[0] == pytest.approx(-1e-9)
    hess, x0 = f.hess if method in NEED_HESSIAN else None, getattr(f, start)
    plain = scipy.optimize.minimize(f.fun, x0, method=method, jac=f.jac, hess=hess)
    result = minimize(f.fun, x0, method=method, jac=f.jac, hess=hess)
    assert plain.success
    assert (result.success, result.escapes, result.nit) == (True, 0, plain.nit)
    np.testing.assert_array_equal(result.x, plain.x)


@pytest.mark.parametrize("d", [2, 10, 30, 100])
def test_a_valley_of_many_flat_directions_costs_three_gradients(d):
    """The Hessian has one positive eigenvalue, and rounding makes some of the others negative."""
    a = np.random.default_rng(d).standard_normal(d)
    calls = []

    def jac(x):
        calls.append(1)
        return (a @ x - 1.0) * a

    plain = scipy.optimize.minimize(lambda x: (a @ x - 1.0) ** 2 / 2.0, np.ones(d), jac=jac, method="L-BFGS-B")
    before = len(calls)
    result = minimize(lambda x: (a @ x - 1.0) ** 2 / 2.0, np.ones(d), jac=jac, method="L-BFGS-B")
    assert (result.success, result.verdict.kind, result.escapes) == (True, "minimum", 0)
    assert plain.success
    assert len(calls) - 2 * before == 3


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_plateau_is_undecided(sign):
    """Far out in the tails of two bells, fun is 3 to rounding, and the gradient is exact, negligible, and of no use."""

    def fun(x):
        return 3.0 - float(np.exp(-(x[0] ** 2)) + sign * np.exp(-(x[1] ** 2)))

    def jac(x):
        return 2.0 * x * np.exp(-(x**2)) * np.array([1.0, sign])

    result = minimize(fun, np.array([8.0, 7.0]), jac=jac)
    assert (result.success, result.verdict.kind) == (False, "undecided")
    assert "plateau" in result.message


@pytest.mark.parametrize("method", [m for m in METHODS if m != "trust-exact"])  # That one does not stop there.
def test_a_fall_that_is_near_is_seen_far_from_the_origin(method):
    """z₀² − 5e-4·z₁² + 0.625·z₁⁴ falls by 1e-7 at |z₁| = 0.02, and rises from 0.03 on; x is 141 away from 0."""

    def fun(x):
        z = x - 100.0
        return float(z[0] ** 2 - 5e-4 * z[1] ** 2 + 0.625 * z[1] ** 4)

    def jac(x):
        z = x - 100.0
        return np.array([2.0 * z[0], -1e-3 * z[1] + 2.5 * z[1] ** 3])

    def hess(x):
        return np.diag([2.0, -1e-3 + 7.5 * (x[1] - 100.0) ** 2])

    hess = hess if method in NEED_HESSIAN else None
    result = minimize(fun, np.array([101.0, 100.0]), method=method, jac=jac, hess=hess)
    assert result.escapes == 1 or method == "trust-exact"  # That one leaves it by itself.
    assert result.fun < -0.5e-7  # Its gradient is within SciPy's tolerance before the bottom.
