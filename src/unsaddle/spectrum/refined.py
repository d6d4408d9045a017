"""Eigenpairs that float32 has found roughly, made exact by products in float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.spectrum.answer import Found, answer, room
from unsaddle.spectrum.ends import Goal, Interval, Stop, errors
from unsaddle.spectrum.hessian import Hessian
from unsaddle.spectrum.measured import combined
from unsaddle.spectrum.result import Eigenpairs, Status
from unsaddle.spectrum.space import Space
from unsaddle.vectors import Array

ROUNDS = 4
"""Residuals are added so many times. Vectors of a search in float32 take one round or two."""

HOPELESS = 30.0
"""Where a residual says that a value may be off by so many times what is allowed, a new search is cheaper."""

SHARE = 0.5
"""Of what is allowed, residuals may take this share; the rest is for what radii disagree by."""

ENCLOSED = 0.1
"""What float32 has proved of all other eigenvalues does if it is within this share of the last value of each end."""

NEW = 1e-3
"""A vector is left out if no more than this share of it lies outside of the space."""


def refined(hessian: Hessian, pairs: Eigenpairs, goal: Goal, generator: torch.Generator) -> Eigenpairs | None:
    """The same pairs, known by products of a better Hessian; None if that would not be cheaper than a search.

    It is not if fewer were found than were asked for; if `bound` leaves much room beyond the values, so that there may
    be others; if residuals are far too large; or if they are too large after the last round.

    Args:
        hessian: that of F in float64.
        pairs: the answer in float32. Its `bound` stays that of the new answer.
        goal: what was asked for.
        generator: as for any answer.
    """
    if len(pairs.values) < goal.lowest + goal.highest:
        return None
    ends = [(pairs.values[goal.lowest - 1], pairs.bound[0])] if goal.lowest else []
    ends += [(pairs.values[-goal.highest], pairs.bound[1])] if goal.highest else []
    if any(not abs(bound - value) <= ENCLOSED * abs(value) for value, bound in ends):
        return None
    largest = float(np.abs(pairs.values).max())
    seen = _ritz_pairs(hessian, list(pairs.vectors), goal, largest, pairs.bound)
    if seen is None:
        return None
    found = Found(
        vectors=seen.vectors,
        values=seen.values,
        others=pairs.bound,
        bound=pairs.bound,
        stop=Stop.DONE,
        largest=largest,
        memory=max(pairs.memory, 3 * seen.size + 2 * len(seen.vectors)),
        dimension=pairs.dimension,
    )
    better = answer(hessian, goal, found, None, None, generator)
    return better if better.status is Status.CONVERGED else None


class _Pairs(NamedTuple):
    vectors: list[Tensor]
    values: Array
    size: int
    """Dimensions of the space in the end."""


def _ritz_pairs(
    hessian: Hessian, found: Sequence[Tensor], goal: Goal, largest: float, others: Interval
) -> _Pairs | None:
    """The Ritz pairs at both ends of a space that begins as the span of `found`.

        V ← orthonormal basis of `found`;  W = HV
        (θ, X) = Ritz pairs of sym(VᵀW) at both ends;  R = HX − Xθ
        V ← (V, the residuals that are too large);  and again

    A block method of Davidson's kind, without a preconditioner. Its first space is good to a per cent, so that a few
    products do. Errors are ρ²/gap only where the gap to all others is proved: by the interval in which they lie.

    Cost: a product for each of `found`, and for each residual that was added. Memory: V, W, and a copy of one of them.
    """
    space, images, new = Space(hessian.x), list[Tensor](), list(found)
    for _ in range(ROUNDS + 1):
        images += _added(hessian, space, new, largest)
        size = len(images)
        if size < goal.lowest + goal.highest:
            return None
        projected = torch.from_numpy(vectors.dot_matrix(list(space.locked), images))
        if not torch.isfinite(projected).all():
            return None
        pairs = torch.linalg.eigh((projected + projected.T) / 2.0)
        ends = [*range(goal.lowest), *range(size - goal.highest, size)]
        values, turn = pairs.eigenvalues[ends].numpy(), pairs.eigenvectors[:, ends].to(hessian.x)
        ritz, residuals = combined(list(space.locked), turn), combined(images, turn)
        lengths = [vectors.norm(w.sub_(v, alpha=value)) for v, w, value in zip(ritz, residuals, values, strict=True)]
        off = errors(values, np.array(lengths), others) / (SHARE * room(goal, largest, values))
        if (off <= 1.0).all():
            return _Pairs(ritz, values, size)
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
