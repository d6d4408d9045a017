"""Each formula of the theorems against numbers worked out by hand.

The setting: d = 100, L1 = 4, L2 = 2, γ = 1/2, δ = 1/10, η = 1/100. Then dL1/(γδ) = 8000, ℓ = ln 8000 = 8.987197,
ℓ² = 80.769707, ℓ³ = 725.893254.
"""

import math

import pytest
import torch

from unsaddle.curvature import neon, neon_plus
from unsaddle.theory import extraction

PROBLEM = {"dimension": 100, "smoothness": 4.0, "gamma": 0.5, "delta": 0.1}
ELL = 8.987196820661973
SCALES = {"step_size": 0.01, "gamma": 0.5, "smoothness": 4.0, "hessian_lipschitz": 2.0, "log_factor": ELL}


def test_log_factor_is_ln_8000():
    assert extraction.log_factor(**PROBLEM) == pytest.approx(ELL, rel=1e-12)


def test_shared_scales():
    # F = 0.01*4*0.125/(4*725.893254) ; P = 0.2*0.5/(2*8.987197) ; r = sqrt(0.01/4)*0.25/(2*80.769707)
    assert extraction.decrease(**SCALES) == pytest.approx(1.7220162853609981e-06, rel=1e-12)
    assert extraction.length_scale(**SCALES) == pytest.approx(0.005563470011588901, rel=1e-12)
    assert extraction.noise_radius(**SCALES) == pytest.approx(7.738049642462251e-05, rel=1e-12)


def test_the_printed_trust_radius_is_a_multiple_of_the_length_scale():
    # U is printed as 4c(sqrt(eta L1) F / L2)^(1/3); the proof uses 4cP.
    cube_root = (math.sqrt(0.01 * 4.0) * extraction.decrease(**SCALES) / 2.0) ** (1.0 / 3.0)
    assert cube_root == pytest.approx(extraction.length_scale(**SCALES), rel=1e-12)


def test_decrease_per_squared_length_is_gamma_over_ell():
    assert extraction.decrease(**SCALES) / extraction.length_scale(**SCALES) ** 2 == pytest.approx(0.5 / ELL, rel=1e-12)


def test_theorem_1():
    # c_max = min(1/72^4, (3/(32*5832))^2) = min(3.72e-8, 2.58e-10)
    assert extraction.neon_max_step(smoothness=4.0, c_hat=0.5) == 1.0 / 2.0**4 / 4.0  # The paper's bound: ĉ < 3/2.
    assert extraction.neon_max_step(smoothness=4.0) == pytest.approx(6.46022331559383e-11, rel=1e-12, abs=0.0)
    # t = 18*8.987197/0.005 = 32353.9
    assert extraction.neon_num_steps(step_size=0.01, **PROBLEM) == 32354
    # U = 4*18*0.00556347
    assert extraction.neon_trust_radius(length_scale=extraction.length_scale(**SCALES)) == pytest.approx(
        0.4005698408344009
    )
    # 0.5/(8*324*8.987197)
    assert extraction.neon_guarantee(gamma=0.5, log_factor=ELL) == pytest.approx(2.1464004674339894e-05)


def test_erratum_20_the_cubic_error_stays_below_the_decrease():
    """Theorem 1 prints √c_max ≤ 1/(4ĉ)², at which L2·U³/6 exceeds 𝓕; with the second bound it does not."""

    def cubic_error_over_decrease(step_size):
        scales = {**SCALES, "step_size": step_size}
        radius = extraction.neon_trust_radius(length_scale=extraction.length_scale(**scales))
        return 2.0 * radius**3 / 6.0 / extraction.decrease(**scales)

    printed = 1.0 / (4.0 * extraction.NEON_C_HAT) ** 4 / 4.0
    assert cubic_error_over_decrease(printed) > 1.0
    assert cubic_error_over_decrease(extraction.neon_max_step(smoothness=4.0)) == pytest.approx(1.0, rel=1e-9)


def test_erratum_4_both_thresholds_follow_from_the_lemma():
    """−3𝓕 + L1r²/2 ≤ −2.5𝓕, so that an iterate that dropped by 3𝓕 passes −2.5𝓕 and a fortiori −2𝓕."""
    assert 4.0 * extraction.noise_radius(**SCALES) ** 2 / 2.0 <= extraction.decrease(**SCALES) / 2.0


def test_theorem_2():
    # 1/(648^2 * 43^6 * 4) = 1/(419904 * 6321363049 * 4)
    assert extraction.neon_plus_max_step(smoothness=4.0) == pytest.approx(9.418446245692402e-17, rel=1e-12, abs=0.0)
    # t = 43*sqrt(8.987197/0.005) = 1823.04
    assert extraction.neon_plus_num_steps(step_size=0.01, **PROBLEM) == 1824
    assert extraction.neon_plus_momentum(step_size=0.01, gamma=0.5) == pytest.approx(0.9292893218813453, rel=1e-12)
    # U = 12*43*0.00556347
    assert extraction.neon_plus_trust_radius(length_scale=extraction.length_scale(**SCALES)) == pytest.approx(
        2.870750525979873
    )
    # 0.929289*sqrt(6*0.01*1.722016e-6)
    threshold = extraction.neon_plus_momentum_threshold(
        momentum=0.9292893218813453, step_size=0.01, decrease=1.7220162853609981e-06
    )
    assert threshold == pytest.approx(0.0002987068618143196, rel=1e-12)
    # 0.5/(72*1849*8.987197)
    assert extraction.neon_plus_guarantee(gamma=0.5, log_factor=ELL) == pytest.approx(4.1790382275621217e-07)


def test_erratum_8_the_printed_number_of_steps_of_neon_plus_is_never_enough():
    eta = extraction.neon_plus_max_step(smoothness=4.0)
    for ell in (2.2, 5.0, 20.0, 50.0):
        needed = extraction.neon_plus_needed_steps(step_size=eta, gamma=0.5, log_factor=ell)
        printed = math.sqrt(43.0 * ell / (eta * 0.5))
        read = 43.0 * math.sqrt(ell / (eta * 0.5))
        assert printed < needed < read
    # (2/sqrt(0.005) + 0.5)*(26.1 + 2.5*8.987197)
    assert extraction.neon_plus_needed_steps(step_size=0.01, gamma=0.5, log_factor=ELL) == pytest.approx(1397.9945906)


@pytest.mark.parametrize("root", [1e-6, 1e-3, 0.1, 0.5])
def test_erratum_33_the_growth_that_the_proof_of_lemma_9_divides_by_is_smaller_than_it_says(root):
    """log(1 + √(ηγ)/2) is printed as at least 2√(ηγ)/3. 1/log(1 + z) ≤ 1/z + 1/2 holds for every z > 0."""
    growth = math.log1p(root / 2.0)
    assert growth < 2.0 * root / 3.0
    assert 1.0 / growth <= (2.0 / root + 0.5) * (1.0 + 1e-12)
    # Nor is the growth of the mode at −γ itself, 1 + 0.618√(ηγ), enough.
    assert math.log1p(0.6181 * root) < 2.0 * root / 3.0


def test_erratum_22_momentum_needs_a_small_step():
    with pytest.raises(ValueError, match=r"sqrt\(step_size \* gamma\) <= 1/2, got 0.707"):
        extraction.neon_plus_momentum(step_size=1.0, gamma=0.5)


def test_erratum_23_the_step_bound_makes_the_proof_constant_one_half():
    """162·ηL2𝓟ĉ·(ĉJ)·2ĉJ = 324ĉ³√(ηL1) must be 1/2 (J² = ℓ/(ηγ)): so √c_max = 1/(648ĉ³), not 1/(624ĉ³)."""
    eta = extraction.neon_plus_max_step(smoothness=4.0)
    scales = {**SCALES, "step_size": eta}
    c_hat_j = 43.0 * math.sqrt(ELL / (eta * 0.5))
    product = 162.0 * eta * 2.0 * extraction.length_scale(**scales) * 43.0 * c_hat_j * 2.0 * c_hat_j
    assert product == pytest.approx(0.5, rel=1e-9)


def test_lemma_2():
    # l' = ln(3*100*4/(0.5*0.1)) = ln 24000 ; s = 1/(516^2*10.085809) ; m = 16*16*ln 6000/(s*0.5)^2
    ell = extraction.sampled_log_factor(**PROBLEM)
    assert ell == pytest.approx(10.085809109330082, rel=1e-12)
    assert extraction.sampling_accuracy(log_factor=ell) == pytest.approx(3.723830053200938e-07, rel=1e-12)
    assert extraction.sample_size(**PROBLEM) == pytest.approx(256 * math.log(6000) / 1.8619150266e-07**2, rel=1e-9)
    assert extraction.sampled_gamma(gamma=0.5, accuracy=3.723830053200938e-07) == pytest.approx(
        0.49999981380849734, rel=1e-14
    )


def test_on_samples_neon_takes_the_third_power_of_gamma_and_neon_plus_two_and_a_half():
    """T_n = m·t but for powers of ℓ and ℓ′ (Lemma 2, the remark after Property 1)."""
    known = {"dimension": 100, "smoothness": 1.0, "delta": 0.1}
    for steps, power, logs in ((extraction.neon_num_steps, 3.0, 1.0), (extraction.neon_plus_num_steps, 2.5, 0.5)):
        scaled = [
            extraction.sample_size(gamma=gamma, **known)
            * steps(step_size=1e-6, gamma=gamma, **known)
            * gamma**power
            / extraction.sampled_log_factor(gamma=gamma, **known) ** 2
            / extraction.log_factor(gamma=gamma, **known) ** logs
            for gamma in (1e-1, 1e-3, 1e-5)
        ]
        assert scaled == pytest.approx([scaled[0]] * 3, rel=1e-3)


def test_erratum_19_the_sample_is_promised_less_than_gamma():
    """λ_min(F_S) ≤ −γ + sγ only, so a run on F_S with γ itself could rightly return nothing."""
    assert extraction.sampled_gamma(gamma=0.5, accuracy=0.25) == 0.375


def test_erratum_19_delta_is_spent_once():
    """2d·exp(−m(sγ)²/(16L1²)) ≤ δ/3 for the sample (Lemma 4), δ/3 for NEON on it; printed ℓ′ leaves NEON 2δ/3."""
    ell = extraction.sampled_log_factor(**PROBLEM)
    within = extraction.sampling_accuracy(log_factor=ell) * 0.5
    of_sample = 2 * 100 * math.exp(-extraction.sample_size(**PROBLEM) * within**2 / (16 * 4.0**2))
    of_neon = 100 * 4.0 / (0.5 * math.exp(ell))  # The δ that log(dL1/(γδ)) = ℓ′ stands for.
    assert of_sample == pytest.approx(0.1 / 3, rel=1e-9)
    assert of_neon == pytest.approx(0.1 / 3, rel=1e-9)
    printed = math.log(3 * 100 * 4.0 / (2 * 0.5 * 0.1))
    assert 100 * 4.0 / (0.5 * math.exp(printed)) == pytest.approx(2 * 0.1 / 3, rel=1e-9)


def test_erratum_19_what_is_left_of_a_direction_on_the_sample():
    """c is what Theorem 2 promises on F_S, at (1 − s)γ and δ/3, less s; and just below the printed c = s."""
    for delta in (0.5, 0.1, 1e-9):
        problem = PROBLEM | {"delta": delta}
        s = extraction.sampling_accuracy(log_factor=extraction.sampled_log_factor(**problem))
        ell = math.log(3 * 100 * 4.0 / ((1 - s) * 0.5 * delta))
        promised = (1 - s) * 0.5 / (72 * 43**2 * ell)
        c = extraction.sampled_fraction(**problem)
        assert -promised + s * 0.5 == pytest.approx(-c * 0.5, rel=1e-9)
        assert (1 - 3 * s) * s < c < s


def test_concentration():
    # 2*9*(1 + 8 ln 10)/0.01 = 34957.2 ; 16*16*ln 2000/0.01 = 194583.1
    assert extraction.gradient_sample_size(eps=0.1, sub_gaussian=3.0, delta=0.1) == 34958
    assert extraction.hessian_sample_size(eps=0.1, smoothness=4.0, dimension=100, delta=0.1) == 194584


def test_second_order_counts():
    # 8 ln 10000 = 73.68 ; 1 + ceil(0.5*ln(27500)*4) = 22 ; 64*ln(1000)^2 = 3053.9
    assert extraction.power_num_steps(**PROBLEM) == 74
    assert extraction.lanczos_num_steps(smoothness=4.0, accuracy=0.25, dimension=100, delta=0.1) == 22
    assert extraction.lanczos_num_steps(smoothness=4.0, accuracy=0.25, dimension=7, delta=0.1) == 7
    assert extraction.oja_num_steps(**PROBLEM) == 3054


def kuczynski_wozniakowski(*, products, width, accuracy, dimension):
    """Their Theorem 4.2: how likely the error of λ_min after so many products is above the accuracy, at most."""
    return 1.648 * math.sqrt(dimension) * math.exp(-math.sqrt(accuracy / width) * (2 * products - 1))


def printed_lanczos(*, smoothness, accuracy, dimension, delta):
    """log(d/δ²)√L1/(2√(2ε)), after eq. (10)."""
    return math.log(dimension / delta**2) * math.sqrt(smoothness) / (2 * math.sqrt(2 * accuracy))


def test_erratum_9_the_printed_lanczos_count_is_that_bound_without_its_constants():
    """At a width of 2·L1 it leaves e^√(ε/2L1)·1.648·δ; ours keeps δ at 4·L1, as two products fewer would not."""
    for d, delta, accuracy in ((1e3, 0.1, 0.01), (1e6, 0.5, 0.3), (1e4, 1e-6, 1e-3)):
        problem = {"accuracy": accuracy, "dimension": int(d)}
        printed = printed_lanczos(smoothness=4.0, delta=delta, **problem)
        left = kuczynski_wozniakowski(products=printed, width=8.0, **problem)
        assert left == pytest.approx(1.648 * math.exp(math.sqrt(accuracy / 8.0)) * delta, rel=1e-9)
        ours = extraction.lanczos_num_steps(smoothness=4.0, delta=delta, **problem)
        assert kuczynski_wozniakowski(products=ours, width=16.0, **problem) <= delta
        assert kuczynski_wozniakowski(products=ours - 2, width=16.0, **problem) > delta


def test_erratum_9_the_printed_lanczos_count_misses_more_often_than_delta():
    """λ_min = −1, 29 others at Chebyshev's nodes in [−½, 1]: three products, the printed count rounded up, see a
    curvature below −½ = λ_min + ε too rarely. Ours are six. The Krylov spaces are formed densely."""
    d, delta, trials = 30, 0.28, 4000
    question = {"smoothness": 1.0, "accuracy": 0.5, "dimension": d, "delta": delta}
    angles = (torch.arange(d - 1, dtype=torch.float64) + 0.5) * math.pi / (d - 1)
    eigenvalues = torch.cat([torch.tensor([-1.0], dtype=torch.float64), 0.25 - 0.75 * angles.cos()])
    starts = torch.randn(trials, d, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def misses(products):
        powers = torch.stack([starts * eigenvalues**k for k in range(products)], dim=2)
        basis = torch.linalg.qr(powers)[0]
        ritz = torch.linalg.eigvalsh(basis.transpose(1, 2) @ (eigenvalues[:, None] * basis))[:, 0]
        return float((ritz > -0.5).double().mean())

    printed, ours = math.ceil(printed_lanczos(**question)), extraction.lanczos_num_steps(**question)
    assert (printed, ours) == (3, 6)
    deviation = math.sqrt(delta * (1 - delta) / trials)
    assert misses(printed) > delta + 4 * deviation
    assert misses(ours) < delta - 4 * deviation


def test_lemma_1():
    # c^3 gamma^3/(3 L2^2) = 0.125*0.125/12 ; 2q^3/(3 L2^2) = 2*0.125/12
    assert extraction.escape_decrease(fraction=0.5, gamma=0.5, hessian_lipschitz=2.0) == pytest.approx(0.015625 / 12.0)
    assert extraction.escape_length(fraction=0.5, gamma=0.5, hessian_lipschitz=2.0) == pytest.approx(0.125)
    assert extraction.measured_escape_decrease(curvature=-0.5, hessian_lipschitz=2.0) == pytest.approx(0.25 / 12.0)
    assert extraction.measured_escape_length(curvature=-0.5, hessian_lipschitz=2.0) == pytest.approx(0.5)


def test_settings_of_theorem_1_are_those_functions():
    settings = neon.theory_settings(hessian_lipschitz=2.0, step_size=0.01, **PROBLEM)
    assert (settings.num_steps, settings.decrease) == (32354, extraction.decrease(**SCALES))
    assert settings.trust_radius == pytest.approx(0.4005698408344009)
    assert settings.target == pytest.approx(2.1464004674339894e-05)
    assert neon.theory_settings(hessian_lipschitz=2.0, **PROBLEM).step_size == extraction.neon_max_step(smoothness=4.0)


def test_settings_of_theorem_2_are_those_functions():
    settings = neon_plus.theory_settings(hessian_lipschitz=2.0, step_size=0.01, **PROBLEM)
    assert (settings.num_steps, settings.decrease) == (1824, extraction.decrease(**SCALES))
    assert (settings.momentum, settings.gamma) == (pytest.approx(0.9292893218813453), 0.5)
    assert settings.trust_radius == pytest.approx(2.870750525979873)
    assert neon_plus.theory_settings(hessian_lipschitz=2.0, **PROBLEM).step_size == extraction.neon_plus_max_step(
        smoothness=4.0
    )
