"""Constants of Neon2 (Allen-Zhu and Li, 2017), as functions of the absolute constants C0 and C1 of its proofs.

Neon2's δ, the curvature, is our γ = `gamma`. Its p, the probability of failure, is our δ = `delta`. The paper says that
C0 and C1 are "large enough" and gives no values. Powers of d make the lengths unusable: at d = 100, γ = 1/10 and
C0 = 2, σ is below 1e-32.

>>> f"{online_noise_radius(gamma=0.1, dimension=100, smoothness=1, hessian_lipschitz=1):.0e}"
'7e-33'
"""

from __future__ import annotations

import math

ONLINE_C0 = 2.0
"""C0, enough for quadratics; the proof needs more. Without noise, a component σ/(100d) along −γ grows by (100d)^{C0²}
within T. It reaches the length (100d)^{C0}·σ if C0² ≥ C0 + 1, that is C0 ≥ 1.62. At C0 = 2 it outweighs the rest during
half of T, so in half of the iterates that the random one is drawn from."""

DET_C1 = 2.2
"""C1, enough for quadratics; the proof needs more. T_T(M)ξ reaches r if θ·T ≥ (C1 + 1)·log(d/p), where θ =
arccosh(1 + γ/(4L1)) ≥ 0.98·√(γ/(2L1)). That is 0.693·C1² ≥ C1 + 1, or C1 ≥ 2.13."""


def online_step_size(*, gamma: float, dimension: int, smoothness: float, c0: float = ONLINE_C0) -> float:
    """η = γ/(C0²·L1²·log(100d))."""
    return gamma / (c0**2 * smoothness**2 * math.log(100.0 * dimension))


def online_num_steps(*, gamma: float, dimension: int, smoothness: float, c0: float = ONLINE_C0) -> int:
    """T = C0²·log(100d)/(ηγ), rounded up: the steps of one round."""
    eta = online_step_size(gamma=gamma, dimension=dimension, smoothness=smoothness, c0=c0)
    return math.ceil(c0**2 * math.log(100.0 * dimension) / (eta * gamma))


def online_noise_radius(
    *, gamma: float, dimension: int, smoothness: float, hessian_lipschitz: float, c0: float = ONLINE_C0
) -> float:
    """σ = (100d)^{−3C0}·η²γ³/L2."""
    eta = online_step_size(gamma=gamma, dimension=dimension, smoothness=smoothness, c0=c0)
    return math.pow(100.0 * dimension, -3.0 * c0) * eta**2 * gamma**3 / hessian_lipschitz


def online_escape_radius(*, noise_radius: float, dimension: int, c0: float = ONLINE_C0) -> float:
    """r = (100d)^{C0}·σ."""
    return math.pow(100.0 * dimension, c0) * noise_radius


def online_sample_size(*, gamma: float, delta: float, smoothness: float) -> int:
    """m = L1²·log(1/p)/γ², rounded up: the samples that judge a direction (Neon2's Θ with constant 1)."""
    return math.ceil((smoothness / gamma) ** 2 * math.log(1.0 / delta))


def det_num_steps(*, gamma: float, delta: float, dimension: int, smoothness: float, c1: float = DET_C1) -> int:
    """T = C1²·log(d/p)·√(L1/γ), rounded up."""
    return math.ceil(c1**2 * math.log(dimension / delta) * math.sqrt(smoothness / gamma))


def det_noise_radius(
    *, gamma: float, delta: float, dimension: int, smoothness: float, hessian_lipschitz: float, c1: float = DET_C1
) -> float:
    """σ = (d/p)^{−2C1}·γ/(T³·L2)."""
    steps = det_num_steps(gamma=gamma, delta=delta, dimension=dimension, smoothness=smoothness, c1=c1)
    return math.pow(dimension / delta, -2.0 * c1) * gamma / (steps**3 * hessian_lipschitz)


def det_escape_radius(*, noise_radius: float, delta: float, dimension: int, c1: float = DET_C1) -> float:
    """r = (d/p)^{C1}·σ."""
    return math.pow(dimension / delta, c1) * noise_radius
