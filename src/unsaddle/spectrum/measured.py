"""Values, vectors and errors of what runs have found: the Hessian projected on it once more, by other products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.measure.direction import CLAIMED
from unsaddle.spectrum.ends import dot_matrix, errors
from unsaddle.spectrum.hessian import Hessian
from unsaddle.vectors import Array


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
    hessian: Hessian, found: Sequence[Tensor], claimed: Array, largest: float, mask: Tensor | None
) -> Measured:
    """Rayleigh and Ritz on orthonormal vectors, with products on the other side of x, twice as far out as the search.

    `claimed` are the curvatures along the vectors by the search. Three times the difference, as for a single direction
    (`measure.direction`), the rounding along it, and the error by the residual make the error of a value.

    Cost: one gradient a vector, two where products are central. Memory: as many vectors again, twice.
    """
    products = [hessian.measure(v, largest) for v in found]
    if mask is not None:
        for w in products:
            w.mul_(mask)
    projected = dot_matrix(list(found), products)
    squares = np.array(vectors.dots(*((w, w) for w in products)))
    if not (np.isfinite(projected).all() and np.isfinite(squares).all()):
        nothing = np.full(len(found), math.nan)
        return Measured(nothing, nothing, nothing, list(found))
    off = CLAIMED * np.abs(projected.diagonal() - claimed) + hessian.error_along(claimed, largest)
    np.fill_diagonal(projected, hessian.both(claimed, projected.diagonal().copy(), largest))
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
    return Measured(values, disagreement + errors(values, residuals), disagreement, ritz)


def combined(found: Sequence[Tensor], turn: Tensor) -> list[Tensor]:
    """Σ_i turn_ij·v_i for every j."""
    return list(torch.unbind(turn.T @ torch.stack(list(found))))
