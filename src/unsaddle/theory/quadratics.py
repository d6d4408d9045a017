"""Constants for use: those that quadratics need, in place of the theorems' worst cases. Letters: `theory.extraction`.

Three lengths must come in the order r_min ≤ r ≤ U/5. Below r_min, rounding drowns the curvature sought. r is the radius
of the noise. Beyond U, f̂ is no longer quadratic enough. If r_min > U/5, no radius works in this precision, and the
search ends with `PRECISION_TOO_LOW`.
"""

from __future__ import annotations

import math

import torch

from unsaddle.theory.start import unlucky_component

NOISE_SHARE = 0.1
"""Rounding may contribute this share of γ to a measured curvature."""


def stationary_gradient(*, smoothness: float, x_norm: float) -> float:
    """ε = 1e-3·L1·max(1, ‖x‖), the default for the largest gradient norm that counts as zero at x.

    A gradient step of 1/L1 then moves x by at most a thousandth of max(1, ‖x‖). Scaling f scales ε. A gradient that is
    smaller may lead far along soft directions: `measure.rest.small_gradient` tells.

    >>> stationary_gradient(smoothness=2.0, x_norm=10.0)
    0.02
    """
    return 1e-3 * smoothness * max(1.0, x_norm)


def step_size(*, smoothness: float) -> float:
    """η = 1/(2·L1), half of the largest step with I − ηH ⪰ 0. An L1 too small by a factor of two does no harm."""
    return 0.5 / smoothness


def neon_num_steps(*, step_size: float, gamma: float, dimension: int, delta: float) -> int:
    """t = ⌈log(d/δ²)/(ηγ)⌉.

    With probability 1 − δ the noise has a component c with c² ≥ πδ²/(2d) along the eigenvector at −γ. The worst case is
    that the rest of the spectrum sits at λ = −γ/2 + 1/(2ηt), where it contributes (λ + γ/2)(1 − ηλ)^{2t} ≤
    (1 + ηγ/2)^{2t}/(2eηt). The curvature is below −γ/2 once this is less than (γ/2)c²(1 + ηγ)^{2t}. ηγt = log(d/δ²) is
    enough for that.
    """
    return math.ceil(math.log(dimension / delta**2) / (step_size * gamma))


def neon_plus_num_steps(*, step_size: float, gamma: float, dimension: int, delta: float) -> int:
    """t = ⌈2·log(d/δ²)/√(ηγ)⌉.

    As for NEON, but at ζ = 1 − √(ηγ) a step multiplies a mode at −γ by 1 + 0.618√(ηγ), at −γ/2 by 1 + 0.366√(ηγ).
    """
    return math.ceil(2.0 * math.log(dimension / delta**2) / math.sqrt(step_size * gamma))


def least_start(*, noise_radius: float, rounding: float, dimension: int, delta: float) -> float:
    """Half of the length that noise from a ball of radius r has along a fixed direction with probability 1 − δ.

    A coordinate of a point uniform in the d-ball is distributed as one of a point uniform on the sphere in d + 2
    dimensions. Half is left for a Hessian that changes. δ is taken as 1e-3 if it is larger: a safe start costs few
    steps. 0, for unknown, if rounding, which moves a mode at −γ by up to σ/γ = `rounding`, takes more than the other
    half.

    >>> round(least_start(noise_radius=1.0, rounding=0.0, dimension=100, delta=0.05), 6)
    6.3e-05
    """
    least = noise_radius * math.sqrt(unlucky_component(dimension=dimension + 2, delta=min(delta, 1e-3))) / 2.0
    return least if rounding <= least else 0.0


def trust_radius(*, gamma: float, hessian_lipschitz: float | None, x_norm: float) -> float:
    """U = γ/(2·L2). Within U, curvature −γ gives uᵀ∇f̂(u)/‖u‖² ≤ −γ + L2·U/2, which leaves room to prove −γ/2.

    If L2 is not known, U = max(1, ‖x‖)/100. This is a guess, so a candidate's curvature is measured again at smaller
    radii.
    """
    if hessian_lipschitz is None:
        return 1e-2 * max(1.0, x_norm)
    return gamma / (2.0 * hessian_lipschitz) if hessian_lipschitz > 0.0 else math.inf


def gradient_noise(*, dtype: torch.dtype, grad_norm: float, smoothness: float, x_norm: float) -> float:
    """σ = ε(‖∇f(x)‖ + L1‖x‖): the rounding of a gradient and of its point, ε the machine precision."""
    return torch.finfo(dtype).eps * (grad_norm + smoothness * x_norm)


def smallest_radius(*, noise: float, gamma: float, dtype: torch.dtype, smoothness: float) -> float:
    """r_min, where the rounding of a gradient difference, √2(σ + εL1·r)/r, is a tenth of γ."""
    share = NOISE_SHARE * gamma / math.sqrt(2.0) - torch.finfo(dtype).eps * smoothness
    return noise / share if share > 0.0 else math.inf


def noise_radius(*, smallest: float, trust: float, dimension: int, delta: float) -> float:
    """r = Uδ/√d, but at least r_min and at most U/5.

    While the direction at −γ comes to dominate, those with curvature just above −γ/2 grow by √d/δ. All this has to
    happen within U, so smaller noise is better, down to r_min.
    """
    if math.isinf(trust):
        return max(10.0 * smallest, 1e-3)
    return min(max(smallest, trust * delta / math.sqrt(dimension)), trust / 5.0)


def measurement_radius(*, smallest: float, trust: float) -> float:
    """√(r_min·U/5), between rounding and truncation, but at least 1e-4·U."""
    if math.isinf(trust):
        return max(10.0 * smallest, 1e-3)
    return min(max(math.sqrt(smallest * trust / 5.0), 1e-4 * trust), trust / 5.0)


def renormalised_radius(*, smallest: float, measurement: float) -> float:
    """r = max(2·r_min, the measurement radius). If r_min ≤ U/5, iterates in [r/2, 2r] lie within [r_min, 4U/5]."""
    return max(2.0 * smallest, measurement)


def neon2_det_growth(*, smoothness: float, gamma: float) -> float:
    """θ = arccosh(1 + γ/(4L1)), close to √(γ/(2L1)): T_t(M) grows as cosh(tθ) at λ = −γ."""
    excess = gamma / (4.0 * smoothness)
    return math.log1p(excess + math.sqrt(excess * (2.0 + excess)))  # acosh(1 + excess), to full precision


def neon2_det_escape_ratio(*, smoothness: float, gamma: float) -> float:
    """r/σ = max(10, √(8L1/γ)).

    The part of T_t(M)ξ with λ ≥ −3γ/4 has length at most σ. If T_t(M)ξ is longer than r, this part has a share of at
    most s = (σ/r)² in its square. The curvature is then at most −(3γ/4)(1 − s) + L1·s, which is −0.617γ or less for
    s ≤ min(1/100, γ/(8L1)).
    """
    return max(10.0, math.sqrt(8.0 * smoothness / gamma))


def neon2_det_noise_radius(*, smallest: float, trust: float, noise: float, smoothness: float, gamma: float) -> float:
    """σ = min(the noise radius of NEON, Uγ/(4L1)), but at least r_min.

    Gradients are taken at y_t = U_{t−1}(M)ξ, a Chebyshev polynomial of the second kind. It is longer than T_t(M)ξ by
    1/sinh θ ≈ √(2L1/γ). When T_t(M)ξ has length r = σ√(8L1/γ), the probe is at 4σL1/γ, which should not exceed U.
    """
    return max(smallest, min(noise, trust * gamma / (4.0 * smoothness)))


def neon2_det_num_steps(*, smoothness: float, gamma: float, dimension: int, delta: float) -> int:
    """The first T with cosh(Tθ)·√τ ≥ r/σ. The start's component along −γ is at least σ√τ with probability 1 − δ."""
    ratio = neon2_det_escape_ratio(smoothness=smoothness, gamma=gamma)
    needed = math.acosh(ratio / math.sqrt(unlucky_component(dimension=dimension, delta=delta)))
    return math.ceil(needed / neon2_det_growth(smoothness=smoothness, gamma=gamma))


def neon2_online_escape_radius(*, noise: float, trust: float, dimension: int, delta: float) -> float:
    """r = σ√d/δ, but at most U.

    A component cσ along −γ catches up with a component σ along −γ/2 when both have length σ/c. c ≥ δ/√d with
    probability 1 − δ, so a shorter iterate says little about the direction.
    """
    return min(noise * math.sqrt(dimension) / delta, trust)


def neon2_online_num_steps(*, growth: float, dimension: int, delta: float) -> int:
    """T = ⌈log((√d/δ)/√τ)/log(1 + g)⌉ steps take a component σ√τ along −γ to r = σ√d/δ, by a factor 1 + g a step."""
    ratio = math.sqrt(dimension / unlucky_component(dimension=dimension, delta=delta)) / delta
    return math.ceil(math.log(ratio) / math.log1p(growth))
