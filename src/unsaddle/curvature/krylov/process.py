"""The Krylov process: an orthonormal basis that grows by one product at a time, and the Hessian projected on it.

Its clients: `certificate` finds or excludes negative curvature with gradient differences, `lanczos` does so with exact
products, `smoothness` measures L1, `spectrum` has eigenpairs and densities.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.curvature.krylov.projection import Projection

Operator = Callable[[Tensor, Tensor], object]
"""(q, out): writes Hq into `out`."""

KEEP_LOWEST, KEEP_HIGHEST = 8, 4
"""Ritz vectors that a restart keeps of 20 vectors; other bases keep the same share. The lowest are looked for. The
highest would come back and cost steps again."""

LEFTOVER = {torch.float32: 1e-5, torch.float64: 1e-13}
"""A new vector is orthogonalised again if its part in the basis is longer than this share of it: about a hundred
roundings, far below the error of a product."""

BREAKDOWN = 10.0
"""The space is invariant if no more than so many roundings of the largest eigenvalue are left of a product."""


SHORT = {torch.float32: 1e-2, torch.float64: 1e-6}
"""If no more than this share of the largest eigenvalue is left of a product, its rounding is not small beside it."""


class KrylovProcess:
    """Q, an orthonormal basis of a Krylov space, and M = sym(QᵀHQ).

        w = Hq_j;  h = Qᵀw, w ← w − Qh, twice where needed (h summed);  b = ‖w‖;  q_{j+1} = w/b

    Full reorthogonalisation and the symmetrised projection keep the Ritz values right for products with an error. The
    three-term recurrence would not. `start` is the unit vector q_0. A basis of `capacity` vectors must be restarted
    before it can grow. If the operator maps into a subspace, `project` brings a vector into it, in place: rounding
    would lead out of it. Memory: capacity + 1 vectors in one block.

    Attributes:
        projection: M and its Ritz pairs.
        largest: the largest |eigenvalue| seen so far; 0 before the first product.

    >>> def double(q, out): out.copy_(2.0 * q)
    >>> process = KrylovProcess(double, torch.tensor([1.0, 0.0]), capacity=2)
    >>> process.expand(), process.exhausted, process.projection.values.tolist()
    (True, True, [2.0])
    """

    def __init__(
        self, operator: Operator, start: Tensor, capacity: int, project: Callable[[Tensor], Tensor] | None = None
    ) -> None:
        self._dimension = vectors.dimension(start)
        self._operator, self._capacity = operator, min(capacity, self._dimension)
        self._basis = torch.empty(self._capacity + 1, start.numel(), dtype=start.dtype, device=start.device)
        self._basis[0] = start
        self.projection = Projection(self._capacity + 1)
        self.largest = 0.0
        self._project = project

    @property
    def full(self) -> bool:
        """Whether the basis must be restarted before it can grow."""
        return self.projection.size == self._capacity

    @property
    def exhausted(self) -> bool:
        """Whether the space is everything, or invariant, so that its Ritz values are eigenvalues."""
        size, rounding = self.projection.size, BREAKDOWN * torch.finfo(self._basis.dtype).eps * self.largest
        return size > 0 and (size == self._dimension or self.projection.next_norm <= rounding)

    def expand(self, solve: bool = True) -> bool:
        """Takes one product and extends the basis by it. Returns False, and keeps the Ritz pairs, if it is not finite.

        Without `solve` the Ritz pairs stay those of the smaller basis: those of a large one take time.
        """
        seen, j = self.projection, self.projection.size
        q, w = self._basis[j], self._basis[j + 1]
        self._operator(q, w)
        products, b, pairs = _orthogonalise(self._basis[: j + 2], w, seen, solve)
        length = math.hypot(b, *products)
        if not math.isfinite(length):
            seen.size = j
            return False
        seen.follow(b)
        self.largest = max(self.largest, length)
        if solve:
            seen.take(pairs)
            self._note_largest()
        if b > 0.0:
            w.div_(b)
            if self._project is not None:
                self._project(w)  # What rounding leaves of another eigenvector would grow from step to step.
                if b <= SHORT[w.dtype] * self.largest:
                    self._purify(w)
        return True

    def _purify(self, w: Tensor) -> None:
        """Takes out of a short remainder, now a unit vector, what rounding has left in it; or says that it is no more.

        If half of it was rounding, there is no new direction, and the space counts as invariant.
        """
        assert self._project is not None
        basis = self._basis[: self.projection.size]
        for _ in range(2):
            taken = vectors.summed(basis @ self._project(w))
            torch.addmv(w, basis.T, taken, alpha=-1.0, out=w)
        length = vectors.norm(self._project(w))
        if length < 0.5:
            self.projection.next_norm = 0.0
        else:
            w.div_(length)

    def solve(self) -> None:
        """Computes the Ritz pairs of the whole basis, if steps went without."""
        _, *pairs = vectors.summed_and_said(self._basis.new_zeros(0), *self.projection.solved())
        self.projection.take((pairs[0], pairs[1]))
        self._note_largest()

    def _note_largest(self) -> None:
        values = self.projection.values
        self.largest = max(self.largest, -float(values[0]), float(values[-1]))

    def vector(self, index: int) -> Tensor:
        """A Ritz vector, normalised; 0 is the lowest, −1 the highest."""
        coefficients = torch.from_numpy(np.ascontiguousarray(self.projection.vectors[:, index])).to(self._basis)
        v = self._basis[: self.projection.vectors.shape[0]].T @ coefficients
        return v.div_(vectors.norm(v))

    def restart(self, lowest: int | None = None, highest: int | None = None) -> None:
        """Keeps Ritz vectors of both ends and the next basis vector, in place: a thick restart (Wu and Simon 2000).

        By default a fixed share of each end is kept. The Ritz pairs must be those of the whole basis.
        """
        size = self.projection.size
        lowest = max(1, size * KEEP_LOWEST // 20) if lowest is None else lowest
        highest = size * KEEP_HIGHEST // 20 if highest is None else highest
        keep = lowest + highest
        coefficients = torch.from_numpy(self.projection.restart(lowest, highest).T.copy()).to(self._basis)
        for block in _column_blocks(self._basis):
            block[:keep] = coefficients @ block[:size]
        self._basis[keep] = self._basis[size]


def _orthogonalise(rows: Tensor, w: Tensor, projection: Projection, solve: bool) -> tuple[list[float], float, Any]:
    """w ← w − QQᵀw in place, of rows = (Q, w); returns Qᵀw, the length of the new w, and the Ritz pairs with `solve`.

    Q is read twice: for h = Qᵀw, and then, block by block in the cache, for w − Qh, its length, and its part in Q that
    rounding has left. Only if this part is too long is it taken out too ("twice is enough"). It is rounding of h, which
    the Ritz pairs need not know. On several ranks, those of the first come with the second message: processors round
    eigenvalues differently, and all ranks must decide alike.
    """
    basis = rows[:-1]
    taken = vectors.summed(torch.mv(basis, w))
    left = None
    for block in _column_blocks(rows):
        torch.addmv(block[-1], block[:-1].T, taken, alpha=-1.0, out=block[-1])
        left = torch.mv(block, block[-1]) if left is None else torch.addmv(left, block, block[-1], out=left)
    assert left is not None
    products = taken.tolist()
    if not math.isfinite(math.hypot(*products)):  # On all ranks alike.
        return products, math.nan, ()
    projection.extend(products)
    (*leftover, squared), *pairs = vectors.summed_and_said(left, *(projection.solved() if solve else ()))
    length = _length(w, squared)
    if not math.hypot(*leftover) <= LEFTOVER[w.dtype] * length:
        torch.addmv(w, basis.T, torch.tensor(leftover, dtype=w.dtype, device=w.device), alpha=-1.0, out=w)
        projection.amend(leftover)
        length = _length(w, float(vectors.summed(torch.dot(w, w))))
    return products, length, pairs


def _length(w: Tensor, squared: float) -> float:
    """‖w‖ from its square, or afresh if the dtype has no room for the square: Hessians may be of any size."""
    precision = torch.finfo(w.dtype)
    usable = precision.tiny / precision.eps <= squared <= precision.max
    return math.sqrt(squared) if usable else vectors.norm(w)


def _columns(basis: Tensor) -> int:
    """Columns of a block that fits into the cache."""
    return max(4096, vectors.BLOCK_BYTES // (basis.shape[0] * basis.element_size()))


def _column_blocks(basis: Tensor) -> tuple[Tensor, ...]:
    columns = _columns(basis)
    return (basis,) if basis.shape[1] <= columns else torch.split(basis, columns, dim=1)
