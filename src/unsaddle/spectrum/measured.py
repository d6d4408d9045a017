"""Values, vectors and errors of what runs have found: the Hessian projected on it once more, by other products."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unsaddle import vectors
from unsaddle.measure.direction import CLAIMED
from unsaddle.spectrum.ends import NO_OTHERS, Interval, errors
from unsaddle.spectrum.hessian import FARTHER_OUT, Hessian
from unsaddle.vectors import Array

Mask = NDArray[np.bool_]


class Measured(NamedTuple):
    """Ritz pairs of a few orthonormal vectors, ascending."""

    values: Array
    errors: Array
    """How far each value is from an eigenvalue: by its residual, and by what radii disagree."""
    disagreement: Array
    """The part of the error that radii disagree by. But for it, the k-th of these values is not below the k-th
    eigenvalue, however bad the vectors are."""
    vectors: list[Tensor]

    @property
    def is_finite(self) -> bool:
        return bool(np.isfinite(self.values).all() and np.isfinite(self.errors).all())


def measured(
    hessian: Hessian,
    found: Sequence[Tensor],
    claimed: Array,
    largest: float,
    mask: Tensor | None,
    room: Callable[[Array], Array] | None = None,
    others: Interval = NO_OTHERS,
) -> Measured:
    """Rayleigh and Ritz on orthonormal vectors, with products on the other side of x, twice as far out as the search.

    `claimed` are the curvatures along the vectors by the search, and `others` is where other eigenvalues lie. Three
    times the difference, as for a single direction (`measure.direction`), the rounding along it, and the error by the
    residual make the error of a value.

    Most of the difference is often the third derivative. Where an error is larger than `room` has for its value, the
    product is taken on the same side, too, and their mean has none. If that does not do, for all vectors.

    Cost: one gradient a vector, two where products are central, or errors too large. Memory: as many vectors again,
    twice.
    """
    products, claimed = [hessian.measure(v, largest) for v in found], claimed.copy()
    _restrict(products, mask)
    seen = _ritz(hessian, found, products, claimed, largest, np.zeros(len(found), dtype=bool), others)
    if room is None or not seen.is_finite or not hessian.is_one_sided(largest):
        return seen
    if (seen.errors <= room(seen.values)).all():
        return seen
    central = np.zeros(len(found), dtype=bool)
    for some in (seen.errors > room(seen.values), ~central):
        for i in np.flatnonzero(some & ~central).tolist():
            v, w = found[i], products[i]
            other = hessian.opposite(v, largest)
            _restrict([other], mask)
            here, there = vectors.dots((v, other), (v, w))
            claimed[i] -= (here - there) / (2.0 * FARTHER_OUT)  # The third derivative, at the radius of the search.
            w.add_(other).div_(2.0)
        central |= some
        seen = _ritz(hessian, found, products, claimed, largest, central, others)
        if (seen.errors <= room(seen.values)).all():
            break
    return seen


def _restrict(products: Sequence[Tensor], mask: Tensor | None) -> None:
    if mask is not None:
        for w in products:
            w.mul_(mask)


def _ritz(
    hessian: Hessian,
    found: Sequence[Tensor],
    products: Sequence[Tensor],
    claimed: Array,
    largest: float,
    central: Mask,
    others: Interval,
) -> Measured:
    projected = vectors.dot_matrix(found, products)
    squares = np.array(vectors.dots(*((w, w) for w in products)))
    if not (np.isfinite(projected).all() and np.isfinite(squares).all()):
        nothing = np.full(len(found), math.nan)
        return Measured(nothing, nothing, nothing, list(found))
    off = CLAIMED * np.abs(projected.diagonal() - claimed) + hessian.error_along(claimed, largest)
    far = projected.diagonal().copy()
    np.fill_diagonal(projected, np.where(central, far, hessian.both(claimed, far, largest)))
    pairs = torch.linalg.eigh(torch.from_numpy((projected + projected.T) / 2.0))
    # Processors round eigenvectors differently, and all ranks must turn their parts alike.
    own = torch.cat([pairs.eigenvalues, pairs.eigenvectors.flatten()]).numpy()
    _, said = vectors.summed_and_said(found[0].new_zeros(0), own)
    values, turn_by = said[: len(found)], said[len(found) :].reshape(projected.shape)
    turn = torch.from_numpy(turn_by).to(found[0])
    ritz = combined(found, turn)
    images = combined(products, turn)
    residuals = np.array([vectors.norm(w.sub_(v, alpha=t)) for v, w, t in zip(ritz, images, values, strict=True)])
    disagreement = np.square(turn_by).T @ off
    return Measured(values, disagreement + errors(values, residuals, others), disagreement, ritz)


def combined(found: Sequence[Tensor], turn: Tensor) -> list[Tensor]:
    """Σ_i turn_ij·v_i for every j."""
    return list(torch.unbind(turn.T @ torch.stack(list(found))))
