"""The tests of NEON⁺ as printed, and NCFind (Algorithm 3)."""

import itertools
import math

import pytest
import torch

from tests.curvature.accelerated import at_zero, plus, rng, run
from tests.curvature.quadratics import quadratic, random_symmetric
from unsaddle import Function
from unsaddle.curvature.displaced import DisplacedFunction
from unsaddle.curvature.ncfind import PrintedTests
from unsaddle.curvature.neon_plus import neon_plus
from unsaddle.curvature.result import Status


@pytest.mark.parametrize("seed", range(10))
def test_ncfind_returns_the_last_difference_if_no_momentum_was_large(seed):
    """Identity 5: rq(y − u) ≤ −γ + L2(‖u‖ + ‖y‖); on a quadratic ≤ −γ."""
    hessian = random_symmetric(8, seed, lowest=-1.0, largest=1.0)
    settings = plus(gamma=0.4, momentum=1 - math.sqrt(0.3 * 0.4), num_steps=200, decrease=1e300)
    ys, found = run(at_zero(hessian), settings, seed)
    assert found.status is Status.FOUND
    difference = ys[-1] - ys[-2]
    cosine = found.vector @ difference / (found.vector.norm() * difference.norm())
    assert float(cosine.abs()) == pytest.approx(1.0, abs=1e-9)
    assert float(found.vector @ hessian @ found.vector / (found.vector @ found.vector)) <= -0.4


def test_ncfind_returns_the_first_iterate_whose_momentum_was_large():
    """Algorithm 3 with E7: there exists j; the printed min over j is zero at j = 0 and never reaches the threshold.

    With the r of Theorem 2, the first such y_j also passes f̂ ≤ −2𝓕 and is returned by that; the noise here is larger.
    """
    eta, gamma, decrease = 0.3, 0.05, 1e-3
    settings = plus(gamma=gamma, momentum=1 - math.sqrt(eta * gamma), num_steps=400, decrease=decrease)
    f_hat = at_zero(torch.diag(torch.tensor([-1.0, *[0.3] * 40], dtype=torch.float64)))
    by_ncfind = 0
    for seed in range(60):
        ys, found = run(f_hat, settings, seed)
        normal_exit = torch.allclose(found.vector, ys[-1])
        far = [b for a, b in itertools.pairwise(ys) if float((b - a).norm()) >= math.sqrt(6 * eta * decrease)]
        if not normal_exit:
            assert torch.allclose(found.vector, far[0], rtol=1e-9)
            by_ncfind += 1
    assert by_ncfind >= 5


def test_theory_takes_one_value_a_step_but_the_first_and_practice_none():
    hessian = torch.eye(5, dtype=torch.float64)
    for decrease, values in ((None, 0), (1e300, 24)):
        f = quadratic(hessian).sample()
        f_hat = DisplacedFunction(f, torch.zeros(5, dtype=torch.float64))
        neon_plus(f_hat, plus(num_steps=25, decrease=decrease), rng())
        assert (f.cost.gradients, f.cost.values) == (26, values)


@pytest.mark.parametrize("seed", range(10))
def test_line_4_on_a_quadratic_asks_whether_the_curvature_of_the_difference_is_below_minus_gamma(seed):
    """f̂(y) − f̂(u) − ∇f̂(u)ᵀ(y − u) = ½(y − u)ᵀH(y − u), wherever x is and whatever the slope there."""
    generator = rng(seed)
    slope, x, u, y = (torch.randn(8, generator=generator, dtype=torch.float64) for _ in range(4))
    hessian = random_symmetric(8, seed)
    difference = y - u
    curvature = float(difference @ hessian @ difference / (difference @ difference))
    for gamma, called in ((-curvature - 1e-6, True), (-curvature + 1e-6, False)):
        f_hat = DisplacedFunction(quadratic(hessian, slope).sample(), x)
        tests = PrintedTests(f_hat, gamma=gamma, decrease=1e300, momentum=0.8, step_size=0.3, hessian_lipschitz=0.0)
        tests.test(u, u)
        g, ends, direction = tests.test(u, y)
        assert torch.allclose(g, hessian @ (x + u) + slope)
        assert ends is (Status.FOUND if called else None)
        if direction is not None:
            assert torch.equal(direction, difference)


@pytest.mark.parametrize("offset", [0.0, 1e9])
def test_the_decrease_is_seen_where_values_cancel(offset):
    """f̂(y) = −𝓕 of 1e-4, in float64 under a value of 1e9, whose last digit is 1e-7: gradients at u_0 and u_1 tell."""
    hessian = torch.diag(torch.tensor([-1.0, 1.0], dtype=torch.float64))
    f = Function(lambda x: 0.5 * x @ hessian @ x + offset).sample()
    u0, zeta = torch.tensor([1.4e-2, 0.0], dtype=torch.float64), 0.8
    y1 = 1.3 * u0
    for decrease, ends in ((0.7e-4, True), (1e-4, False)):  # f̂(y_1) = −1.66e-4
        f_hat = DisplacedFunction(f, torch.zeros(2, dtype=torch.float64))
        tests = PrintedTests(f_hat, gamma=1e9, decrease=decrease, momentum=zeta, step_size=0.3, hessian_lipschitz=1.0)
        assert tests.test(u0, u0)[1] is None
        assert (tests.test(y1 + zeta * (y1 - u0), y1)[1] is Status.FOUND) is ends


@pytest.mark.parametrize(("value", "slope"), [(math.inf, 1.0), (-math.inf, 1.0), (1.0, math.inf), (math.nan, 1.0)])
def test_what_is_not_finite_is_not_found(value, slope):
    """Beyond a radius values, or gradients, are no numbers."""

    def cliff(x):
        far = x.norm() > 1.1
        return (torch.tensor(value) if far else -0.5 * x @ x), (torch.full_like(x, slope) if far else -x)

    f_hat = DisplacedFunction(Function(cliff, gradient=True).sample(), torch.zeros(4, dtype=torch.float64))
    found = neon_plus(f_hat, plus(decrease=1e300, num_steps=100), rng())
    assert (found.status, found.vector) == (Status.NOT_FINITE, None)
