"""Lower points within the bounds, by values of fun: along a line, and by descent on the quadratic model."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.cost import Ledger
from unsaddle.curvature.result import Curvature
from unsaddle.escape import by_line_search
from unsaddle.escape.line_search import by_values
from unsaddle.interop.scipy.free_function import FreeFunction
from unsaddle.judgement.flat_direction import FlatFall
from unsaddle.objectives.differences import EPS, Array

LONG = 1e-3
"""The first length of a step, times max(1, the size of x)."""

TRIED = (1.0, 30.0, 1.0 / 30.0, 1e-3)
"""Lengths, in units of the first length, at which a way from a bound is tried."""

MOST_DESCENTS, STANDS = 10, 1e-6
"""A descent ends after so many gradients, or if it moves by less than this share of its length."""


def along_direction(f: FreeFunction, direction: Tensor, curvature: float, shortest: float) -> Array | None:
    """A line search along the direction from a thousandth of x's size; if that fails, from the shortest length.

    From the shortest length it takes some thirty values of fun to reach that size. The result is clipped to the bounds.
    """
    for first_length in (_long(f), shortest):
        moved = by_line_search(f.sample(), f.point, direction, curvature=abs(curvature), first_length=first_length)
        if moved is not None:
            return f.inside(moved)
    return None


def along_flat_line(f: FreeFunction, falls: FlatFall) -> Array:
    """The lowest point along a direction where fun is flat to second order, and was seen to fall.

    The length at which it was seen is doubled while values fall. The result is clipped to the bounds.
    """
    sampled = f.sample()
    here, first, direction = f.at.value, falls.length, falls.direction

    def value_at(s: float) -> float:
        return float(sampled.value(torch.add(f.point, direction, alpha=s)))

    lowest = by_values(value_at, here, first=first, rounding=16.0 * EPS * abs(here))
    return f.inside(torch.add(f.point, direction, alpha=falls.length if lowest is None else lowest.length))


def along_lines(f: FreeFunction, found: Curvature, inwards: Tensor) -> Array | None:
    """A lower point within the bounds, along ± the direction found or inwards along all doubtful variables; or None.

    Clipping to the bounds leaves of ± the direction the part that leads inwards.
    """
    v, all_in_doubt = found.direction, inwards / vectors.norm(inwards)
    for direction in (all_in_doubt,) if v is None else (v, -v, all_in_doubt):
        lower_point = _if_lower(f, direction, 1.0 if v is None else found.curvature)
        if lower_point is not None:
            return lower_point
    return None


def by_descent(f: FreeFunction, found: Curvature, inwards: Tensor, seed: int, ledger: Ledger) -> Array | None:
    """A lower point within the bounds, by projected descent on pᵀHp over offsets p of one length; or None.

    It begins at a random offset, inwards for doubtful variables. None proves nothing: whether a matrix is copositive is
    hard to decide, and a descent may end at pᵀHp > 0 though it is negative elsewhere.
    """
    length, sampled = _long(f), f.sample(ledger=ledger)
    grad = f.sample().grad(f.point)
    at_random = torch.from_numpy(np.random.default_rng(seed).standard_normal(len(inwards)))
    start = torch.where(inwards != 0.0, inwards * at_random.abs(), at_random)
    smoothness = 0.0 if np.isnan(found.smoothness) else found.smoothness

    def of_one_length(p: Tensor) -> Tensor | None:
        p = f.offset(p)
        size = vectors.norm(p)
        return f.offset(p * (length / size)) if size > 0.0 else None

    p = of_one_length(start * (length / vectors.norm(start)))
    for _ in range(MOST_DESCENTS):
        if p is None:
            return None
        product = sampled.grad_at_sum(f.point, p) - grad
        size, (along, square) = vectors.norm(product), vectors.dots((p, product), (p, p))
        if not np.isfinite(size):
            return None
        if along < 0.0:
            lower_point = _if_lower(f, p / square**0.5, along / square)
            if lower_point is not None:
                return lower_point
        smoothness = max(smoothness, size / square**0.5)
        before, p = p, of_one_length(p - product / smoothness) if smoothness > 0.0 else None
        if p is not None and vectors.norm(p - before) <= STANDS * length:
            return None
    return None


def _if_lower(f: FreeFunction, direction: Tensor, curvature: float) -> Array | None:
    """A lower point along the direction; mostly None, so a line search begins only if one of a few lengths is lower."""
    value = f.at.value
    rounding = 16.0 * EPS * abs(value)
    for share in TRIED:
        tried = f.inside(torch.add(f.point, direction, alpha=share * _long(f)))
        if f.at.function.value(tried) < value - rounding:
            lowest = along_direction(f, direction, curvature, share * _long(f))
            return tried if lowest is None else lowest
    return None


def _long(f: FreeFunction) -> float:
    return LONG * max(1.0, f.size)
