"""The constants of the paper's theorems on extracting negative curvature, one function each, errata applied.

Letters: L1 = `smoothness` (of the gradient), L2 = `hessian_lipschitz`, γ = `gamma` (the curvature sought), δ = `delta`
(the probability of failure), d = `dimension`, η = `step_size`. E1, E2, … are the errata of docs/errata.md.

These functions exist to be checked against the paper; `theory.quadratics` has constants for use. At d = 1e4,
L1 = L2 = 1, γ = 0.1 and δ = 0.01, NEON asks for about 1e13 gradients at a step size of 3e-10:

>>> steps = neon_num_steps(step_size=neon_max_step(smoothness=1), gamma=0.1, dimension=10_000, smoothness=1, delta=0.01)
>>> f"{steps:.1e}"
'1.1e+13'
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

NEON_C_HAT = 18.0
"""ĉ of Theorem 1, the smallest value that the proof of Lemma 7 allows (E25)."""

NEON_PLUS_C_HAT = 43.0
"""ĉ of Theorem 2."""


# --- Shared by Theorems 1 and 2 -------------------------------------------------------------------------------------


def log_factor(*, dimension: int, smoothness: float, gamma: float, delta: float) -> float:
    """ℓ = log(d·L1/(γδ)) = log(dκ/δ), κ = L1/γ. The proofs need κ ≥ 1 and ℓ ≥ 1, which is not checked."""
    return math.log(dimension * smoothness / (gamma * delta))


def decrease(
    *, step_size: float, gamma: float, smoothness: float, hessian_lipschitz: float, log_factor: float
) -> float:
    """𝓕 = η·L1·γ³/(L2²·ℓ³), the decrease of f̂ that Theorems 1 and 2 wait for."""
    return step_size * smoothness * gamma**3 / (hessian_lipschitz**2 * log_factor**3)


def length_scale(
    *, step_size: float, gamma: float, smoothness: float, hessian_lipschitz: float, log_factor: float
) -> float:
    """𝓟 = √(ηL1)·γ/(L2·ℓ) = (√(ηL1)·𝓕/L2)^{1/3}, the length within which f̂ is nearly quadratic."""
    return math.sqrt(step_size * smoothness) * gamma / (hessian_lipschitz * log_factor)


def noise_radius(
    *, step_size: float, gamma: float, smoothness: float, hessian_lipschitz: float, log_factor: float
) -> float:
    """r = √η·γ²·L1^{-1/2}·L2^{-1}·ℓ^{-2} = 𝓟γ/(L1·ℓ), the radius of the ball that the noise is drawn from (E2)."""
    return math.sqrt(step_size / smoothness) * gamma**2 / (hessian_lipschitz * log_factor**2)


# --- Theorem 1: NEON ------------------------------------------------------------------------------------------------


def neon_max_step(*, smoothness: float, c_hat: float = NEON_C_HAT) -> float:
    """c_max/L1 with c_max = min(1/(4ĉ)⁴, (3/(32ĉ³))²). The paper lacks the second bound, for L2·U³/6 ≤ 𝓕 (E20)."""
    return min(1.0 / (4.0 * c_hat) ** 4, (3.0 / (32.0 * c_hat**3)) ** 2) / smoothness


def neon_num_steps(
    *, step_size: float, gamma: float, dimension: int, smoothness: float, delta: float, c_hat: float = NEON_C_HAT
) -> int:
    """t = ĉ·ℓ/(ηγ), rounded up."""
    ell = log_factor(dimension=dimension, smoothness=smoothness, gamma=gamma, delta=delta)
    return math.ceil(c_hat * ell / (step_size * gamma))


def neon_trust_radius(*, length_scale: float, c_hat: float = NEON_C_HAT) -> float:
    """U = 4ĉ(√(ηL1)·𝓕/L2)^{1/3} = 4ĉ𝓟."""
    return 4.0 * c_hat * length_scale


def neon_guarantee(*, gamma: float, log_factor: float, c_hat: float = NEON_C_HAT) -> float:
    """γ/(8ĉ²ℓ): a direction from NEON has curvature at most −γ/(8ĉ²ℓ) (Theorem 1)."""
    return gamma / (8.0 * c_hat**2 * log_factor)


# --- Theorem 2: NEON⁺ -----------------------------------------------------------------------------------------------


def neon_plus_max_step(*, smoothness: float, c_hat: float = NEON_PLUS_C_HAT) -> float:
    """c_max/L1 with c_max = 1/(648²ĉ⁶). The paper prints 624, from 162·2 = 312 (E23)."""
    return 1.0 / (648.0**2 * c_hat**6 * smoothness)


def neon_plus_num_steps(
    *, step_size: float, gamma: float, dimension: int, smoothness: float, delta: float, c_hat: float = NEON_PLUS_C_HAT
) -> int:
    """t = ĉ·√(ℓ/(ηγ)), rounded up, with ĉ outside the root (E8)."""
    ell = log_factor(dimension=dimension, smoothness=smoothness, gamma=gamma, delta=delta)
    return math.ceil(c_hat * math.sqrt(ell / (step_size * gamma)))


def neon_plus_needed_steps(*, step_size: float, gamma: float, log_factor: float) -> float:
    """(2/√(ηγ) + ½)·(26.1 + 2.5ℓ): the proof of Lemma 9 needs more steps than this.

    It divides by log(1 + √(ηγ)/2), and takes that for at least 2√(ηγ)/3; it is below √(ηγ)/2. 1/log(1 + z) ≤ 1/z + ½
    gives what stands here (E33). The printed t·√(ηγ) = √(43ℓ) is never enough; 43√ℓ is enough for 2.2 ≤ ℓ ≤ 50, which
    is always so in practice (E8).
    """
    return (2.0 / math.sqrt(step_size * gamma) + 0.5) * (26.1 + 2.5 * log_factor)


def neon_plus_momentum(*, step_size: float, gamma: float) -> float:
    """ζ = 1 − √(ηγ), for √(ηγ) ≤ 1/2 (E22)."""
    root = math.sqrt(step_size * gamma)
    if root > 0.5:
        raise ValueError(f"NEON⁺ needs sqrt(step_size * gamma) <= 1/2, got {root:.3g}; take a smaller step_size")
    return 1.0 - root


def neon_plus_trust_radius(*, length_scale: float, c_hat: float = NEON_PLUS_C_HAT) -> float:
    """U = 12ĉ(√(ηL1)·𝓕/L2)^{1/3} = 12ĉ𝓟."""
    return 12.0 * c_hat * length_scale


def neon_plus_momentum_threshold(*, momentum: float, step_size: float, decrease: float) -> float:
    """ζ·√(6η𝓕): NCFind keeps the first y_j with ‖y_j − u_j‖ ≥ ζ·√(6η𝓕) (Algorithm 3)."""
    return momentum * math.sqrt(6.0 * step_size * decrease)


def neon_plus_guarantee(*, gamma: float, log_factor: float, c_hat: float = NEON_PLUS_C_HAT) -> float:
    """γ/(72ĉ²ℓ): a direction from NEON⁺ has curvature at most −γ/(72ĉ²ℓ) (Theorem 2)."""
    return gamma / (72.0 * c_hat**2 * log_factor)


@dataclass(frozen=True)
class Theorem:
    """The constants in which Theorems 1 and 2 differ."""

    max_step: Callable[..., float]
    num_steps: Callable[..., int]
    trust_radius: Callable[..., float]
    guarantee: Callable[..., float]

    def settings(
        self,
        *,
        gamma: float,
        delta: float,
        dimension: int,
        smoothness: float,
        hessian_lipschitz: float,
        step_size: float | None = None,
    ) -> dict[str, Any]:
        """η, t, r, U, the promised curvature, L2 and 𝓕, under the names of `NeonSettings`. η = c_max/L1 by default."""
        eta = self.max_step(smoothness=smoothness) if step_size is None else step_size
        question: dict[str, Any] = {"gamma": gamma, "dimension": dimension, "smoothness": smoothness, "delta": delta}
        ell = log_factor(**question)
        scales = {"step_size": eta, "gamma": gamma, "smoothness": smoothness, "log_factor": ell}
        scales["hessian_lipschitz"] = hessian_lipschitz
        return {
            "step_size": eta,
            "num_steps": self.num_steps(step_size=eta, **question),
            "noise_radius": noise_radius(**scales),
            "trust_radius": self.trust_radius(length_scale=length_scale(**scales)),
            "target": self.guarantee(gamma=gamma, log_factor=ell),
            "hessian_lipschitz": hessian_lipschitz,
            "decrease": decrease(**scales),
        }


THEOREM_1 = Theorem(neon_max_step, neon_num_steps, neon_trust_radius, neon_guarantee)
THEOREM_2 = Theorem(neon_plus_max_step, neon_plus_num_steps, neon_plus_trust_radius, neon_plus_guarantee)


# --- Lemma 2: on samples --------------------------------------------------------------------------------------------


def sampled_delta(*, delta: float) -> float:
    """δ/3: the sample's Hessian may fail with this probability, and so may NEON's random start on it (E19)."""
    return delta / 3.0


def sampled_log_factor(*, dimension: int, smoothness: float, gamma: float, delta: float) -> float:
    """ℓ′ = log(3d·L1/(γδ)): ℓ at δ/3. Lemma 2 prints log(3d·L1/(2γδ)), which would leave NEON two thirds of δ (E19)."""
    return log_factor(dimension=dimension, smoothness=smoothness, gamma=gamma, delta=sampled_delta(delta=delta))


def sampling_accuracy(*, log_factor: float, c_hat: float = NEON_PLUS_C_HAT) -> float:
    """s = 1/((12ĉ)²ℓ′): the Hessian of F_S must be within sγ of the Hessian of F."""
    return 1.0 / ((12.0 * c_hat) ** 2 * log_factor)


def sample_size(
    *, dimension: int, smoothness: float, gamma: float, delta: float, c_hat: float = NEON_PLUS_C_HAT
) -> int:
    """m = 16·L1²·log(6d/δ)/(s²γ²), rounded up (Lemma 2): that of Lemma 4 for the accuracy sγ at δ/3."""
    ell = sampled_log_factor(dimension=dimension, smoothness=smoothness, gamma=gamma, delta=delta)
    accuracy = gamma * sampling_accuracy(log_factor=ell, c_hat=c_hat)
    third = sampled_delta(delta=delta)
    return hessian_sample_size(eps=accuracy, smoothness=smoothness, dimension=dimension, delta=third)


def sampled_gamma(*, gamma: float, accuracy: float) -> float:
    """(1 − s)γ, for NEON on F_S: where F has curvature −γ, F_S is sure of no more than −(1 − s)γ (E19)."""
    return (1.0 - accuracy) * gamma


def sampled_fraction(
    *, dimension: int, smoothness: float, gamma: float, delta: float, c_hat: float = NEON_PLUS_C_HAT
) -> float:
    """c = (1 − s)/(72ĉ²ℓ) − s: a direction found on F_S has curvature at most −cγ in F (Lemma 2).

    ℓ is that of NEON⁺ on F_S, for (1 − s)γ and δ/3. The printed c = s, for NEON at γ, is larger by a share of about
    2s·(1 + 1/ℓ′) (E19). NEON, at ĉ = 18, promises more. Where nothing is found, F has no curvature below
    −(1 − s)γ − sγ = −γ; Lemma 2 says −2γ.
    """
    ell = sampled_log_factor(dimension=dimension, smoothness=smoothness, gamma=gamma, delta=delta)
    accuracy = sampling_accuracy(log_factor=ell, c_hat=c_hat)
    sought, third = sampled_gamma(gamma=gamma, accuracy=accuracy), sampled_delta(delta=delta)
    ell = log_factor(dimension=dimension, smoothness=smoothness, gamma=sought, delta=third)
    return neon_plus_guarantee(gamma=sought, log_factor=ell, c_hat=c_hat) / gamma - accuracy


# --- Lemma 1, the step along negative curvature; Lemmas 3 and 4, concentration ---------------------------------------


def escape_length(*, fraction: float, gamma: float, hessian_lipschitz: float) -> float:
    """cγ/L2, the length of the step along a direction of curvature at most −cγ, eqs. (8) and (9)."""
    return fraction * gamma / hessian_lipschitz


def escape_decrease(*, fraction: float, gamma: float, hessian_lipschitz: float) -> float:
    """c³γ³/(3·L2²): the step of length cγ/L2 lowers f by this much (Lemma 1)."""
    return (fraction * gamma) ** 3 / (3.0 * hessian_lipschitz**2)


def measured_escape_length(*, curvature: float, hessian_lipschitz: float) -> float:
    """2q/L2 for a measured curvature −q: the maximiser of ½qs² − L2s³/6."""
    return -2.0 * curvature / hessian_lipschitz


def measured_escape_decrease(*, curvature: float, hessian_lipschitz: float) -> float:
    """2q³/(3·L2²), the maximum of ½qs² − L2s³/6: twice the decrease that Lemma 1 proves for the step q/L2."""
    return 2.0 * (-curvature) ** 3 / (3.0 * hessian_lipschitz**2)


def gradient_sample_size(*, eps: float, sub_gaussian: float, delta: float) -> int:
    """2G²(1 + 8·log(1/δ))/ε², rounded up: ‖∇F_S − ∇F‖ ≤ ε with probability 1 − δ (Lemma 3)."""
    return math.ceil(2.0 * sub_gaussian**2 * (1.0 + 8.0 * math.log(1.0 / delta)) / eps**2)


def hessian_sample_size(*, eps: float, smoothness: float, dimension: int, delta: float) -> int:
    """16·L1²·log(2d/δ)/ε², rounded up: ‖∇²F_S − ∇²F‖₂ ≤ ε with probability 1 − δ (Lemma 4)."""
    return math.ceil(16.0 * smoothness**2 * math.log(2.0 * dimension / delta) / eps**2)


# --- Second-order methods, for comparison ---------------------------------------------------------------------------


def power_num_steps(*, smoothness: float, gamma: float, dimension: int, delta: float) -> int:
    """L1·log(d/δ²)/γ Hessian products, rounded up, for curvature −γ/2 at step size 1/L1 (after eq. (10))."""
    return math.ceil(smoothness * math.log(dimension / delta**2) / gamma)


def lanczos_num_steps(*, smoothness: float, accuracy: float, dimension: int, delta: float) -> int:
    """min(d, 1 + ⌈½·ln(2.75d/δ²)·√(L1/ε)⌉) products for λ_min to accuracy ε, if all eigenvalues are within ±2·L1.

    Kuczyński and Woźniakowski (1992), Theorem 4.2: with k products the error exceeds ε with a probability of at most
    1.648·√d·exp(−(2k − 1)√(ε/w)), where w = λ_max − λ_min. So k = ½ + ¼·ln(2.716d/δ²)·√(w/ε) are enough. w = 2·L1 gives
    the paper's √L1/(2√(2ε)), which leaves out the ½ and the 2.716 (E9). Here w = 4·L1: a measured L1 is a lower bound,
    and our Lanczos takes it for too small only if it sees an eigenvalue above 2·L1.
    """
    return min(dimension, 1 + math.ceil(0.5 * math.log(2.75 * dimension / delta**2) * math.sqrt(smoothness / accuracy)))


def oja_num_steps(*, smoothness: float, gamma: float, dimension: int, delta: float) -> int:
    """(L1/γ)²·log²(d/p), rounded up: Θ of Allen-Zhu (Natasha 2), with constant 1."""
    return math.ceil((smoothness / gamma) ** 2 * math.log(dimension / delta) ** 2)
