"""Constants that can be used: what the theorems say, with their worst cases replaced by what quadratics need.

Same letters as `constants.theory`. Three lengths matter, and must come in this order:

    r_min  ≤  r  ≤  U/5

- r_min, below which rounding drowns the curvature sought;
- r, the radius of the noise;
- U, beyond which f̂ is no longer quadratic enough.

When r_min > U/5, no radius will do in this precision, and the caller is told so.
"""

from __future__ import annotations

import math

import torch

NOISE_SHARE = 0.1
"""Rounding may contribute this share of γ to a measured curvature. Lanczos with full reorthogonalisation and NEON were
both seen to tolerate three times as much."""


def step_size(*, smoothness: float) -> float:
    """η = 1/(2·L1): half of the largest step with I − ηH ⪰ 0, so an L1 too small by a factor of two is harmless."""
    return 0.5 / smoothness


def neon_num_steps(*, step_size: float, gamma: float, dimension: int, delta: float) -> int:
    """t = ⌈log(d/δ²)/(ηγ)⌉.

    With probability 1 − δ the noise has a component c with c² ≥ πδ²/(2d) along the eigenvector at −γ. The worst that
    the rest of the spectrum can do is to sit at λ = −γ/2 + 1/(2ηt), where it contributes (λ + γ/2)(1 − ηλ)^{2t} ≤
    (1 + ηγ/2)^{2t}/(2eηt). The curvature is below −γ/2 once that is less than (γ/2)c²(1 + ηγ)^{2t}, for which
    ηγt = log(d/δ²) is enough.
    """
    return math.ceil(math.log(dimension / delta**2) / (step_size * gamma))


def neon_plus_num_steps(*, step_size: float, gamma: float, dimension: int, delta: float) -> int:
    """t = ⌈2·log(d/δ²)/√(ηγ)⌉.

    By the same argument: at ζ = 1 − √(ηγ) the growth a step is 1 + 0.618√(ηγ) at λ = −γ and 1 + 0.366√(ηγ) at −γ/2.
    """
    return math.ceil(2.0 * math.log(dimension / delta**2) / math.sqrt(step_size * gamma))


def trust_radius(*, gamma: float, hessian_lipschitz: float | None, x_norm: float) -> float:
    """U = γ/(2·L2): within it, curvature −γ shows as a quotient uᵀ∇f̂(u)/‖u‖² ≤ −γ + L2·U/2, with room to prove −γ/2.

    Where L2 is not known, a hundredth of ‖x‖ (of 1, if that is more): a guess, so the curvature of whatever is found
    there is measured again at smaller radii.
    """
    if hessian_lipschitz is None:
        return 1e-2 * max(1.0, x_norm)
    return gamma / (2.0 * hessian_lipschitz) if hessian_lipschitz > 0.0 else math.inf


def gradient_noise(*, dtype: torch.dtype, grad_norm: float, smoothness: float, x_norm: float) -> float:
    """σ = ε(‖∇f(x)‖ + L1‖x‖): the rounding of a gradient, and of the point it was taken at."""
    return torch.finfo(dtype).eps * (grad_norm + smoothness * x_norm)


def smallest_radius(*, noise: float, gamma: float, dtype: torch.dtype, smoothness: float) -> float:
    """r_min: at this distance, √2(σ + εL1·r)/r, the rounding of a gradient difference, is a tenth of γ."""
    share = NOISE_SHARE * gamma / math.sqrt(2.0) - torch.finfo(dtype).eps * smoothness
    return noise / share if share > 0.0 else math.inf


def noise_radius(*, smallest: float, trust: float, dimension: int, delta: float) -> float:
    """r = Uδ/√d, but at least r_min and at most U/5.

    Directions with curvature just above −γ/2 grow by √d/δ while the one at −γ comes to dominate, and all of it has to
    happen within U: the smaller the noise, the better, down to r_min.
    """
    if math.isinf(trust):
        return max(10.0 * smallest, 1e-3)
    return min(max(smallest, trust * delta / math.sqrt(dimension)), trust / 5.0)


def measurement_radius(*, smallest: float, trust: float) -> float:
    """Between rounding and truncation: √(r_min·U/5), and not below 1e-4·U."""
    if math.isinf(trust):
        return max(10.0 * smallest, 1e-3)
    return min(max(math.sqrt(smallest * trust / 5.0), 1e-4 * trust), trust / 5.0)
