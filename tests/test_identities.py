"""Identities of NEON and of the algorithms around it (SM, SCSG, Neon2, Zhang and Li), as plain recurrences.

The mathematics that later files rest on, and the errata that change it, stated independently of any implementation.
"""

import itertools
import math

import numpy as np
import pytest
import torch

from tests.curvature.plain_algorithms import nc_find, neon, neon_plus
from tests.curvature.quadratics import random_symmetric
from unsaddle import Function
from unsaddle.curvature.displaced import DisplacedFunction
from unsaddle.escape import steps as escape
from unsaddle.theory import extraction


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def stochastic_momentum(grad, x0, eta, beta, s, steps, sign=+1.0):
    """Algorithm 5: (x_τ, x⁺_τ, ∇f(x_τ)) for τ = 0, …; `sign` is that of sη∇f in p_τ, + by E10."""
    x, xs, plus = x0, x0, x0
    rows = []
    for _ in range(steps):
        g = grad(x)
        rows.append((x, plus, g))
        xs_new = x - s * eta * g
        x_new = x - eta * g + beta * (xs_new - xs)
        plus = x_new + beta / (1 - beta) * (x_new - x + sign * s * eta * g)
        x, xs = x_new, xs_new
    return rows


def quartic_gradient(x):
    return x**3 - x + 0.3 * x.roll(1)


X0 = torch.linspace(-1.0, 1.5, 7, dtype=torch.float64)


@pytest.mark.parametrize("s", [0.0, 1.0, 10.0])  # heavy ball, Nesterov, SGD at β = 0.9
def test_momentum_hides_plain_descent_with_step_eta_over_one_minus_beta(s):
    """Identity 1: x⁺_{τ+1} = x⁺_τ − η/(1−β)·∇f(x_τ) for every s."""
    eta, beta = 0.01, 0.9
    rows = stochastic_momentum(quartic_gradient, X0, eta, beta, s, 30)
    for (_, plus, g), (_, plus_next, _) in itertools.pairwise(rows):
        assert torch.allclose(plus_next, plus - eta / (1 - beta) * g, rtol=0.0, atol=1e-13)


@pytest.mark.parametrize("s", [1.0, 10.0])
def test_erratum_10_the_printed_minus_breaks_that_recursion(s):
    rows = stochastic_momentum(quartic_gradient, X0, 0.01, 0.9, s, 5, sign=-1.0)
    (_, plus, g), (_, plus_next, _) = rows[1], rows[2]
    assert (plus_next - (plus - 0.1 * g)).norm() > 1e-3


def test_errata_10_and_11_the_end_of_the_interval_is_plain_sgd():
    """s = 1/(1−β) has p = 0, so that x = x⁺: SGD with step η/(1−β). It belongs to the interval."""
    for x, plus, _ in stochastic_momentum(quartic_gradient, X0, 0.01, 0.9, 10.0, 30):
        assert torch.allclose(x, plus, rtol=0.0, atol=1e-13)


def test_neon2_det_is_a_chebyshev_polynomial_of_the_shifted_hessian():
    """Identity 6: y_{t+1} = 2M(y_t) − y_{t−1} and x_{t+1} = y_{t+1} − M(y_t) give x_{t+1} = T_t(M)ξ."""
    hessian, L1, delta = random_symmetric(8, 0, lowest=-0.5, largest=1.0), 1.0, 0.5
    m = -hessian / L1 + (1 - 3 * delta / (4 * L1)) * torch.eye(8, dtype=torch.float64)
    eigenvalues, q = torch.linalg.eigh(m)
    xi = torch.randn(8, generator=rng(), dtype=torch.float64)
    y_before, y = torch.zeros_like(xi), xi
    for t in range(1, 25):
        y_before, y = y, 2 * m @ y - y_before
        x = y - m @ y_before
        inside = torch.cos(t * torch.arccos(eigenvalues.clamp(-1, 1)))
        chebyshev = torch.where(eigenvalues.abs() <= 1, inside, torch.cosh(t * torch.arccosh(eigenvalues.clamp_min(1))))
        expected = q @ (chebyshev * (q.T @ xi))
        assert (x - expected).norm() <= 1e-10 * expected.norm()


def test_neon2_det_maps_what_is_above_minus_three_quarters_delta_into_the_bounded_interval():
    L1, delta = 1.0, 0.2

    def shifted(eigenvalue):
        return -eigenvalue / L1 + 1 - 3 * delta / (4 * L1)

    assert all(-1 <= shifted(e) <= 1 for e in (-0.75 * delta, 0.0, 0.5, L1))
    growth = math.acosh(shifted(-delta))
    assert growth >= math.sqrt(delta / (2 * L1)) * 0.99


def scsg_length(anchor, batch, generator):
    """Geometric on {0, 1, …} with P(N = k) = (B/(B+b))^k·b/(B+b), as E13 reads it, by inversion."""
    uniform = float(torch.rand((), generator=generator, dtype=torch.float64))
    return int(math.log(uniform) / math.log(anchor / (anchor + batch)))


@pytest.mark.parametrize(("anchor", "batch"), [(100, 1), (64, 8)])
def test_an_scsg_epoch_has_length_b_over_b_on_average(anchor, batch):
    """Identity 7, and E14: with 2b gradients a step, an epoch costs 3|S1| on average, not 2|S1|."""
    generator = rng()
    lengths = [scsg_length(anchor, batch, generator) for _ in range(20_000)]
    mean = sum(lengths) / len(lengths)
    # The standard deviation of N is at most B/b + 1/2: four standard errors.
    assert mean == pytest.approx(anchor / batch, abs=4 * (anchor / batch + 1) / math.sqrt(20_000))
    cost = sum(anchor + 2 * batch * n for n in lengths) / len(lengths)
    assert cost == pytest.approx(3 * anchor, rel=0.03)
    assert min(lengths) == 0


def test_an_scsg_epoch_on_everything_with_single_samples_is_svrg():
    """Identity 7: B = n, b = 1. The same samples give the same iterates, of whatever length the epoch is."""
    generator = rng(3)
    rows = torch.randn(12, 4, generator=generator, dtype=torch.float64)

    def grad(x, i):
        return (rows[i] @ x).cos().unsqueeze(-1) * rows[i] if i.ndim else (rows[i] @ x).cos() * rows[i]

    def full(x):
        return grad(x, torch.arange(12)).mean(0)

    order = torch.randint(12, (30,), generator=generator)
    scsg = svrg = x0 = torch.ones(4, dtype=torch.float64)
    h = full(x0)  # ∇F_{S1} at the input x, S1 = everything (E13)
    for i in order:
        scsg = scsg - 0.05 * (grad(scsg, i) - grad(x0, i) + h)
        svrg = svrg - 0.05 * (grad(svrg, i) - (grad(x0, i) - full(x0)))
    assert torch.allclose(scsg, svrg, rtol=1e-13)


def test_the_negative_curvature_step_moves_from_an_exact_saddle_and_lowers_f_as_lemma_1_says():
    """Identity 8, and E29: f = ½xᵀHx + (L2/6)Σ|x_i|³ at 0, where ∇f = 0 and sign(0) must be 1."""
    gamma, L2, fraction = 0.6, 2.0, 0.5
    hessian = torch.diag(torch.tensor([1.0, 0.3, -gamma], dtype=torch.float64))

    def f(x):
        return float(0.5 * x @ hessian @ x + L2 / 6 * x.abs().pow(3).sum())

    x, v = torch.zeros(3, dtype=torch.float64), torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
    length = extraction.escape_length(fraction=fraction, gamma=gamma, hessian_lipschitz=L2)
    stepped = escape.against_gradient(x, v, torch.zeros_like(x), length)
    assert f(stepped) <= -extraction.escape_decrease(fraction=fraction, gamma=gamma, hessian_lipschitz=L2)
    best = escape.against_gradient(
        x, v, torch.zeros_like(x), extraction.measured_escape_length(curvature=-gamma, hessian_lipschitz=L2)
    )
    assert f(best) == pytest.approx(-extraction.measured_escape_decrease(curvature=-gamma, hessian_lipschitz=L2))


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e3])
def test_renormalised_neon_is_normalised_power_iteration_whatever_the_length_of_its_start(scale):
    """Identity 9 (Zhang and Li): y ← y − (‖y‖/(L1·r))(∇f(x + r·y/‖y‖) − ∇f(x))."""
    hessian, L1, r = random_symmetric(10, 2), 2.0, 1e-2
    start = torch.randn(10, generator=rng(), dtype=torch.float64)
    y, power = scale * start, start / start.norm()
    for _ in range(40):
        y = y - y.norm() / (L1 * r) * (hessian @ (r * y / y.norm()))
        power = power - hessian @ power / L1
        power = power / power.norm()
        assert torch.allclose(y / y.norm(), power, rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("u", [0.3, 1.0, 2.0])
def test_erratum_5_the_cubic_error_of_f_hat_is_a_sixth_of_L2(u):
    """f̂(u) ≥ ½uᵀ∇²f(x)u − L2‖u‖³/6, and no smaller constant will do: f = −L2|x|³/6 at 0 attains it."""
    L2, x = 3.0, torch.zeros(1, dtype=torch.float64)
    f = Function(lambda x: -L2 / 6 * x.abs().pow(3).sum()).sample(hessian=True)
    f_hat = DisplacedFunction(f, x)
    step = torch.full_like(x, u)
    value = float(f.value(x + step)) - f_hat.value0 - float(f_hat.grad0 @ step)
    assert value == pytest.approx(0.5 * float(step @ f.hvp(x, step)) - L2 / 6 * u**3)


@pytest.mark.parametrize("u", [0.3, 1.0, 2.0])
def test_the_trapezoidal_rule_for_f_hat_is_off_by_at_most_a_twelfth_of_L2(u):
    """|f̂(u) − ½uᵀ∇f̂(u)| ≤ L2‖u‖³/12, attained by f = L2|x|³/6 at 0."""
    L2, x = 3.0, torch.zeros(1, dtype=torch.float64)
    f = Function(lambda x: L2 / 6 * x.abs().pow(3).sum()).sample()
    step = torch.full_like(x, u)
    trapezoid = 0.5 * float(step @ DisplacedFunction(f, x).grad(step))
    assert abs(float(f.value(step)) - trapezoid) == pytest.approx(L2 * u**3 / 12)


def test_erratum_16_the_constant_of_theorem_3():
    """With C = c³/(12L2²) both cases of the proof decrease by Cγ³/2; with the printed c³/(6L2²) the second does not."""
    c, gamma, L2 = 0.3, 0.5, 2.0
    gain = c**3 * gamma**3 / (12 * L2**2)

    def second_case(C):
        return C * gamma**3 / 2 - gain

    right, printed = c**3 / (12 * L2**2), c**3 / (6 * L2**2)
    assert second_case(right) <= -right * gamma**3 / 2 + 1e-18
    assert second_case(printed) > -printed * gamma**3 / 2


def test_erratum_21_the_energy_inequality_has_one_plus_eta_gamma():
    """(1 + ηγ)ζ² ≤ ζ ≤ 1 at ζ = 1 − √(ηγ), √(ηγ) ≤ ½, which is what the last line of the inequality uses."""
    for root in (0.5, 0.3, 0.1, 1e-3):
        zeta = 1 - root
        assert 1 - (1 + root**2) * zeta**2 >= 1 - zeta


H = random_symmetric(8, 5, lowest=-1.0, largest=2.0).numpy()
SLOPE, POINT, NOISE = (np.random.default_rng(seed).normal(size=8) for seed in range(3))


def quadratic_with_slope(x):
    return 0.5 * x @ H @ x + SLOPE @ x


def its_gradient(x):
    return H @ x + SLOPE


def rayleigh(v):
    return v @ H @ v / (v @ v)


@pytest.mark.parametrize(("trust_radius", "last"), [(math.inf, 12), (6.0, 9), (1.0, None)])
def test_plain_neon_on_a_quadratic_is_the_last_power_iterate_within_the_radius(trust_radius, last):
    """Identity 2: u_τ = (I − ηH)^τ u_0 whatever ∇f(x) is; f̂ falls in τ, so that the last within U is lowest."""
    settings = {"t": 12, "decrease": 1e-9, "trust_radius": trust_radius, "step_size": 0.3}
    u = neon(quadratic_with_slope, its_gradient, POINT, NOISE, **settings)
    expected = np.zeros(8) if last is None else np.linalg.matrix_power(np.eye(8) - 0.3 * H, last) @ NOISE
    np.testing.assert_allclose(u, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(
    ("changes", "expected", "how"),
    [
        ({"decrease": 31.25}, lambda ys, us: ys[7] - us[7], "ncfind y-u"),  # ζ√(6η𝓕) = 6, and no momentum is so long.
        ({"decrease": 1.953125}, lambda ys, us: ys[5], "ncfind y_j"),  # 3/2, which is above ‖y_1 − u_1‖.
        ({"t": 6}, lambda ys, us: ys[6], "best"),
        ({"t": 6, "trust_radius": 1.0}, lambda ys, us: np.zeros(8), "nothing"),
    ],
)
def test_plain_neon_plus_on_a_quadratic_is_a_linear_recurrence_with_four_exits(changes, expected, how):
    """u_{τ+1} = (I − ηH)((1+ζ)u_τ − ζu_{τ−1}), after u_1 = (1+ζ)(I − ηH)u_0 − ζu_0, and y_{τ+1} = (I − ηH)u_τ.

    Line 4 holds at τ just if y_τ − u_τ has curvature below −γ: here first at τ = 7.
    """
    eta, zeta, gamma = 0.3, 0.8, 0.995
    M = np.eye(8) - eta * H
    us = [NOISE, (1 + zeta) * M @ NOISE - zeta * NOISE]
    while len(us) < 8:
        us.append(M @ ((1 + zeta) * us[-1] - zeta * us[-2]))
    ys = [NOISE, *(M @ u for u in us[:-1])]
    assert [rayleigh(y - u) < -gamma for y, u in zip(ys[1:], us[1:], strict=True)] == [False] * 6 + [True]
    settings = {"t": 7, "decrease": 1e-9, "trust_radius": math.inf} | changes
    found, exit_taken = neon_plus(
        quadratic_with_slope, its_gradient, POINT, NOISE, momentum=zeta, step_size=eta, gamma=gamma, **settings
    )
    assert exit_taken == how
    np.testing.assert_allclose(found, expected(ys, us), rtol=1e-11, atol=1e-12)


def test_plain_neon_and_neon_plus_accept_at_equality_and_ncfind_is_called_below_it():
    """In one dimension with dyadic numbers, where float64 is exact."""
    one, origin = np.ones(1), np.zeros(1)

    def first(c, decrease, t=1):
        """η = ¼ on f = −cx²/2 from u_0 = 1: u_1 = 1 + c/4 and f̂ = −c·u_1²/2."""
        common = {"t": t, "decrease": decrease, "trust_radius": 1 + c / 4, "step_size": 0.25}
        concave = (lambda x: -0.5 * c * float(x @ x)), (lambda x: -c * x), origin, one
        return neon(*concave, **common), neon_plus(*concave, **common, momentum=0.5, gamma=c)

    plain, _ = first(5.0, 2.25**2)
    assert plain == 2.25
    plain, _ = first(5.0, math.nextafter(2.25**2, math.inf))
    assert plain == 0.0
    _, (plus, how) = first(4.0, 4.0, t=3)  # The curvature is −γ, never below it: line 4 is strict.
    assert (plus, how) == (2.0, "best")
    _, (plus, how) = first(4.0, math.nextafter(4.0, math.inf), t=3)
    assert (plus, how) == (0.0, "nothing")
    plain, (plus, how) = first(4.0, 0.25, t=0)  # u_0 would do, but is not among u_1, …, u_t.
    assert (plain, plus, how) == (0.0, 0.0, "nothing")


@pytest.mark.parametrize(("trust_radius", "returns"), [(1.089, False), (1.111, True)])
def test_plain_neon_returns_what_bounds_the_curvature_and_nothing_less(trust_radius, returns):
    """Identity 5: with f̂(u) ≤ −5𝓕/2 and ‖u‖ ≤ U, uᵀ∇²f(x)u/‖u‖² ≤ −5𝓕/U² + L2·U/3.

    f = x²/2 − L2|x|³/6 attains it at 0. Its curvature there is 1, and 𝓕 is such that U = 1.1 is the least that allows
    it. Descent from 0.9 passes there in steps below 0.01.
    """
    L2, decrease = 3.0, (1.1 - 1.0) * 1.1**2 / 5
    assert (-5 * decrease / trust_radius**2 + L2 * trust_radius / 3 >= 1.0) == returns
    u = neon(
        lambda x: float((x**2 / 2 - L2 / 6 * abs(x) ** 3).sum()),
        lambda x: x - L2 / 2 * abs(x) * x,
        np.zeros(1),
        np.array([0.9]),
        t=80,
        decrease=decrease,
        trust_radius=trust_radius,
        step_size=0.01,
    )
    assert u.any() == returns


def test_plain_neon_and_neon_plus_find_nothing_on_a_convex_quadratic_however_small_the_decrease():
    scales = np.array([0.0, 0.5, 1.0, 2.0])
    convex = (lambda x: 0.5 * float(x @ (scales * x))), (lambda x: scales * x), np.zeros(4), NOISE[:4]
    common = {"t": 50, "decrease": math.ulp(0.0), "trust_radius": math.inf, "step_size": 0.3}
    assert not neon(*convex, **common).any()
    plus, how = neon_plus(*convex, **common, momentum=0.7, gamma=0.1)
    assert (plus.any(), how) == (False, "nothing")


@pytest.mark.parametrize(("momenta", "expected"), [([0.0, 1.0, 1.5, 2.0], 12.0), ([0.0, 1.0, 1.4], 1.4)])
def test_plain_ncfind_takes_the_first_momentum_that_reaches_its_threshold(momenta, expected):
    """ζ√(6η𝓕) = 3/2 here, and y_j = 10 + j."""
    ys = [np.array([10.0 + j]) for j in range(len(momenta))]
    us = [y - momentum for y, momentum in zip(ys, momenta, strict=True)]
    assert nc_find(ys, us, momentum=0.5, step_size=0.25, decrease=6.0) == pytest.approx(expected)
