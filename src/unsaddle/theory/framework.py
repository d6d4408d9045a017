"""Constants of NEON-A (Theorem 3) and of the methods that it promotes (Corollaries 1 to 3; SVRG and Natasha1.5).

Letters as in `theory.extraction`, and: ε = `eps`, c = `fraction` (an extracted direction has curvature at most −cγ),
C = `escape_constant`, Δ = `gap` = F(x_1) − F*, V = `variance` of one sample's gradient, σ² = `second_moment`, a bound
on E‖∇f(x; ξ)‖², b = `batch_size`, |S1| = `anchor_size`, n = `population`.

Theorem 3 asks two things of a method 𝒜(x) → (y, z) (Property 1 (2)); ε_𝒜 is `*_decrease`:

    ‖∇F(y)‖ ≥ ε  ⇒  E[F(z) − F(x)] ≤ −ε_𝒜,        ‖∇F(y)‖ ≤ ε  ⇒  E[F(y) − F(x)] ≤ Cγ³/2

The ε of a method is its target: half of the ε of the first-order test (`first_order_target`, E18). The corollaries
bound E‖∇F(y)‖², and read the bound as if ‖∇F(y)‖ were not random.

These functions exist to be checked against the paper. At d = 100, L1 = 4, γ = 1/2 and δ = 0.1, Lemma 2 promises
c = 4e-7, so C = 5e-21 at L2 = 1:

>>> f"{escape_constant(fraction=4e-7, hessian_lipschitz=1.0):.0e}"
'5e-21'
"""

from __future__ import annotations

import math

from unsaddle import checks
from unsaddle.theory import extraction

SCSG_STEP_FRACTION = 1.0 / 6.0
"""c′, the largest value that Lei et al. (2017) prove (E13)."""

SCSG_ANCHOR_RATIO = 8
"""|S1|/b is at least this (Lei et al., Theorem 3.1; missing in the paper, E13)."""

SVRG_STEP_FRACTION = 0.25
"""μ of Reddi et al. (2016)."""

SVRG_RATE = 1.0 / 40.0
"""ν of Reddi et al. (2016), for μ = 1/4. Their recursion gives 0.16."""


# --- Theorem 3: NEON-A ----------------------------------------------------------------------------------------------


def first_order_sample_size(*, eps: float, sub_gaussian: float, delta: float) -> int:
    """|S| = 8G²(1 + 8·log(1/δ))/ε², rounded up: ‖∇F_S(y) − ∇F(y)‖ ≤ ε/2 (Property 1 (3), by Lemma 3 at ε/2)."""
    return extraction.gradient_sample_size(eps=eps / 2.0, sub_gaussian=sub_gaussian, delta=delta)


def first_order_target(*, eps: float) -> float:
    """ε/2, the target of 𝒜. A test with error ε/2 can fail at any ‖∇F(y)‖ > ε/2; 𝒜 must have gained ε_𝒜 then (E18)."""
    return eps / 2.0


def first_order_guarantee(*, eps: float) -> float:
    """3ε/2, the largest ‖∇F(y)‖ that passes the test, the paper's O(ε) at the end (E18). To get ε, test at 2ε/3."""
    return 1.5 * eps


def escape_failure_probability(*, fraction: float, gamma: float, smoothness: float) -> float:
    """cγ/(2(cγ + L1)): with failures at most this likely, E[vᵀ∇²F(y)v] ≤ −cγ/2 (proof of Theorem 3)."""
    return fraction * gamma / (2.0 * (fraction * gamma + smoothness))


def extraction_failure_probability(*, delta: float, gamma: float, smoothness: float, dimension: int) -> float:
    """The δ of an extraction in NEON-A: at most the given one, and at most cγ/(2(cγ + L1)), with the c of Lemma 2.

    c falls with δ, as 1/log(1/δ). So δ becomes half of its bound until it keeps within it, which takes a few turns.

    >>> f"{extraction_failure_probability(delta=0.1, gamma=0.5, smoothness=4.0, dimension=100):.1e}"
    '4.5e-09'
    """
    while True:
        c = extraction.sampled_fraction(dimension=dimension, smoothness=smoothness, gamma=gamma, delta=delta)
        largest = escape_failure_probability(fraction=c, gamma=gamma, smoothness=smoothness)
        if delta <= largest:
            return delta
        delta = largest / 2.0


def escape_constant(*, fraction: float, hessian_lipschitz: float) -> float:
    """C = c³/(12·L2²): the step cγ/L2 lowers F by Cγ³ in expectation, failures of the extractor included.

    −(cγ/L2)²·cγ/4 + L2(cγ/L2)³/6 = −c³γ³/(12·L2²). Half of Cγ³ pays for E[F(y) − F(x)] ≤ Cγ³/2, and half is left. The
    printed bound C < c³/(6·L2²) is twice too large (E16).
    """
    return fraction**3 / (12.0 * hessian_lipschitz**2)


def outer_decrease(*, method_decrease: float, gamma: float, escape_constant: float) -> float:
    """θ = min(ε_𝒜, Cγ³/2): an outer iteration lowers F by θ in expectation (proof of Theorem 3)."""
    return min(method_decrease, escape_constant * gamma**3 / 2.0)


def num_outer_iterations(*, gap: float, outer_decrease: float, delta: float, magnitude: float = 0.0) -> int:
    """⌈2(B + Δ)/θ⌉·⌈log₂(1/δ)⌉ outer iterations, B = `magnitude` (proof of Theorem 3).

    Departures: log₂, as each of the blocks fails with probability ½. B = 0 by default, not max(|F*|, |F(x_1)|): a
    constant added to F changes no iterate, and at F* = 0 the term that B bounds, −E[F(x_j)]·Pr(…), is not positive.

    A block starts where the last one failed, so Δ must hold there too (Ge et al. 2015 assume F bounded). If Δ is known
    at x_1 only, use `num_outer_iterations_from_start`.
    """
    checks.probability(delta, "delta")
    return math.ceil(2.0 * (magnitude + gap) / outer_decrease) * math.ceil(math.log2(1.0 / delta))


def num_outer_iterations_from_start(*, gap: float, outer_decrease: float, delta: float) -> int:
    """⌈Δ/(θδ)⌉ outer iterations, for Δ known at x_1 only: one block of the proof, θ(j+1)·Pr(no success) ≤ Δ."""
    return math.ceil(gap / (outer_decrease * checks.probability(delta, "delta")))


# --- Corollary 1: SM (SGD, heavy ball, Nesterov) --------------------------------------------------------------------


def momentum_noise_scale(*, momentum: float, variant: float, smoothness: float, second_moment: float) -> float:
    """D = L1·β²((1−β)s − 1)²σ²/(1−β)³ + L1·σ²/(1−β) (proof of Corollary 1).

    s = `variant` is 0 for heavy ball, 1 for Nesterov and 1/(1−β) for SGD; the interval is closed (E11). For SGD the
    first term vanishes, and the variance V may stand for σ².
    """
    rest = _one_minus(momentum)
    if not 0.0 <= variant <= (1.0 + 1e-12) / rest:
        raise ValueError(
            f"variant must be between 0 and 1/(1 - momentum) = {1.0 / rest:.6g}, got {variant!r}; use 0 for heavy "
            f"ball, 1 for Nesterov, 1/(1 - momentum) for SGD"
        )
    squared = (momentum * (rest * variant - 1.0)) ** 2
    return smoothness * second_moment * (squared / rest**3 + 1.0 / rest)


def momentum_step_size(*, eps: float, momentum: float, smoothness: float, noise_scale: float) -> float:
    """η = min(ε²/(6D), (1−β)/(2·L1)) (proof of Corollary 1).

    As D(1−β) ≥ L1·σ², the second is smaller only if ε² > 3σ², which ‖∇F‖² ≤ σ² excludes. It matters only for SGD, where
    the variance stands for σ².
    """
    largest = _one_minus(momentum) / (2.0 * smoothness)
    return min(eps**2 / (6.0 * noise_scale), largest) if noise_scale > 0.0 else largest


def momentum_min_gamma(*, eps: float) -> float:
    """ε^{2/3}: with γ ≥ ε^{2/3}, Cε²/2 ≤ Cγ³/2 (Corollary 1). It depends on the units of F and x."""
    return math.pow(eps, 2.0 / 3.0)


def momentum_min_steps(*, eps: float, steps_constant: float) -> int:
    """t + 1 ≥ C′/ε², rounded up (proof of Corollary 1). C′ = `steps_constant` is any number up to 24DC(1−β)."""
    return math.ceil(steps_constant / eps**2)


def momentum_max_steps(
    *, eps: float, momentum: float, noise_scale: float, escape_constant: float, gamma: float | None = None
) -> int:
    """t + 1 ≤ 24DC(1−β)/ε², rounded down: E[F(y) − F(x)] ≤ Cε²/2 at η = ε²/(6D) (proof of Corollary 1, E31).

    With `gamma`, 24DC(1−β)γ³/ε⁴: this gives E[F(y) − F(x)] ≤ Cγ³/2, all that Property 1 asks for. It needs no
    γ ≥ ε^{2/3} and does not depend on units. Raises if the bound is below one step.
    """
    target = eps**2 if gamma is None else gamma**3
    most = 24.0 * noise_scale * escape_constant * _one_minus(momentum) * target / eps**4
    if most < 1.0:
        raise ValueError(
            f"the number of steps must be at most {most:.3g}, so none will do; lower eps, or lower the step size to "
            f"momentum_max_step_size(num_steps=1, ...)"
        )
    return math.floor(most)


def momentum_max_step_size(
    *, num_steps: int, gamma: float, momentum: float, noise_scale: float, escape_constant: float
) -> float:
    """η = √(2(1−β)Cγ³/(3D(t+1))), the largest η with `momentum_increase` ≤ Cγ³/2. Not in the paper."""
    return math.sqrt(2.0 * _one_minus(momentum) * escape_constant * gamma**3 / (3.0 * noise_scale * num_steps))


def momentum_increase(*, step_size: float, num_steps: int, momentum: float, noise_scale: float) -> float:
    """3η²(t+1)D/(4(1−β)) ≥ E[F(y) − F(x)] for any y = x⁺_{τ′}: sum the proof of Corollary 1 up to τ′ − 1 (E31)."""
    return 3.0 * step_size**2 * num_steps * noise_scale / (4.0 * _one_minus(momentum))


def momentum_decrease(*, eps: float, step_size: float, num_steps: int, momentum: float, noise_scale: float) -> float:
    """ε_𝒜 = η(t+1)(ε² − 3Dη)/(4(1−β)) (proof of Corollary 1).

    At η = ε²/(6D) and t + 1 = C′/ε² this is the printed C′ε²/(48D(1−β)), which is wrong at any other step size.
    """
    gain = eps**2 - 3.0 * noise_scale * step_size
    if gain <= 0.0:
        raise ValueError(
            f"step_size must be below eps^2/(3*noise_scale) = {eps**2 / (3.0 * noise_scale):.6g}, got {step_size!r}; "
            f"use momentum_step_size(...)"
        )
    return step_size * num_steps * gain / (4.0 * _one_minus(momentum))


def _one_minus(momentum: float) -> float:
    """1 − β, for 0 ≤ β < 1."""
    if not 0.0 <= momentum < 1.0:
        raise ValueError(f"momentum must be at least 0 and below 1, got {momentum!r}")
    return 1.0 - momentum


# --- Corollary 2: MSGD ----------------------------------------------------------------------------------------------


def msgd_sample_size(*, eps: float, variance: float) -> int:
    """|S1| = 2V/ε², rounded up (proof of Corollary 2)."""
    return max(1, math.ceil(2.0 * variance / eps**2))


def msgd_decrease(*, eps: float, smoothness: float) -> float:
    """ε_𝒜 = ε²/(4·L1) (Corollary 2). Since y = x, F(y) − F(x) = 0."""
    return eps**2 / (4.0 * smoothness)


# --- Corollary 3: SCSG ----------------------------------------------------------------------------------------------


def scsg_step_size(
    *, anchor_size: int, batch_size: int, smoothness: float, step_fraction: float = SCSG_STEP_FRACTION
) -> float:
    """η = (c′/L1)(|S1|/b)^{−2/3}, c′ ≤ 1/6; 1/L1 is missing in the paper (SCSG-epoch, E13)."""
    _check_scsg(anchor_size, batch_size, step_fraction)
    return step_fraction / smoothness * math.pow(anchor_size / batch_size, -2.0 / 3.0)


def scsg_stop_probability(*, anchor_size: int, batch_size: int) -> float:
    """b/(|S1| + b): P(N = k) = (1 − q)^k·q for k = 0, 1, …, with mean |S1|/b (SCSG-epoch, E13)."""
    return batch_size / (anchor_size + batch_size)


def scsg_expected_samples(*, anchor_size: int) -> int:
    """E[T_a] = |S1| + 2b·E[N] = 3|S1|; the paper counts 2|S1| (proof of Corollary 3, E14)."""
    return 3 * anchor_size


def scsg_gain_weight(
    *, anchor_size: int, batch_size: int, smoothness: float, step_fraction: float = SCSG_STEP_FRACTION
) -> float:
    """w = (5·L1/c′)(b/|S1|)^{1/3} in E‖∇F(y)‖² ≤ w·E[F(x) − F(y)] + v (Lei et al. 2017; proof of Corollary 3)."""
    _check_scsg(anchor_size, batch_size, step_fraction)
    return 5.0 * smoothness / step_fraction * math.pow(batch_size / anchor_size, 1.0 / 3.0)


def scsg_noise_floor(*, anchor_size: int, variance: float, population: int | None = None) -> float:
    """v = 6V/|S1| in E‖∇F(y)‖² ≤ w·E[F(x) − F(y)] + v; 0 if S1 is everything, a case that the paper leaves out."""
    return 0.0 if population is not None and anchor_size >= population else 6.0 * variance / anchor_size


def scsg_anchor_size(
    *,
    eps: float,
    gamma: float,
    batch_size: int,
    variance: float,
    smoothness: float,
    escape_constant: float,
    step_fraction: float = SCSG_STEP_FRACTION,
    population: int | None = None,
) -> int:
    """|S1| = max(12V/ε², (12Vc′/(5C·L1))^{3/2}·γ^{−9/2}·b^{−1/2}, 8b), rounded up, at most n (proof of Corollary 3).

    The first makes v ≤ ε²/2, the second v/w ≤ Cγ³/2 (E15), the third is E13. n samples serve for the first two, as
    v = 0 then.
    """
    if population is not None and SCSG_ANCHOR_RATIO * batch_size > population:
        limit = f"population/{SCSG_ANCHOR_RATIO} = {population // SCSG_ANCHOR_RATIO}"
        raise ValueError(f"batch_size must be at most {limit}, got {batch_size}")
    for_eps = 12.0 * variance / eps**2
    ratio = 12.0 * variance * step_fraction / (5.0 * escape_constant * smoothness)
    for_gamma = math.pow(ratio, 1.5) * math.pow(gamma, -4.5) / math.sqrt(batch_size)
    size = max(math.ceil(for_eps), math.ceil(for_gamma), SCSG_ANCHOR_RATIO * batch_size)
    return size if population is None else min(size, population)


def scsg_decrease(
    *,
    eps: float,
    anchor_size: int,
    batch_size: int,
    smoothness: float,
    variance: float,
    step_fraction: float = SCSG_STEP_FRACTION,
    population: int | None = None,
) -> float:
    """ε_𝒜 = (ε² − v)/w = (c′/(5·L1))(|S1|/b)^{1/3}(ε² − 6V/|S1|) (proof of Corollary 3).

    It is at least `scsg_least_decrease` if |S1| ≥ 12V/ε². A smaller S1 that is everything need not reach that.
    """
    gain = eps**2 - scsg_noise_floor(anchor_size=anchor_size, variance=variance, population=population)
    if gain <= 0.0:
        raise ValueError(f"anchor_size must be above 6V/eps^2 = {6.0 * variance / eps**2:.6g}, got {anchor_size}")
    return gain / scsg_gain_weight(
        anchor_size=anchor_size, batch_size=batch_size, smoothness=smoothness, step_fraction=step_fraction
    )


def scsg_least_decrease(
    *, eps: float, batch_size: int, smoothness: float, variance: float, step_fraction: float = SCSG_STEP_FRACTION
) -> float:
    """ε_𝒜 = c′(12V)^{1/3}ε^{4/3}/(10·L1·b^{1/3}) as printed, for every |S1| ≥ 12V/ε² (proof of Corollary 3)."""
    return step_fraction * math.pow(12.0 * variance * eps**4 / batch_size, 1.0 / 3.0) / (10.0 * smoothness)


def _check_scsg(anchor_size: int, batch_size: int, step_fraction: float) -> None:
    least = SCSG_ANCHOR_RATIO * batch_size
    if anchor_size < least:
        raise ValueError(f"anchor_size must be at least {SCSG_ANCHOR_RATIO}*batch_size = {least}, got {anchor_size}")
    if not 0.0 < step_fraction <= SCSG_STEP_FRACTION:
        raise ValueError(f"step_fraction must be above 0 and at most 1/6, got {step_fraction!r}")


# --- SVRG (Reddi et al. 2016) ---------------------------------------------------------------------------------------


def svrg_step_size(
    *, population: int, batch_size: int, smoothness: float, step_fraction: float = SVRG_STEP_FRACTION
) -> float:
    """η = μb/(L1·n^{2/3}) for b ≤ n^{2/3}, 0 < μ < 1."""
    largest = math.pow(population, 2.0 / 3.0)
    if batch_size**3 > population**2:
        raise ValueError(f"batch_size must be at most population^(2/3) = {largest:.6g}, got {batch_size}")
    return step_fraction * batch_size / (smoothness * largest)


def svrg_num_steps(*, population: int, batch_size: int, step_fraction: float = SVRG_STEP_FRACTION) -> int:
    """m = ⌊n/(3bμ)⌋, at least 1: the steps of an epoch. The anchor takes n samples, and each step 2b."""
    return max(1, math.floor(population / (3.0 * batch_size * step_fraction)))


def svrg_decrease(
    *, eps: float, population: int, batch_size: int, num_steps: int, smoothness: float, rate: float = SVRG_RATE
) -> float:
    """ε_𝒜 = mνbε²/(L1·n^{2/3}), with y one of the x_0, …, x_{m−1} of an epoch from x and z = x_m.

    In their proof, R_t = E[F(x_t) + c_t‖x_t − x‖²] falls by νb/(L1·n^{2/3})·E‖∇F(x_t)‖² a step, with R_0 = F(x) and
    c_m = 0. So E[F(y) − F(x)] ≤ 0 too, and Property 1 (2) holds for every γ. ν belongs to μ = `SVRG_STEP_FRACTION`.
    """
    return num_steps * rate * batch_size * eps**2 / (smoothness * math.pow(population, 2.0 / 3.0))


# --- Natasha1.5 (Allen-Zhu 2017): its Θ(·) with constant 1 ----------------------------------------------------------


def natasha_convexity(*, sigma: float, eps: float, smoothness: float, variance: float) -> float:
    """σ of the regulariser σ‖x − x̂‖²: the σ of ∇²F ⪰ −σI, raised to at least εL1/√V and lowered to at most L1.

    At σ = εL1/√V, p = 1. At V = 1 the range is εL1 ≤ σ ≤ L1, which depends on the units of F.
    """
    lowest = eps * smoothness / math.sqrt(variance) if variance > 0.0 else smoothness
    return min(max(sigma, lowest), smoothness)


def natasha_anchor_size(*, eps: float, variance: float) -> int:
    """B = V/ε², rounded up."""
    return max(1, math.ceil(variance / eps**2))


def natasha_num_sub_epochs(*, sigma: float, eps: float, smoothness: float, variance: float) -> int:
    """p = (σ²V/(L1²ε²))^{1/3}, rounded, at least 1; at V = 1 this is (σ/(εL1))^{2/3}."""
    return max(1, round(math.pow(sigma**2 * variance / (smoothness * eps) ** 2, 1.0 / 3.0)))


def natasha_num_steps(*, anchor_size: int, num_sub_epochs: int) -> int:
    """m = B/p steps a sub-epoch, rounded up."""
    return math.ceil(anchor_size / num_sub_epochs)


def natasha_step_size(*, sigma: float, num_steps: int) -> float:
    """α = 1/(σm). At V = 1 it is ε^{4/3}/(σ^{1/3}·L1^{2/3}); at σ = L1 it is SCSG's 1/(L1·B^{2/3})."""
    return 1.0 / (sigma * num_steps)


def natasha_num_epochs(*, sigma: float, eps: float, gap: float, num_sub_epochs: int) -> int:
    """T′ = σΔ/(pε²), rounded up. T′B = V^{2/3}·L1^{2/3}·σ^{1/3}·Δ/ε^{10/3}; the usual quotation leaves out V."""
    return max(1, math.ceil(sigma * gap / (num_sub_epochs * eps**2)))
