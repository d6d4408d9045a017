"""Each constant of Neon2 against numbers worked out by hand.

The setting: d = 100, L1 = 4, L2 = 2, γ = 1/2, δ = 1/10. Then log(100d) = ln 10⁴ = 9.210340, d/δ = 1000 and
ln 1000 = 6.907755.
"""

import math

import pytest

from unsaddle.curvature import neon2_det, neon2_online
from unsaddle.theory import neon2 as theory_neon2
from unsaddle.theory import quadratics
from unsaddle.theory.start import unlucky_component

ONLINE = {"gamma": 0.5, "dimension": 100, "smoothness": 4.0}
DET = {**ONLINE, "delta": 0.1}


def test_online():
    # 0.5/(16·9.210340), and with C0 = 2 a quarter of it
    assert theory_neon2.online_step_size(**ONLINE, c0=1.0) == pytest.approx(0.003392925639, rel=1e-9)
    assert theory_neon2.online_step_size(**ONLINE, c0=2.0) == pytest.approx(0.003392925639 / 4, rel=1e-9)
    # 9.210340/(0.003392926·0.5) = 64·9.210340² = 5429.15, and C0⁴ = 16 times that
    assert theory_neon2.online_num_steps(**ONLINE, c0=1.0) == 5430
    assert theory_neon2.online_num_steps(**ONLINE, c0=2.0) == 86867
    # 10⁻¹²·0.003392926²·0.125/2
    sigma = theory_neon2.online_noise_radius(**ONLINE, hessian_lipschitz=2.0, c0=1.0)
    assert sigma == pytest.approx(7.194965245e-19, rel=1e-9, abs=0.0)
    radius = theory_neon2.online_escape_radius(noise_radius=sigma, dimension=100, c0=1.0)
    assert radius == pytest.approx(1e4 * sigma, rel=1e-9, abs=0.0)
    # 64·ln 10 = 147.4
    assert theory_neon2.online_sample_size(gamma=0.5, delta=0.1, smoothness=4.0) == 148


def test_det():
    # 9·6.907755·√8 = 175.84
    assert theory_neon2.det_num_steps(**DET, c1=3.0) == 176
    # 1000⁻⁶·0.5/(176³·2)
    sigma = theory_neon2.det_noise_radius(**DET, hessian_lipschitz=2.0, c1=3.0)
    assert sigma == pytest.approx(1e-18 * 0.25 / 5451776, rel=1e-12, abs=0.0)
    radius = theory_neon2.det_escape_radius(noise_radius=sigma, delta=0.1, dimension=100, c1=3.0)
    assert radius == pytest.approx(1e9 * sigma, rel=1e-12, abs=0.0)


@pytest.mark.parametrize("gamma", [1.0, 0.1, 1e-3, 1e-6])
@pytest.mark.parametrize("dimension", [3, 100, 10**6])
def test_the_default_of_c1_is_just_enough_on_quadratics(dimension, gamma):
    """cosh(Tθ)√τ ≥ r/σ: the unluckiest start of all but a share δ still reaches r within T. At C1 = 1.5 it does not."""

    def surplus(c1):
        """log of cosh(Tθ)√τ/(r/σ), with cosh(a) ≈ e^a/2."""
        problem = {"gamma": gamma, "delta": 0.01, "dimension": dimension, "smoothness": 1.0}
        steps = theory_neon2.det_num_steps(**problem, c1=c1)
        growth = steps * quadratics.neon2_det_growth(smoothness=1.0, gamma=gamma) - math.log(2.0)
        start = math.log(unlucky_component(dimension=dimension, delta=0.01)) / 2.0
        return growth + start - c1 * math.log(dimension / 0.01)

    assert surplus(theory_neon2.DET_C1) >= 0.0
    assert surplus(1.5) < 0.0


def test_settings_carry_these_constants():
    problem = {**DET, "hessian_lipschitz": 2.0}
    det = neon2_det.theory_settings(**problem, c1=3.0)
    assert (det.num_steps, det.target) == (176, None)
    assert det.escape_radius == pytest.approx(1e9 * det.noise_radius, rel=1e-9, abs=0.0)
    online = neon2_online.theory_settings(**problem, c0=1.0)
    assert (online.steps_a_round, online.num_rounds, online.num_steps) == (5430, 4, 4 * 5430)
    assert (online.batch, online.target, online.random_iterate) == (1, 0.375, True)
    assert online.escape_radius == pytest.approx(1e4 * online.noise_radius)


def test_growth_keeps_its_digits_where_gamma_is_small():
    assert quadratics.neon2_det_growth(smoothness=1.0, gamma=0.8) == pytest.approx(math.acosh(1.2), rel=1e-14)
    # arccosh(1+x) = √(2x)(1 − x/12 + …)
    assert quadratics.neon2_det_growth(smoothness=1.0, gamma=4e-14) == pytest.approx(math.sqrt(2e-14), rel=1e-13)


def test_the_escape_ratio_leaves_six_tenths_of_gamma():
    for kappa in (1.0, 10.0, 1e2, 1e6):
        share = quadratics.neon2_det_escape_ratio(smoothness=kappa, gamma=1.0) ** -2
        assert -0.75 * (1.0 - share) + kappa * share <= -0.617


def test_the_number_of_steps_is_the_first_that_reaches_the_escape_radius():
    kappa = {"smoothness": 1.0, "gamma": 0.01}
    steps = quadratics.neon2_det_num_steps(**kappa, dimension=1000, delta=0.05)
    root = math.sqrt(unlucky_component(dimension=1000, delta=0.05))

    def reached(t):
        return math.cosh(t * quadratics.neon2_det_growth(**kappa)) * root

    ratio = quadratics.neon2_det_escape_ratio(**kappa)
    assert reached(steps - 1) < ratio <= reached(steps)


def test_the_probe_is_within_the_trust_radius_when_the_escape_radius_is_reached():
    """y_t = U_{t−1}(M)ξ is longer than T_t(M)ξ by at most 1/sinh θ, where both are all growth."""
    for gamma in (0.5, 0.1, 1e-3):
        kappa = {"smoothness": 1.0, "gamma": gamma}
        sigma = quadratics.neon2_det_noise_radius(smallest=0.0, trust=1.0, noise=1.0, **kappa)
        longest = sigma * quadratics.neon2_det_escape_ratio(**kappa) / math.sinh(quadratics.neon2_det_growth(**kappa))
        assert longest <= max(1.0, 10.0 * sigma / math.sqrt(gamma / 2.0)) * 1.001
    assert quadratics.neon2_det_noise_radius(smallest=0.3, trust=1.0, noise=1.0, smoothness=1.0, gamma=0.1) == 0.3


def test_online_practice():
    # min(σ√d/δ, U)
    assert quadratics.neon2_online_escape_radius(noise=1e-3, trust=10.0, dimension=100, delta=0.25) == pytest.approx(
        0.04
    )
    assert quadratics.neon2_online_escape_radius(noise=1e-3, trust=0.01, dimension=100, delta=0.25) == 0.01
    steps = quadratics.neon2_online_num_steps(growth=0.01, dimension=100, delta=0.25)
    component = math.sqrt(unlucky_component(dimension=100, delta=0.25))
    assert 1.01 ** (steps - 1) * component < 40.0 <= 1.01**steps * component
