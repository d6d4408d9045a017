"""The small side of a Krylov method: the Hessian projected on a basis, its Ritz pairs, and what they exclude."""

from __future__ import annotations

import math

import numpy as np
import torch

from unsaddle.vectors import Array


class Projection:
    """M = sym(QᵀHQ) for an orthonormal basis Q that grows by one vector at a time and is now and then restarted.

    The basis satisfies HQ = QM + b·q_next·e_lastᵀ: the Lanczos relation, which a thick restart keeps (Wu and Simon
    2000). After a restart M is an arrow: the kept Ritz values on the diagonal, joined to the vector that follows them.

    `log_missed` turns that relation into a bound. Let v be a unit eigenvector with eigenvalue λ, and c_i = q_i·v. Then

        (λI − M)c = b·c_next·e_last,   so   c = −c_next·y(λ),   y(λ) = b(M − λI)⁻¹e_last,

    and ‖c‖² + c_next² ≤ 1. With i0 the start vector (after a restart: the vector that follows the kept ones), whose
    component was c_i0, c_i0² ≤ y_i0²/(1 + Σ_{i≥i0} y_i²). While every Ritz value is above −γ, the right side only falls
    as λ goes down from −γ, so that its value at λ = −γ bounds them all, and over restarts the factors multiply. The
    proof is in docs/krylov.md.
    """

    def __init__(self, capacity: int) -> None:
        self._m = np.zeros((capacity + 1, capacity + 1))
        self.size = 0
        self.next_norm = 0.0
        self.asymmetry = 0.0
        self._first = 0
        self._earlier: list[tuple[Array, Array]] = []

    def solved(self, products: Array) -> Array:
        """The Ritz pairs, as one row of numbers, that `extend` would come to: nan where a product is not finite."""
        j = self.size
        return _eigh(self._grown(products)) if np.isfinite(products).all() else np.full((j + 1) * (j + 2), math.nan)

    def extend(self, products: Array, next_norm: float, solved: Array | None = None) -> None:
        """Take in HQ's next column: `products` = Qᵀ(Hq_last), and `next_norm` = b, the length of what is left of it.

        `solved` are the Ritz pairs, where somebody else has found them already.
        """
        j = self.size
        pairs = self.solved(products) if solved is None else solved
        self.asymmetry = max(self.asymmetry, float(np.abs(self._m[:j, j] - products[:j]).max(initial=0.0)))
        self._m[: j + 1, : j + 1] = self._grown(products)
        self.size, self.next_norm = j + 1, next_norm
        self._m[j + 1, j] = self._m[j, j + 1] = next_norm
        self.values, self.vectors = pairs[: j + 1], pairs[j + 1 :].reshape(j + 1, j + 1)

    def _grown(self, products: Array) -> Array:
        """M with a row and a column more."""
        j = self.size
        grown = self._m[: j + 1, : j + 1].copy()
        grown[j, j] = products[j]
        # What was expected (an off-diagonal, the arrow, or zero) and what was measured, averaged: sym(QᵀHQ).
        grown[:j, j] = grown[j, :j] = (grown[:j, j] + products[:j]) / 2.0
        return grown

    values: Array
    """Ritz values, ascending."""
    vectors: Array
    """Ritz vectors in the basis, a column each."""

    @property
    def residuals(self) -> Array:
        """‖Hu − θu‖ of each Ritz pair: b times the last component."""
        residuals: Array = self.next_norm * np.abs(self.vectors[-1])
        return residuals

    def log_missed(self, gamma: float) -> float:
        """log of a bound on (q_0·v)² for any eigenvector v with an eigenvalue ≤ −γ; inf if a Ritz value is ≤ −γ.

        The factors of earlier bases are taken at this γ too: one that has grown may be valid where the old one was not.
        """
        if any(values[0] <= -gamma for values in (self.values, *(values for values, _ in self._earlier))):
            return math.inf
        y = self.next_norm * (self.vectors @ (self.vectors[-1] / (self.values + gamma)))[self._first :]
        factors = [float(y[0]), *(float(weights @ (1.0 / (values + gamma))) for values, weights in self._earlier)]
        if 0.0 in factors:
            return -math.inf
        return 2.0 * sum(math.log(abs(factor)) for factor in factors) - math.log1p(float(y @ y))

    def restart(self, lowest: int, highest: int) -> Array:
        """Keep some Ritz vectors of either end and the next basis vector; returns the coefficients of the kept ones."""
        # y_i0 of this basis is Σ_k b·s_i0k·s_lastk/(θ_k + γ), at whatever γ is asked about later.
        self._earlier.append((self.values, self.next_norm * self.vectors[self._first] * self.vectors[-1]))
        keep = lowest + highest
        ends = np.r_[0:lowest, self.size - highest : self.size]
        kept = self.vectors[:, ends]
        arrow = self.next_norm * kept[-1]
        self._m[:] = 0.0
        self._m[range(keep), range(keep)] = self.values[ends]
        self._m[keep, :keep] = self._m[:keep, keep] = arrow
        self.size = self._first = keep
        return kept


def _eigh(matrix: Array) -> Array:
    """Eigenvalues and eigenvectors, in one row, by torch and not by NumPy.

    NumPy's BLAS has threads of its own, which go on waiting actively after the call and take the cores from the next
    gradient: a sixth of its time on two cores (benchmarks/transformer.py).
    """
    values, vectors = torch.linalg.eigh(torch.from_numpy(matrix))
    return torch.cat([values, vectors.flatten()]).numpy()
