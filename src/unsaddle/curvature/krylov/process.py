"""The Krylov process: an orthonormal basis that grows by one product at a time, and the Hessian projected on it.

Its clients: `certificate` finds or excludes negative curvature with gradient differences, `lanczos` does so with exact
products, `smoothness` measures L1, `spectrum` has eigenpairs and densities.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.curvature.krylov.projection import Projection
from unsaddle.ranks import current
from unsaddle.vectors import Array

Operator = Callable[[Tensor, Tensor], object]
"""(q, out): writes Hq into `out`."""

KEEP_LOWEST, KEEP_HIGHEST = 8, 4
"""Ritz vectors that a restart keeps of 20 vectors; other bases keep the same share. The lowest are looked for. The
highest would come back and cost steps again."""

INSIDE = 0.1
"""A new vector is orthogonalised once more if the last pass took out of it more than this share of what is left."""

LEFT = 0.5
"""If a projection leaves less than this share of a vector, it is orthogonalised and projected once more."""

SUMMED = 1 << 16
"""Entries of a vector whose products are summed in its own precision; float32 would lose digits over millions."""

BREAKDOWN = 10.0
"""The space is invariant if no more than so many roundings of the largest eigenvalue are left of a product."""

SHORT = {torch.float32: 1e-2, torch.float64: 1e-6}
"""If no more than this share of the largest eigenvalue is left of a product, its rounding is not small beside it."""


class KrylovProcess:
    """Q, an orthonormal basis of a Krylov space, and M = sym(QᵀHQ).

        w = Hq_j;  h = Qᵀw, w ← w − Qh, by two passes or three (h summed);  b = ‖w‖;  q_{j+1} = w/b

    Full reorthogonalisation and the symmetrised projection keep the Ritz values right for products with an error. The
    three-term recurrence would not. `start` is the unit vector q_0. A basis of `capacity` vectors must be restarted
    before it can grow. With `project`, P, which projects a vector in place, the process is that of PHP; `start` is then
    in the subspace. Memory: capacity + 1 vectors in one block.

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
        rows, w = self._basis[: j + 2], self._basis[j + 1]
        self._operator(self._basis[j], w)
        # On ranks each sum is a message. So the first one has all products, and the Ritz pairs go with the second.
        at_once = current() is not None
        early = self._with_products if at_once and solve else None
        products, b, pairs = _orthogonalise(rows, 0 if at_once else seen.coupled, early)
        if self._project is not None:  # What rounding leaves of another eigenvector would grow from step to step.
            outside, b = b, vectors.norm(self._project(w))
            if 0.0 < b < LEFT * outside:  # The rounding of what was taken out is not small beside what is left.
                _take_out(rows)
                b = vectors.norm(self._project(w))
        length = math.hypot(b, *products)
        if not math.isfinite(length):
            seen.size = j
            return False
        if not pairs:
            seen.extend(products)
        seen.follow(b)
        self.largest = max(self.largest, length)
        if pairs:
            self._take(*pairs)
        elif solve:
            self.solve()
        if b > 0.0:
            w.div_(b)
            if self._project is not None and b <= SHORT[w.dtype] * self.largest:
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
        """Computes the Ritz pairs of the whole basis, if steps went without. All ranks take those of the first."""
        _, *pairs = vectors.summed_and_said(self._basis.new_zeros(0), *self.projection.solved())
        self._take(*pairs)

    def _with_products(self, products: list[float]) -> tuple[Array, ...]:
        """The Ritz pairs of the basis with one more vector; none if a product is not finite, on all ranks alike."""
        if not math.isfinite(math.hypot(*products)):
            return ()
        self.projection.extend(products)
        return self.projection.solved()

    def _take(self, values: Array, pairs: Array) -> None:
        self.projection.take((values, pairs))
        self.largest = max(self.largest, -float(values[0]), float(values[-1]))

    def vector(self, index: int) -> Tensor:
        """A Ritz vector, normalised; 0 is the lowest, −1 the highest."""
        return self.ritz_vectors([index])[0]

    def ritz_vectors(self, indices: Sequence[int]) -> Tensor:
        """Several of them, as rows. The basis is read once."""
        pairs = self.projection.vectors
        found = torch.from_numpy(pairs[:, list(indices)].T.copy()).to(self._basis) @ self._basis[: len(pairs)]
        for v in found:
            v.div_(vectors.norm(v))
        return found

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


def _orthogonalise(
    rows: Tensor, coupled: int, early: Callable[[list[float]], tuple[Array, ...]] | None = None
) -> tuple[list[float], float, tuple[Array, ...]]:
    """w ← w − QQᵀw in place, of rows = (Q, w), where w is the product with the last of Q. Returns Qᵀw and the new ‖w‖.

    But for errors, w has a part in few vectors of Q: those from `coupled` on. It is taken out first. What is left in Q
    is small, so that one pass over all of it leaves no more than rounding. Where w is nearly inside of Q, there is one
    more ("twice is enough").

    Where `coupled` is 0, `early` may make numbers of the first products: those of the first rank are returned, too.
    What is left after them is rounding, which the numbers need not know.
    """
    w, near = rows[-1], rows[coupled:-1]
    first = vectors.summed(_products(near, w))
    torch.addmv(w, near.T, first.to(w.dtype), alpha=-1.0, out=w)
    products = [0.0] * coupled + first.tolist()
    left, squared, numbers = _take_out(rows, *(early(products) if early else ()))
    inside = math.hypot(*left)
    length = _length(w, squared - inside * inside)
    if not inside <= INSIDE * length:
        more, *_ = _take_out(rows)
        left, length = [one + other for one, other in zip(left, more, strict=True)], vectors.norm(w)
    return [one + other for one, other in zip(products, left, strict=True)], length, numbers


def _take_out(rows: Tensor, *numbers: Array) -> tuple[list[float], float, tuple[Array, ...]]:
    """w ← w − QQᵀw in place, of rows = (Q, w). Returns Qᵀw, ‖w‖² before it, and the first rank's numbers."""
    (*products, squared), *said = vectors.summed_and_said(_products(rows, rows[-1]), *numbers)
    taken = torch.tensor(products, dtype=rows.dtype, device=rows.device)
    torch.addmv(rows[-1], rows[:-1].T, taken, alpha=-1.0, out=rows[-1])
    return products, squared, tuple(said)


def _products(rows: Tensor, w: Tensor) -> Tensor:
    """This rank's part of the inner products of the rows with w; in float64 if they are long."""
    if vectors.dimension(w) <= SUMMED:
        return torch.mv(rows, w)
    blocks = zip(torch.split(rows, SUMMED, dim=1), torch.split(w, SUMMED), strict=True)
    return torch.stack([torch.mv(block, part) for block, part in blocks]).double().sum(dim=0)


def _length(w: Tensor, squared: float) -> float:
    """‖w‖ from its square, or afresh if the dtype has no room for the square: Hessians may be of any size."""
    precision = torch.finfo(w.dtype)
    usable = precision.tiny / precision.eps <= squared <= precision.max
    return math.sqrt(squared) if usable else vectors.norm(w)


def _column_blocks(basis: Tensor) -> tuple[Tensor, ...]:
    """The basis in blocks of columns that fit into the cache."""
    columns = max(4096, vectors.BLOCK_BYTES // (basis.shape[0] * basis.element_size()))
    return (basis,) if basis.shape[1] <= columns else torch.split(basis, columns, dim=1)
