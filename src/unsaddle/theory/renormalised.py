"""Constants of Zhang and Li (2021), "Escape saddle points by a simple gradient-descent based algorithm".

They state everything in ε. The curvature that belongs to it is γ = √(L2·ε), so ε = γ²/L2 here. Letters as in
`theory.extraction`.
"""

from __future__ import annotations

import math


def num_steps(*, gamma: float, delta: float, dimension: int, smoothness: float) -> int:
    """T = (8L1/γ)·log(L1√d/(δγ√π)), rounded up (Algorithm 1)."""
    return math.ceil(8.0 * smoothness / gamma * math.log(smoothness * math.sqrt(dimension / math.pi) / (delta * gamma)))


def noise_radius(*, gamma: float, delta: float, dimension: int, smoothness: float, hessian_lipschitz: float) -> float:
    """r = (ε/(8L1))·√(π/d)·δ (Algorithm 1)."""
    eps = gamma**2 / hessian_lipschitz
    return eps / (8.0 * smoothness) * math.sqrt(math.pi / dimension) * delta


def accelerated_num_steps(*, gamma: float, delta: float, dimension: int, smoothness: float) -> int:
    """T′ = 32√κ·log(L1√d/(δγ)), κ = L1/γ, rounded up (the accelerated loop)."""
    kappa = smoothness / gamma
    return math.ceil(32.0 * math.sqrt(kappa) * math.log(kappa * math.sqrt(dimension) / delta))


def accelerated_noise_radius(*, gamma: float, delta: float, dimension: int, hessian_lipschitz: float) -> float:
    """r′ = (δε/32)·√(π/(L2·d)), as printed (the accelerated loop).

    It does not scale like a length when the unit of x changes. It is small where L1, L2 and ε are near one.
    """
    eps = gamma**2 / hessian_lipschitz
    return delta * eps / 32.0 * math.sqrt(math.pi / (hessian_lipschitz * dimension))


def accelerated_momentum(*, gamma: float, smoothness: float) -> float:
    """ζ = 1 − θ with θ = 1/(4√κ), as in PAGD. NEON⁺ at η = 1/(4L1) has twice this θ, √(ηγ)."""
    return 1.0 - math.sqrt(gamma / smoothness) / 4.0
