"""The rows of Table 1, counted from what each method takes: powers of 1/ε and n, without constants and logarithms.

γ = ε^q throughout. An outer iteration of NEON-A either lowers F by ε_𝒜 (the first-order test failed) or, by an escape,
by a multiple of γ³, both in expectation (proof of Theorem 3). So there are at most 1/ε_𝒜 iterations of the first kind
and 1/γ³ of the second, and only the second pay for an extraction:

    IFO = (1/ε_𝒜)·(T_a + T_c) + γ⁻³·(T_a + T_c + T_n)

with T_a for 𝒜, T_c for the test and T_n for NEON. Theorem 3 prints max(1/ε_𝒜, γ⁻³)·(T_a + T_c + T_n), where the first
kind pays for T_n too. The rows of SGD, SM, MSGD and SCSG are the same by either; that of SVRG follows only from this.

>>> print(neon_svrg(q=Fraction(1, 2), extractor="neon+"))
n^1 ε^-3/2 + n^2/3 ε^-2 + ε^-11/4
>>> neon_scsg(q=Fraction(1, 2), extractor="neon+", batch=Fraction(1, 2)).exponent
Fraction(7, 2)
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple


@dataclass(frozen=True)
class Count:
    """A sum of n^a·ε^−e, each written (a, e). A term that another one exceeds for every n ≥ 1 and ε ≤ 1 is left out."""

    terms: frozenset[tuple[Fraction, Fraction]]

    def __post_init__(self) -> None:
        kept = {t for t in self.terms if not any(o != t and o[0] >= t[0] and o[1] >= t[1] for o in self.terms)}
        object.__setattr__(self, "terms", frozenset(kept))

    def __add__(self, other: Count) -> Count:
        return Count(self.terms | other.terms)

    def __mul__(self, other: Count) -> Count:
        return Count(frozenset((a + b, d + e) for a, d in self.terms for b, e in other.terms))

    def __str__(self) -> str:
        words = [" ".join([f"n^{a}"] * (a != 0) + [f"ε^-{e}"] * (e != 0)) or "1" for a, e in self._ordered()]
        return " + ".join(words)

    def _ordered(self) -> list[tuple[Fraction, Fraction]]:
        return sorted(self.terms, reverse=True)

    @property
    def exponent(self) -> Fraction:
        """The largest exponent of 1/ε, which decides at a fixed n."""
        return max(e for _, e in self.terms)


def power(eps: Fraction | int = 0, *, n: Fraction | int = 0) -> Count:
    """n^`n`·ε^−`eps`."""
    return Count(frozenset({(Fraction(n), Fraction(eps))}))


# --- What an extraction takes -----------------------------------------------------------------------------------------

STEPS_OF_EXTRACTION = {"neon": Fraction(1), "neon+": Fraction(1, 2)}
"""The exponent of 1/γ in the steps of Algorithm 1 and of Algorithm 2 (Theorems 1 and 2)."""


def extraction_in_gamma(extractor: str) -> Fraction:
    """The exponent of 1/γ in T_n: γ⁻² samples (Lemma 2) at every step. 3 for NEON, 2.5 for NEON⁺."""
    return 2 + STEPS_OF_EXTRACTION[extractor]


def neon_a(*, q: Fraction, extractor: str, descents: Count, epoch: Count, test: Count) -> Count:
    """IFO of NEON-A: `descents` = 1/ε_𝒜, `epoch` = T_a, `test` = T_c."""
    escapes, extraction = power(3 * q), power(extraction_in_gamma(extractor) * q)
    return descents * (epoch + test) + escapes * (epoch + test + extraction)


# --- Corollaries 1 to 3 -----------------------------------------------------------------------------------------------


def neon_sgd(*, q: Fraction, extractor: str) -> Count:
    """NEON-SGD, NEON-SM (Corollary 1) and NEON-MSGD (Corollary 2): ε_𝒜 ~ ε², T_a ~ ε⁻², T_c ~ ε⁻²."""
    return neon_a(q=q, extractor=extractor, descents=power(2), epoch=power(2), test=power(2))


def neon_scsg(*, q: Fraction, extractor: str, batch: Fraction) -> Count:
    """NEON-SCSG (Corollary 3), b = ε^−`batch`.

    |S1| = max(ε⁻², γ^{−9/2}b^{−1/2}), ε_𝒜 = ε²(|S1|/b)^{1/3}, T_a ~ |S1|.
    """
    anchor = max(Fraction(2), Fraction(9, 2) * q - batch / 2)
    descents = 2 - (anchor - batch) / 3
    return neon_a(q=q, extractor=extractor, descents=power(descents), epoch=power(anchor), test=power(2))


# --- SVRG -------------------------------------------------------------------------------------------------------------


def neon_svrg(*, q: Fraction, extractor: str) -> Count:
    """NEON-SVRG: ε_𝒜 ~ n^{1/3}ε² (`theory.framework.svrg_decrease`), T_a ~ n; the test sees everything, T_c = n.

    The framework of Reddi et al. (2017) has the same count. A round of it runs as many epochs as gain γ³, at least one,
    and then one extraction: γ⁻³ rounds of max(1, γ³/ε_𝒜)·n + T_n.
    """
    everything = power(n=1)
    descents = power(2, n=Fraction(-1, 3))
    return neon_a(q=q, extractor=extractor, descents=descents, epoch=everything, test=everything)


class WithProducts(NamedTuple):
    """The counts of a method that takes Hessian products."""

    gradients: Count
    products: Count


def svrg_hessian(*, q: Fraction) -> WithProducts:
    """SVRG-Hessian: as `neon_svrg`, but n + n^{3/4}γ^{−1/2} Hessian products instead of T_n."""
    rounds, everything = power(3 * q), power(n=1)
    gradients = power(2, n=Fraction(-1, 3)) * everything + rounds * everything
    return WithProducts(gradients, rounds * (everything + power(q / 2, n=Fraction(3, 4))))


# --- Natasha ----------------------------------------------------------------------------------------------------------


class Natasha2Counts(NamedTuple):
    """What Natasha2 takes, whichever extractor it has: N1 first-order steps of B samples, and looks for curvature."""

    first_order_steps: Count
    anchor: Count
    looks: Count


def natasha2_counts(*, q: Fraction) -> Natasha2Counts:
    """N1, B and the number of looks of Natasha2 (Allen-Zhu), with L1 = L2 = V = 1 and its δ = γ.

        B = ε⁻²,   p = (σ̃/(L̃ε))^{2/3},   N1 = σ̃/(pε²),
        L̃ = 1, σ̃ = max(ε/γ³, ε) if γ ≥ ε^{1/3};   L̃ = σ̃ = ε^{1/3}/γ otherwise.

    It looks for negative curvature before every first-order step and before every escape: N1 + γ⁻³ times.
    """
    if q <= Fraction(1, 3):
        smoothness, sigma = Fraction(0), min(1 - 3 * q, Fraction(1))  # Exponents of ε.
    else:
        smoothness = sigma = Fraction(1, 3) - q
    sub_epochs = Fraction(2, 3) * (smoothness + 1 - sigma)  # Of 1/ε.
    steps = power(2 - sigma - sub_epochs)
    return Natasha2Counts(steps, power(2), steps + power(3 * q))


def natasha2(*, q: Fraction) -> WithProducts:
    """Natasha2: N1·B gradients. Oja takes γ⁻² Hessian products a look."""
    counts = natasha2_counts(q=q)
    return WithProducts(counts.first_order_steps * counts.anchor, counts.looks * power(2 * q))


def neon_natasha(*, q: Fraction, extractor: str) -> Count:
    """NEON-Natasha: Natasha2 with NEON in the place of Oja, T_n component gradients a look."""
    counts, extraction = natasha2_counts(q=q), power(extraction_in_gamma(extractor) * q)
    return counts.first_order_steps * counts.anchor + counts.looks * extraction


def neon_a_around_natasha15(*, q: Fraction, extractor: str) -> Count:
    """NEON-A around Natasha1.5, which is not the paper's NEON-Natasha: the count of SCSG with b = 1.

    Nothing keeps its iterates where curvature was tested, so σ = L1. Then an epoch has ε_𝒜 = ε²|S1|^{1/3}, and it may
    raise F by |S1|^{−2/3}, as one of SCSG. At γ = √ε this asks for |S1| = γ^{−9/2}, more than Natasha's own ε⁻².
    """
    return neon_scsg(q=q, extractor=extractor, batch=Fraction(0))
