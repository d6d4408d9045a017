"""The small matrix of a Krylov method: the projected Hessian, its Ritz pairs, and the eigenvalues that they exclude."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from unsaddle.vectors import Array

Pairs = tuple[Array, Array]
"""Ritz values, ascending, and Ritz vectors as columns."""


class Projection:
    """M = sym(QᵀHQ) for an orthonormal basis Q that grows by one vector at a time and may be restarted.

    The basis satisfies the Lanczos relation HQ = QM + b·q_next·e_lastᵀ, also after a thick restart (Wu and Simon 2000).
    M is then an arrow: the kept Ritz values on the diagonal, and a row and a column for the vector that follows them.

    `log_missed` is a bound from this relation. Let v be a unit eigenvector with eigenvalue λ, and c_i = q_i·v. Then

        (λI − M)c = b·c_next·e_last,   so   c = −c_next·y(λ),   y(λ) = b(M − λI)⁻¹e_last,

    and ‖c‖² + c_next² ≤ 1. Let i0 be the start vector (after a restart, the vector that follows the kept ones). Then
    c_i0² ≤ y_i0²/(1 + Σ_{i≥i0} y_i²). While every Ritz value is above −γ, the right side falls as λ goes down from −γ,
    so its value at −γ bounds all λ ≤ −γ. Over restarts the factors multiply. docs/krylov.md has the proof.
    """

    def __init__(self, capacity: int) -> None:
        self._matrix = torch.zeros(capacity + 1, capacity + 1, dtype=torch.float64)
        self._m: Array = self._matrix.numpy()  # The same memory.
        self.size = self._first = 0
        self.next_norm = self.asymmetry = self.skew = 0.0
        self._earlier: list[tuple[Array, Array]] = []
        self.values, self.vectors = np.empty(0), np.empty((0, 0))

    @property
    def coupled(self) -> int:
        """The first basis vector that the next product has a part in: the one before last, or after a restart all."""
        return 0 if self.size == self._first else self.size - 1

    def extend(self, products: Sequence[float]) -> None:
        """Adds a column of HQ, `products` = Qᵀ(Hq_last). The Ritz pairs and b stay those of the smaller basis."""
        j = self.size
        expected = self._m[j, :j].tolist()  # Lists: for few numbers they are faster.
        off = [e - p for e, p in zip(expected, products, strict=False)]
        self.asymmetry = max(self.asymmetry, *map(abs, off), 0.0)
        self.skew = math.hypot(self.skew, *off)
        # sym(QᵀHQ) is the mean of the expected entry (an off-diagonal, the arrow, or zero) and the measured one.
        column = np.array([*(e - o / 2.0 for e, o in zip(expected, off, strict=True)), products[j]])
        self._m[j, : j + 1] = self._m[: j + 1, j] = column
        self.size = j + 1

    def follow(self, next_norm: float) -> None:
        """Sets b, the length of what the last product has outside of the basis."""
        self.next_norm = self._m[self.size, self.size - 1] = self._m[self.size - 1, self.size] = next_norm

    def solved(self) -> Pairs:
        """The Ritz pairs."""
        return _eigh(self._matrix[: self.size, : self.size])

    def take(self, pairs: Pairs) -> None:
        """Sets the Ritz pairs, as `solved` has them."""
        self.values, self.vectors = pairs

    skew: float
    """‖QᵀHQ − its transpose‖_F, as far as entries were measured twice: an observed error of the products."""
    values: Array
    """Ritz values, ascending."""
    vectors: Array
    """Ritz vectors as columns of coefficients in the basis."""

    @property
    def residuals(self) -> Array:
        """‖Hu − θu‖ of each Ritz pair: b times the last component."""
        residuals: Array = self.next_norm * np.abs(self.vectors[-1])
        return residuals

    def residual(self, index: int = 0) -> float:
        """‖Hu − θu‖ of one Ritz pair."""
        return self.next_norm * abs(float(self.vectors[-1, index]))

    def log_missed(self, gamma: float) -> float:
        """log of a bound on (q_0·v)² for any eigenvector v with an eigenvalue ≤ −γ; inf if a Ritz value is ≤ −γ.

        The factors of earlier bases are computed at this γ too. They may be valid for it, though not for an earlier γ.
        """
        if any(values[0] <= -gamma for values in (self.values, *(values for values, _ in self._earlier))):
            return math.inf
        return self.log_missed_at(-gamma)

    def log_missed_at(self, level: float) -> float:
        """log of a bound on (q_0·v)² for an eigenvector v whose eigenvalue is just `level`; inf at a Ritz value.

        It holds at every level. Beyond all Ritz values, also of earlier bases, it holds for everything farther out, at
        either end of the spectrum.
        """
        if any((values == level).any() for values in (self.values, *(values for values, _ in self._earlier))):
            return math.inf
        y = self.next_norm * (self.vectors @ (self.vectors[-1] / (self.values - level)))[self._first :]
        factors = [float(y[0]), *(float(weights @ (1.0 / (values - level))) for values, weights in self._earlier)]
        if 0.0 in factors:
            return -math.inf
        return 2.0 * sum(math.log(abs(factor)) for factor in factors) - math.log1p(float(y @ y))

    def excluded(self, allowed: float, largest: float) -> float:
        """The smallest γ with `log_missed` ≤ allowed, to one per cent, up to `largest`; inf if that is not excluded.

        `log_missed` falls with γ.
        """
        if self.log_missed(largest) > allowed:
            return math.inf
        below, above = max(1e-12 * largest, -float(self.values[0])), largest
        while above > 1.01 * below:
            middle = math.sqrt(below) * math.sqrt(above)  # The product may underflow.
            below, above = (below, middle) if self.log_missed(middle) <= allowed else (middle, above)
        return above

    def restart(self, lowest: int, highest: int) -> Array:
        """Keeps some Ritz vectors of both ends and the next basis vector; returns the coefficients of the kept ones."""
        # y_i0 of this basis is Σ_k b·s_i0k·s_lastk/(θ_k + γ), for any later γ.
        self._earlier.append((self.values, self.next_norm * self.vectors[self._first] * self.vectors[-1]))
        keep = lowest + highest
        ends = np.r_[0:lowest, self.size - highest : self.size]
        kept = self.vectors[:, ends]
        self._m[:] = 0.0
        self._m[range(keep), range(keep)] = self.values[ends]
        self._m[keep, :keep] = self._m[:keep, keep] = self.next_norm * kept[-1]
        self.size = self._first = keep
        return kept


def _eigh(matrix: Tensor) -> Pairs:
    """Eigenvalues and eigenvectors, by torch.

    NumPy's BLAS has its own threads. They keep the cores busy after the call, and slow the next gradient.
    """
    values, vectors = torch.linalg.eigh(matrix)
    return values.numpy(), vectors.numpy()
