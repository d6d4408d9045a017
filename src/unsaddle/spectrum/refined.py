"""Eigenvectors that are nearly known, by products that are better than those they were found by."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.spectrum.ends import errors
from unsaddle.spectrum.hessian import Hessian
from unsaddle.spectrum.measured import combined
from unsaddle.spectrum.space import Space
from unsaddle.vectors import Array

ROUNDS = 4
"""Residuals are added so many times. Vectors of a search in float32 take one round or two."""

HOPELESS = 30.0
"""Where a residual says that a value may be off by so many times what is allowed, a new search is cheaper."""

SHARE = 0.5
"""Of what is allowed, residuals may take this share; the rest is for what radii disagree by."""

NEW = 1e-3
"""A residual is left out if no more than this share of it lies outside of the space."""


def refined(
    hessian: Hessian, found: Sequence[Tensor], low: int, high: int, largest: float, room: Callable[[Array], Array]
) -> tuple[list[Tensor], Array] | None:
    """The `low` lowest and `high` highest Ritz pairs of a space that begins as the span of `found`.

        V ← orthonormal basis of `found`;  W = HV
        (θ, X) = Ritz pairs of sym(VᵀW) at both ends;  R = HX − Xθ
        V ← (V, the residuals that are too large);  and again

    A block method of Davidson's kind, without a preconditioner. Its first space is good to a per cent, so that few
    products do where a new search would take as many as the first one.

    Args:
        hessian: whose products are better.
        found: the vectors.
        low: how many pairs are wanted of the lower end.
        high: and of the higher one.
        largest: the largest |eigenvalue| seen so far.
        room: the error that is allowed for values.

    Returns:
        Vectors and values, or None where residuals are far too large, or too large after the last round.

    Cost: a product for each of `found`, and for each residual that was added. Memory: twice as many vectors, and two
    for each pair.
    """
    space, images, new = Space(hessian.x), list[Tensor](), list(found)
    for _ in range(ROUNDS + 1):
        images += _added(hessian, space, new, largest)
        projected = torch.from_numpy(vectors.dot_matrix(list(space.locked), images))
        if len(images) < low + high or not torch.isfinite(projected).all():
            return None
        pairs = torch.linalg.eigh((projected + projected.T) / 2.0)
        ends = [*range(low), *range(len(images) - high, len(images))]
        values, turn = pairs.eigenvalues[ends].numpy(), pairs.eigenvectors[:, ends].to(hessian.x)
        ritz, residuals = combined(list(space.locked), turn), combined(images, turn)
        lengths = [vectors.norm(w.sub_(v, alpha=value)) for v, w, value in zip(ritz, residuals, values, strict=True)]
        off = errors(values, np.array(lengths)) / (SHARE * room(values))
        if (off <= 1.0).all():
            return ritz, values
        if (off > HOPELESS).any():
            return None
        new = [w for w, much in zip(residuals, off, strict=True) if much > 1.0]
    return None


def _added(hessian: Hessian, space: Space, new: Sequence[Tensor], largest: float) -> list[Tensor]:
    """Locks what of these vectors is new to the space. Returns its products."""
    products = list[Tensor]()
    for w in new:
        v = w.to(hessian.x)
        v = space.project(v / vectors.norm(v))
        left = vectors.norm(v)
        if left > NEW:
            v = space.project(v.div_(left))  # Once more: rounding has left a part in the space.
            space.lock([v.div_(vectors.norm(v))])
            products.append(torch.empty_like(v))
            hessian.multiply(v, products[-1], largest)
    return products
