"""The distribution of a random start's component along a fixed direction."""

from __future__ import annotations

import math


def unlucky_component(*, dimension: int, delta: float) -> float:
    """τ with P((q·v)² ≤ τ) ≤ δ for q uniform on the unit sphere and any fixed unit v.

    The density of c = q·v is proportional to (1 − c²)^{(d−3)/2}. From d = 3 on it is largest at 0, so P(|c| ≤ s) is at
    most 2s times the density at 0. This gives τ = (δ·√π·Γ((d−1)/2)/(2Γ(d/2)))², close to πδ²/(2d). The probability is
    exactly δ at d = 3, and less than δ by a share below δ² at larger d. On the circle (d = 2), c is the cosine of a
    uniform angle. On the line (d = 1), c = ±1.

    >>> round(unlucky_component(dimension=1000, delta=0.05) * 1000, 5)
    0.00393
    """
    if dimension == 1:
        return 1.0
    if dimension == 2:
        return math.sin(math.pi * delta / 2.0) ** 2
    log_ratio = math.lgamma((dimension - 1) / 2.0) - math.lgamma(dimension / 2.0)
    return (delta * math.sqrt(math.pi) / 2.0 * math.exp(log_ratio)) ** 2


def log_unlucky(dimension: int, delta: float) -> float:
    """log τ of `unlucky_component`; −inf where δ is so small that τ is below all floating-point numbers.

    >>> round(log_unlucky(1000, 0.05), 3), log_unlucky(1000, 1e-300)
    (-12.446, -inf)
    """
    unlucky = unlucky_component(dimension=max(1, dimension), delta=delta)
    return math.log(unlucky) if unlucky > 0.0 else -math.inf
