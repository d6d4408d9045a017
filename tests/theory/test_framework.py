"""Each constant of Theorem 3, Corollaries 1 to 3, SVRG and Natasha1.5 against numbers worked out by hand, and the
inequalities that the proofs need of them on random constants.

The setting: L1 = 4, L2 = 2, c = 1/2, γ = 1/2, ε = 1/10, δ = 1/10, V = 3.
"""

import math
import random

import pytest

from unsaddle.theory import extraction, framework

L1, L2, FRACTION, GAMMA, EPS, VARIANCE = 4.0, 2.0, 0.5, 0.5, 0.1, 3.0
C = 1.0 / 384.0  # 0.125/(12*4)


def draws(count=200):
    """Random constants, each over several orders of magnitude."""
    for seed in range(count):
        rng = random.Random(seed)
        yield lambda low, high, rng=rng: math.exp(rng.uniform(math.log(low), math.log(high)))


# --- Theorem 3 ------------------------------------------------------------------------------------------------------


def test_first_order_test():
    # 8*9*(1 + 8 ln 10)/0.01 = 72*19.4206807/0.01 = 139828.9
    assert framework.first_order_sample_size(eps=EPS, sub_gaussian=3.0, delta=0.1) == 139829
    assert framework.first_order_target(eps=EPS) == 0.05
    assert framework.first_order_guarantee(eps=EPS) == pytest.approx(0.15)


def test_erratum_18_the_test_switches_between_the_target_and_the_guarantee():
    """Within an error of ε/2, what fails has ‖∇F‖ > ε/2 and what passes ‖∇F‖ ≤ 3ε/2; both ends are reached."""
    target, guarantee = framework.first_order_target(eps=EPS), framework.first_order_guarantee(eps=EPS)
    failing, passing = [], []
    for norm in (0.01 * EPS * k for k in range(301)):
        for error in (-EPS / 2, 0.0, EPS / 2):
            (passing if norm + error <= EPS else failing).append(norm)
    assert target < min(failing) <= target + 0.02 * EPS
    assert guarantee - 0.02 * EPS <= max(passing) <= guarantee + 1e-12


def test_theorem_3():
    # 0.25/(2*4.25) = 0.0294118
    assert framework.escape_failure_probability(fraction=FRACTION, gamma=GAMMA, smoothness=L1) == pytest.approx(1 / 34)
    # 0.125/(12*4) = 0.125/48
    assert framework.escape_constant(fraction=FRACTION, hessian_lipschitz=L2) == pytest.approx(C, rel=1e-14)
    # C*0.125/2 = 1/6144 = 0.000162760
    theta = framework.outer_decrease(method_decrease=0.01, gamma=GAMMA, escape_constant=C)
    assert theta == pytest.approx(1.0 / 6144.0, rel=1e-14)
    assert framework.outer_decrease(method_decrease=1e-4, gamma=GAMMA, escape_constant=C) == 1e-4
    # log2(10) = 3.32: 4 blocks of 2*5*6144 = 61440; with B = 7, of 2*12*6144 = 147456
    assert framework.num_outer_iterations(gap=5.0, outer_decrease=2.0**-11 / 3.0, delta=0.1) == 4 * 61440
    assert framework.num_outer_iterations(gap=5.0, outer_decrease=2.0**-11 / 3.0, delta=0.1, magnitude=7.0) == 589824
    # 5/(0.25*0.125) = 160
    assert framework.num_outer_iterations_from_start(gap=5.0, outer_decrease=0.25, delta=0.125) == 160


def test_a_probability_of_failure_outside_zero_and_one_is_refused():
    with pytest.raises(ValueError, match="delta must be between 0 and 1, got 2"):
        framework.num_outer_iterations(gap=1.0, outer_decrease=1.0, delta=2.0)
    with pytest.raises(ValueError, match="delta must be between 0 and 1, got 0"):
        framework.num_outer_iterations_from_start(gap=1.0, outer_decrease=1.0, delta=0.0)


def test_an_extractor_that_fails_that_rarely_has_half_its_curvature_in_expectation():
    for draw in draws():
        c, gamma, smoothness = draw(1e-7, 1.0), draw(1e-3, 1.0), draw(1.0, 1e3)
        q = framework.escape_failure_probability(fraction=c, gamma=gamma, smoothness=smoothness)
        assert -c * gamma * (1 - q) + smoothness * q <= -c * gamma / 2 * (1 - 1e-12)


def test_an_extraction_in_neon_a_fails_that_rarely_at_its_own_c():
    """δ ≤ cγ/(2(cγ + L1)), where c is Lemma 2's at the very δ that is returned; and not far below that."""
    for draw in draws():
        gamma, dimension, delta = draw(1e-3, 1.0), round(draw(1.0, 1e8)), draw(1e-12, 0.99)
        smoothness = gamma * draw(1.0, 1e4)
        question = {"gamma": gamma, "smoothness": smoothness, "dimension": dimension}
        taken = framework.extraction_failure_probability(delta=delta, **question)
        c = extraction.sampled_fraction(delta=taken, **question)
        largest = framework.escape_failure_probability(fraction=c, gamma=gamma, smoothness=smoothness)
        assert taken <= min(delta, largest)
        assert taken == delta or taken >= largest / 2


def test_erratum_16_the_escape_pays_for_what_the_method_may_lose():
    """Cγ³/2 − c³γ³/(12·L2²) ≤ −Cγ³/2; at the printed c³/(6·L2²) nothing is left."""
    for draw in draws():
        c, gamma, lipschitz = draw(1e-7, 1.0), draw(1e-3, 1.0), draw(1e-3, 1e3)
        length = extraction.escape_length(fraction=c, gamma=gamma, hessian_lipschitz=lipschitz)
        expected = -(length**2) * c * gamma / 4 + lipschitz * length**3 / 6
        constant = framework.escape_constant(fraction=c, hessian_lipschitz=lipschitz)
        assert expected == pytest.approx(-constant * gamma**3, rel=1e-9, abs=0.0)
        assert constant * gamma**3 / 2 + expected <= -constant * gamma**3 / 2 * (1 - 1e-9)
        assert 2 * constant * gamma**3 / 2 + expected >= -1e-9 * constant * gamma**3


def test_blocks_that_fail_half_of_the_time_need_a_logarithm_to_base_2():
    """⌈log₂(1/δ)⌉ failures have probability at most δ; ⌈ln(1/δ)⌉, as one may read the proof, more than δ."""
    for delta in (0.1, 0.01, 1e-4, 1e-8):
        blocks = framework.num_outer_iterations(gap=0.5, outer_decrease=1.0, delta=delta)
        assert 0.5**blocks <= delta < 0.5 ** math.ceil(math.log(1 / delta))


def test_walks_that_gain_theta_until_they_succeed_need_no_bound_on_the_value():
    """θ·Σ_k Pr(no success by k) ≤ F(x_1) − F*, whatever F* is: B = 0 in the number of outer iterations.

    Two walks. All or nothing: F jumps to F* with probability θ/Δ, or stays. Split: F jumps to F* with probability
    1 − q, or up to a gap of Δ/q, and then falls by θ a step, which lasts for Δ/(qθ) steps: 2Δ/θ is tight at q = 1/2.
    """
    for draw in draws():
        gap, theta = draw(1e-1, 1e3), draw(1e-4, 1e-3)
        steps = framework.num_outer_iterations(gap=gap, outer_decrease=theta, delta=0.5)
        assert (1 - theta / gap) ** steps <= 0.5
        assert all(gap / (q * theta) < steps for q in (0.51, 0.7, 1.0))
        assert gap / (0.49 * theta) > steps


# --- Corollary 1 ----------------------------------------------------------------------------------------------------

SM = {"momentum": 0.5, "smoothness": L1}
D = 72.0


def test_corollary_1():
    # heavy ball: 4*0.25*1*9/0.125 + 4*9/0.5 = 72 + 72 ; Nesterov: 4*0.25*0.25*9/0.125 + 72 = 18 + 72 ; SGD: 72
    assert framework.momentum_noise_scale(variant=0.0, second_moment=9.0, **SM) == pytest.approx(144.0)
    assert framework.momentum_noise_scale(variant=1.0, second_moment=9.0, **SM) == pytest.approx(90.0)
    assert framework.momentum_noise_scale(variant=2.0, second_moment=9.0, **SM) == pytest.approx(D)
    # min(0.01/432, 0.5/8) = min(2.3148e-5, 0.0625) ; at D = 1e-3 min(0.01/0.006, 0.0625)
    eta = framework.momentum_step_size(eps=EPS, noise_scale=D, **SM)
    assert eta == pytest.approx(2.3148148148148147e-05, rel=1e-12)
    assert framework.momentum_step_size(eps=EPS, noise_scale=1e-3, **SM) == 0.0625
    assert framework.momentum_step_size(eps=EPS, noise_scale=0.0, **SM) == 0.0625
    # 0.001^(2/3) = 0.01
    assert framework.momentum_min_gamma(eps=1e-3) == pytest.approx(0.01)
    # 1.5*64 = 96, 1.51*64 = 96.64 ; 24*72*(1/384)*0.5*256 = 2.25*256 = 576 ; 2.25*0.125/0.0001 = 2812.5
    assert framework.momentum_min_steps(eps=0.125, steps_constant=1.5) == 96
    assert framework.momentum_min_steps(eps=0.125, steps_constant=1.51) == 97
    limits = {"momentum": 0.5, "noise_scale": D, "escape_constant": C}
    assert framework.momentum_max_steps(eps=0.0625, **limits) == 576
    assert framework.momentum_max_steps(eps=EPS, gamma=GAMMA, **limits) == 2812
    # sqrt(2*0.5*(1/384)*0.125/(3*72*200)) = sqrt((1/3072)/43200) = sqrt(1/132710400) = 1/11520
    bound = framework.momentum_max_step_size(num_steps=200, gamma=GAMMA, **limits)
    assert bound == pytest.approx(1 / 11520, rel=1e-12)
    # 3*(1/43200)^2*150*72/2 = 16200/43200^2
    run = {"step_size": eta, "num_steps": 150, "momentum": 0.5, "noise_scale": D}
    assert framework.momentum_increase(**run) == pytest.approx(8.680555555555556e-06, rel=1e-12)
    # (150/43200)*(0.01 - 0.005)/2 = 0.75/86400, and printed: C' eps^2/(48*72*0.5) = 0.015/1728
    assert framework.momentum_decrease(eps=EPS, **run) == pytest.approx(8.680555555555556e-06, rel=1e-12)
    assert framework.momentum_decrease(eps=EPS, **run) == pytest.approx(0.015 / 1728)


def test_erratum_11_the_interval_of_variants_is_closed():
    for beta in (0.0, 0.3, 0.7, 0.9, 0.99):
        for variant in (0.0, 1.0, 1.0 / (1.0 - beta)):
            framework.momentum_noise_scale(momentum=beta, variant=variant, smoothness=L1, second_moment=9.0)
    framework.momentum_noise_scale(momentum=0.7, variant=10 / 3, smoothness=L1, second_moment=9.0)  # one rounding above
    for variant in (-0.1, 2.1):
        with pytest.raises(ValueError, match=r"variant must be between 0 and 1/\(1 - momentum\) = 2, got"):
            framework.momentum_noise_scale(variant=variant, second_moment=9.0, **SM)


def test_momentum_outside_zero_and_one_is_refused():
    for beta in (-0.1, 1.0, 1.5):
        with pytest.raises(ValueError, match="momentum must be at least 0 and below 1, got"):
            framework.momentum_step_size(eps=EPS, momentum=beta, smoothness=L1, noise_scale=D)


def random_sm(draw):
    beta = 1 - draw(0.01, 0.99)
    variant = draw(0.01, 1.0) / (1 - beta)
    smoothness, second_moment = draw(0.1, 100), draw(0.01, 100)
    scale = framework.momentum_noise_scale(
        momentum=beta, variant=variant, smoothness=smoothness, second_moment=second_moment
    )
    return beta, variant, smoothness, second_moment, scale


def test_the_noise_scale_is_what_the_recursion_of_the_momentum_gives():
    """‖∇F(x⁺) − ∇F(x)‖² ≤ L1²E‖p‖², p = β/(1−β)·v, v ← βv + ((1−β)s − 1)ηg: (L1·η²/(1−β))(D − L1σ²/(1−β)), ≤ Dη/2."""
    for draw in draws():
        beta, variant, smoothness, second_moment, scale = random_sm(draw)
        eta = framework.momentum_step_size(eps=draw(1e-3, 1), momentum=beta, smoothness=smoothness, noise_scale=scale)
        v = ((1 - beta) * variant - 1) * eta * math.sqrt(second_moment) / (1 - beta)  # all g alike: the worst case
        p = beta / (1 - beta) * v
        claimed = smoothness * eta**2 / (1 - beta) * (scale - smoothness * second_moment / (1 - beta))
        assert (smoothness * p) ** 2 == pytest.approx(claimed, rel=1e-6, abs=1e-9 * scale * eta)
        assert claimed <= scale * eta / 2 * (1 + 1e-9)


def test_the_largest_step_binds_only_above_every_gradient():
    for draw in draws():
        beta, _, smoothness, second_moment, scale = random_sm(draw)
        eps = math.sqrt(3 * second_moment) * draw(1e-3, 1.0)
        eta = framework.momentum_step_size(eps=eps, momentum=beta, smoothness=smoothness, noise_scale=scale)
        assert eta == pytest.approx(eps**2 / (6 * scale), rel=1e-12, abs=0.0)


def test_corollary_1_meets_property_1_on_its_range_of_steps():
    """C′ = 24DC(1−β) is the largest C′ with lower ≤ upper, for any γ; γ ≥ ε^{2/3} turns Cε²/2 into Cγ³/2."""
    for draw in draws():
        beta, _, _, _, scale = random_sm(draw)
        constant = draw(1e-6, 1.0)
        most = 24 * scale * constant * (1 - beta)
        eps = math.sqrt(most) * draw(1e-3, 0.1)
        gamma = framework.momentum_min_gamma(eps=eps) * draw(1.0, 10.0)
        limits = {"momentum": beta, "noise_scale": scale, "escape_constant": constant}
        upper = framework.momentum_max_steps(eps=eps, **limits)
        lower = framework.momentum_min_steps(eps=eps, steps_constant=0.9 * most)
        assert lower <= upper <= framework.momentum_max_steps(eps=eps, gamma=gamma * (1 + 1e-9), **limits)
        assert framework.momentum_min_steps(eps=eps, steps_constant=1.1 * most) > upper
        run = {"step_size": eps**2 / (6 * scale), "momentum": beta, "noise_scale": scale}
        for steps in (lower, upper):
            lost = framework.momentum_increase(num_steps=steps, **run)
            assert lost <= constant * eps**2 / 2 * (1 + 1e-9) <= constant * gamma**3 / 2 * (1 + 1e-8)
        printed = 0.9 * most * eps**2 / (48 * scale * (1 - beta))
        assert framework.momentum_decrease(eps=eps, num_steps=lower, **run) >= printed * (1 - 1e-9)


def test_where_no_number_of_steps_is_admissible_a_smaller_step_size_is():
    limits = {"momentum": 0.5, "noise_scale": D, "escape_constant": 1e-20}
    # 24*72*1e-20*0.5/0.01
    with pytest.raises(ValueError, match=r"at most 8.64e-16, so none will do.*momentum_max_step_size\(num_steps=1"):
        framework.momentum_max_steps(eps=EPS, **limits)
    eta = framework.momentum_max_step_size(num_steps=1, gamma=GAMMA, **limits)
    lost = framework.momentum_increase(step_size=eta, num_steps=1, momentum=0.5, noise_scale=D)
    assert lost == pytest.approx(1e-20 * GAMMA**3 / 2, rel=1e-9, abs=0.0)
    assert framework.momentum_decrease(eps=EPS, step_size=eta, num_steps=1, momentum=0.5, noise_scale=D) > 0


def test_a_step_too_large_to_gain_anything_is_refused():
    with pytest.raises(
        ValueError, match=r"step_size must be below eps\^2/\(3\*noise_scale\) = 4.62963e-05, got 0.0001"
    ):
        framework.momentum_decrease(eps=EPS, step_size=1e-4, num_steps=10, momentum=0.5, noise_scale=D)


# --- Corollary 2 ----------------------------------------------------------------------------------------------------


def test_corollary_2():
    # 2*3/0.0625 = 96 ; 0.0625/16
    assert framework.msgd_sample_size(eps=0.25, variance=VARIANCE) == 96
    assert framework.msgd_sample_size(eps=0.25, variance=0.0) == 1
    assert framework.msgd_decrease(eps=0.25, smoothness=L1) == 0.00390625


def test_a_gradient_step_on_that_many_samples_gains_that_much():
    """−‖∇F‖²/(2·L1) + V/(2·L1·|S1|) ≤ −ε²/(4·L1) for ‖∇F‖ ≥ ε."""
    for draw in draws():
        eps, variance, smoothness = draw(1e-3, 1.0), draw(1e-3, 1e3), draw(0.1, 100)
        size = framework.msgd_sample_size(eps=eps, variance=variance)
        change = (variance / size - (eps * draw(1.0, 2.0)) ** 2) / (2 * smoothness)
        assert change <= -framework.msgd_decrease(eps=eps, smoothness=smoothness) * (1 - 1e-9)


# --- Corollary 3 ----------------------------------------------------------------------------------------------------


def test_corollary_3():
    # (1/24)*(64)^(-2/3) = 1/384 ; 8/520 ; 5*4*6*(1/64)^(1/3) = 30 ; 18/512
    sizes = {"anchor_size": 512, "batch_size": 8}
    assert framework.scsg_step_size(smoothness=L1, **sizes) == pytest.approx(1 / 384)
    assert framework.scsg_step_size(smoothness=L1, step_fraction=0.1, **sizes) == pytest.approx(1 / 640)
    assert framework.scsg_stop_probability(**sizes) == pytest.approx(8 / 520)
    assert framework.scsg_expected_samples(anchor_size=512) == 1536
    assert framework.scsg_gain_weight(smoothness=L1, **sizes) == pytest.approx(30.0)
    assert framework.scsg_noise_floor(anchor_size=512, variance=VARIANCE) == 0.03515625
    assert framework.scsg_noise_floor(anchor_size=512, variance=VARIANCE, population=513) == 0.03515625
    assert framework.scsg_noise_floor(anchor_size=512, variance=VARIANCE, population=512) == 0.0
    # (0.0625 - 0.03515625)/30 ; on everything 0.0625/30
    gain = {"eps": 0.25, "smoothness": L1, "variance": VARIANCE, **sizes}
    assert framework.scsg_decrease(**gain) == pytest.approx(0.02734375 / 30)
    assert framework.scsg_decrease(population=512, **gain) == pytest.approx(0.0625 / 30)
    # (1/6)*(12*18*0.0625/4)^(1/3)/40 = 3.375^(1/3)/240 = 1.5/240
    least = framework.scsg_least_decrease(eps=0.5, batch_size=4, smoothness=L1, variance=18.0)
    assert least == pytest.approx(0.00625, rel=1e-12)


def test_corollary_3_size_of_the_anchor():
    base = {"gamma": 0.25, "batch_size": 4, "variance": 5.0, "smoothness": L1, "step_fraction": 0.125}
    # 12*5/0.0625 = 960 against (12*5*0.125/(5*0.375*4))^1.5 * 4^4.5 / 2 = 1*512/2 = 256 and 8*4 = 32
    assert framework.scsg_anchor_size(eps=0.25, escape_constant=0.375, **base) == 960
    # eps = 1: 60, so gamma decides
    assert framework.scsg_anchor_size(eps=1.0, escape_constant=0.375, **base) == 256
    # C = 37.5: 256/1000 ; eps = 2: 15 ; so 8b decides
    assert framework.scsg_anchor_size(eps=2.0, escape_constant=37.5, **base) == 32
    assert framework.scsg_anchor_size(eps=0.25, escape_constant=0.375, population=100, **base) == 100
    with pytest.raises(ValueError, match="batch_size must be at most population/8 = 3, got 4"):
        framework.scsg_anchor_size(eps=0.25, escape_constant=0.375, population=30, **base)


def test_erratum_13_what_the_bound_of_scsg_is_not_proved_for_is_refused():
    with pytest.raises(ValueError, match=r"anchor_size must be at least 8\*batch_size = 16, got 15"):
        framework.scsg_step_size(anchor_size=15, batch_size=2, smoothness=L1)
    for fraction in (0.0, 0.17):
        with pytest.raises(ValueError, match="step_fraction must be above 0 and at most 1/6"):
            framework.scsg_gain_weight(anchor_size=16, batch_size=2, smoothness=L1, step_fraction=fraction)
    with pytest.raises(ValueError, match=r"anchor_size must be above 6V/eps\^2 = 288, got 64"):
        framework.scsg_decrease(eps=0.25, anchor_size=64, batch_size=8, smoothness=L1, variance=VARIANCE)


def scsg_proof_constants(ratio, batch, fraction):
    """(A, E) with E‖∇F(x_N)‖² ≤ A·(L1/c′)(b/B)^{1/3}·E[F(x) − F(x_N)] + E·V/B, from the proof's three recursions.

    At L1 = 1, β = b/B, e = ∇F_{S1}(x) − ∇F(x), X = E‖x_N − x‖², G = E‖∇F(x_N)‖², N geometric:
    descent   η(1−η)G + η⟨e, ∇F⟩ ≤ β(F(x) − F(x_N)) + η²X/(2b) + η²‖e‖²
    distance  (β − η²/b)X ≤ −2η⟨∇F, x_N−x⟩ − 2η⟨e, x_N−x⟩ + 2η²(G + ‖e‖²)
    inner     β⟨e, x_N−x⟩ = −η⟨e, ∇F⟩ − η‖e‖²
    Together η(1−η−β)G ≤ β(F(x) − F(x_N)) − KX − β⟨∇F, x_N−x⟩ + η(1+η+β)‖e‖², and −β⟨∇F, ·⟩ ≤ KX + β²G/(4K).
    """
    beta = 1 / ratio
    eta = fraction * beta ** (2 / 3)
    k = beta**2 / (2 * eta) - beta * eta / (2 * batch) - eta**2 / (2 * batch)
    kept = 1 - eta - beta - beta**2 / (4 * k * eta)
    return 1 / kept, (1 + eta + beta) / kept


def test_the_bound_of_scsg_holds_with_5_and_6_down_to_anchors_of_eight_batches():
    gain, noise = scsg_proof_constants(8.0, 1, 1 / 6)
    assert 0 < gain < 5
    assert 0 < noise < 6
    for draw in draws(1000):
        ratio, batch, fraction = draw(8.0, 1e6), round(draw(1, 1e4)), draw(1e-4, 1 / 6)
        a, e = scsg_proof_constants(ratio, batch, fraction)
        assert 0 < a <= gain
        assert 0 < e <= noise
    assert scsg_proof_constants(2.0, 1, 1 / 6)[0] < 0  # With anchors of two batches, the proof bounds nothing.


def test_corollary_3_meets_property_1():
    for draw in draws():
        eps, gamma, variance, smoothness = draw(1e-3, 1.0), draw(1e-2, 1.0), draw(1e-2, 1e2), draw(0.1, 100)
        constant, fraction, batch = draw(1e-6, 1.0), draw(1e-3, 1 / 6), round(draw(1, 100))
        size = framework.scsg_anchor_size(
            eps=eps,
            gamma=gamma,
            batch_size=batch,
            variance=variance,
            smoothness=smoothness,
            escape_constant=constant,
            step_fraction=fraction,
        )
        shared = {"batch_size": batch, "smoothness": smoothness, "step_fraction": fraction}
        weight = framework.scsg_gain_weight(anchor_size=size, **shared)
        floor = framework.scsg_noise_floor(anchor_size=size, variance=variance)
        assert floor / weight <= constant * gamma**3 / 2 * (1 + 1e-9)  # E15: γ³, not γ
        least = framework.scsg_least_decrease(eps=eps, variance=variance, **shared)
        assert framework.scsg_decrease(eps=eps, anchor_size=size, variance=variance, **shared) >= least * (1 - 1e-9)


# --- The rates of Table 1 -------------------------------------------------------------------------------------------


def exponent(samples):
    """−d log(samples)/d log ε, between ε = 1e-8 and 1e-9."""
    return math.log10(samples(1e-9) / samples(1e-8))


def outer(decrease, gamma):
    theta = framework.outer_decrease(method_decrease=decrease, gamma=gamma, escape_constant=1.0)
    return framework.num_outer_iterations(gap=1.0, outer_decrease=theta, delta=0.1)


@pytest.mark.parametrize(
    ("gamma", "batch", "rate"), [(1 / 2, 1 / 2, 3.5), (4 / 9, 0.0, 10 / 3)], ids=["sqrt", "four ninths"]
)
def test_neon_scsg_has_the_rate_of_table_1(gamma, batch, rate):
    def samples(eps):
        g, b = eps**gamma, math.ceil(eps**-batch)
        size = framework.scsg_anchor_size(
            eps=eps, gamma=g, batch_size=b, variance=1.0, smoothness=1.0, escape_constant=1.0
        )
        decrease = framework.scsg_decrease(eps=eps, anchor_size=size, batch_size=b, smoothness=1.0, variance=1.0)
        check = framework.first_order_sample_size(eps=eps, sub_gaussian=1.0, delta=0.1)
        return outer(decrease, g) * (check + framework.scsg_expected_samples(anchor_size=size))

    assert exponent(samples) == pytest.approx(rate, abs=0.02)


def test_neon_msgd_and_neon_sm_need_the_fourth_power():
    def msgd(eps):
        decrease = framework.msgd_decrease(eps=eps, smoothness=1.0)
        return outer(decrease, math.sqrt(eps)) * framework.msgd_sample_size(eps=eps, variance=1.0)

    def sm(eps):
        limits = {"momentum": 0.9, "noise_scale": 10.0}
        steps = framework.momentum_max_steps(eps=eps, escape_constant=1.0, **limits)
        eta = framework.momentum_step_size(eps=eps, smoothness=1.0, **limits)
        decrease = framework.momentum_decrease(eps=eps, step_size=eta, num_steps=steps, **limits)
        return outer(decrease, math.sqrt(eps)) * steps

    assert exponent(msgd) == pytest.approx(4.0, abs=0.02)
    assert exponent(sm) == pytest.approx(4.0, abs=0.02)


# --- SVRG and Natasha1.5 --------------------------------------------------------------------------------------------


def test_svrg():
    # 0.25*4/(4*100) ; 1000/(3*4*0.25) = 333.3 ; 333*4*0.01/(40*4*100)
    assert framework.svrg_step_size(population=1000, batch_size=4, smoothness=L1) == pytest.approx(0.0025)
    assert framework.svrg_num_steps(population=1000, batch_size=4) == 333
    decrease = framework.svrg_decrease(eps=EPS, population=1000, batch_size=4, num_steps=333, smoothness=L1)
    assert decrease == pytest.approx(8.325e-4)
    assert framework.svrg_step_size(population=1000, batch_size=100, smoothness=L1) == pytest.approx(0.0625)
    with pytest.raises(ValueError, match=r"batch_size must be at most population\^\(2/3\) = 100, got 101"):
        framework.svrg_step_size(population=1000, batch_size=101, smoothness=L1)
    assert framework.svrg_num_steps(population=1, batch_size=1, step_fraction=0.9) == 1


@pytest.mark.parametrize("n", [1, 2, 10, 100, 1000, 100_000])
@pytest.mark.parametrize("power", [0.0, 1 / 3, 2 / 3])
def test_the_recursion_of_svrg_gives_more_than_its_rate(n, power):
    """c_t = c_{t+1}(1 + ηβ + 2η²L1²/b) + η²L1³/b from c_m = 0, β = L1/n^{1/3}; Γ_t = η − c_{t+1}(η/β + 2η²) − η²L1."""
    b = max(1, math.floor(n**power + 1e-9))
    eta = framework.svrg_step_size(population=n, batch_size=b, smoothness=L1)
    beta, c, least = L1 / n ** (1 / 3), 0.0, math.inf
    for _ in range(framework.svrg_num_steps(population=n, batch_size=b)):
        least = min(least, eta - c * (eta / beta + 2 * eta**2) - eta**2 * L1)
        c = c * (1 + eta * beta + 2 * (eta * L1) ** 2 / b) + eta**2 * L1**3 / b
    assert least * L1 * n ** (2 / 3) / b >= 0.16 > framework.SVRG_RATE


def test_natasha():
    # eps L1/sqrt(V) = 0.1*4/2 = 0.2
    shared = {"eps": EPS, "smoothness": L1, "variance": 4.0}
    assert framework.natasha_convexity(sigma=0.1, **shared) == pytest.approx(0.2)
    assert framework.natasha_convexity(sigma=1.6, **shared) == 1.6
    assert framework.natasha_convexity(sigma=9.0, **shared) == L1
    assert framework.natasha_convexity(sigma=0.1, eps=EPS, smoothness=L1, variance=0.0) == L1
    # 4/0.0625 = 64 ; (1.6^2*4/0.16)^(1/3) = 64^(1/3) = 4 ; 64/4 = 16, 65/4 = 16.25 ; 1/(1.6*16)
    assert framework.natasha_anchor_size(eps=0.25, variance=4.0) == 64
    assert framework.natasha_num_sub_epochs(sigma=1.6, **shared) == 4
    assert framework.natasha_num_sub_epochs(sigma=0.01, **shared) == 1
    assert framework.natasha_num_steps(anchor_size=64, num_sub_epochs=4) == 16
    assert framework.natasha_num_steps(anchor_size=65, num_sub_epochs=4) == 17
    assert framework.natasha_step_size(sigma=1.6, num_steps=16) == pytest.approx(0.0390625)
    # 1.6*5/(4*0.0625) = 32
    assert framework.natasha_num_epochs(sigma=1.6, eps=0.25, gap=5.0, num_sub_epochs=4) == 32


def test_natasha_has_its_rate_and_its_step_size_in_any_units():
    """α·σ^{1/3}L1^{2/3} = (ε²/V)^{2/3}, T′B = V^{2/3}L1^{2/3}σ^{1/3}Δ/ε^{10/3}, both up to rounding; one sub-epoch at
    the lowest σ, and with σ = L1 the step size of SCSG with single samples, up to its c′."""
    for draw in draws():
        variance, smoothness, gap = draw(0.1, 10), draw(0.1, 10), draw(0.1, 10)
        eps = math.sqrt(variance) * draw(1e-6, 1e-5)
        lowest = eps * smoothness / math.sqrt(variance)
        sigma = framework.natasha_convexity(
            sigma=smoothness * draw(0.01, 1.0), eps=eps, smoothness=smoothness, variance=variance
        )
        b = framework.natasha_anchor_size(eps=eps, variance=variance)
        p = framework.natasha_num_sub_epochs(sigma=sigma, eps=eps, smoothness=smoothness, variance=variance)
        m = framework.natasha_num_steps(anchor_size=b, num_sub_epochs=p)
        step = framework.natasha_step_size(sigma=sigma, num_steps=m)
        assert step * sigma ** (1 / 3) * smoothness ** (2 / 3) == pytest.approx(
            (eps**2 / variance) ** (2 / 3), rel=0.01
        )
        epochs = framework.natasha_num_epochs(sigma=sigma, eps=eps, gap=gap, num_sub_epochs=p)
        rate = (variance * smoothness) ** (2 / 3) * sigma ** (1 / 3) * gap / eps ** (10 / 3)
        assert epochs * b == pytest.approx(rate, rel=0.01)
        assert step < 0.01 / smoothness
        assert framework.natasha_num_sub_epochs(sigma=lowest, eps=eps, smoothness=smoothness, variance=variance) == 1
        scsg = framework.scsg_step_size(anchor_size=b, batch_size=1, smoothness=smoothness)
        p = framework.natasha_num_sub_epochs(sigma=smoothness, eps=eps, smoothness=smoothness, variance=variance)
        m = framework.natasha_num_steps(anchor_size=b, num_sub_epochs=p)
        assert framework.natasha_step_size(sigma=smoothness, num_steps=m) == pytest.approx(6 * scsg, rel=0.01)
