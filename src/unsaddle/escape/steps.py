"""Steps along a direction of negative curvature, eqs. (8) and (9).

Both signs of a direction v have the same curvature, so a step is x ∓ sv with a length s. The rules differ in the choice
of the sign and of s. Lemma 1 bounds the gain of both equations.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.escape.line_search import Point, by_values
from unsaddle.objective import SampledFunction


def against_gradient(x: Tensor, v: Tensor, grad: Tensor, length: float) -> Tensor:
    """x₊ = x − s·sign(vᵀ∇f(x))·v, eq. (8). This sign goes down to first order, too.

    sign(0) is 1 here (E29). The printed rule would not move at an exact saddle.

    >>> against_gradient(torch.zeros(2), torch.tensor([0.0, 1.0]), torch.zeros(2), 0.5).tolist()
    [0.0, -0.5]
    """
    (slope,) = vectors.dots((v, grad))
    return torch.sub(x, v, alpha=length if slope >= 0.0 else -length)


def at_random(x: Tensor, v: Tensor, length: float, generator: torch.Generator) -> Tensor:
    """x′₊ = x − s·ξ̄·v with a Rademacher ξ̄, eq. (9). It needs no gradient, and gains in expectation."""
    heads = bool(torch.randint(2, (), generator=generator, device=generator.device))
    return torch.sub(x, v, alpha=length if heads else -length)


def better_sign(f: SampledFunction, x: Tensor, v: Tensor, length: float) -> Tensor | None:
    """The lower of x ± sv; None if neither is below f(x). Three values."""
    return _moved(x, v, by_values(_values(f.value, x, v), float(f.value(x)), first=length, lengths=1))


def by_line_search(f: SampledFunction, x: Tensor, v: Tensor, *, curvature: float, first_length: float) -> Tensor | None:
    """The lowest of x ± sv over doubled lengths s (`by_values`); None if none is below f(x). Values only.

    The length 2q/L2 would need L2, and the third derivative along v, which would show it, vanishes at every even
    saddle. At the first length here, the predicted gain ½qs² exceeds the rounding of f.

    Args:
        f: F on samples that are independent of v.
        curvature: q = −vᵀ∇²f(x)v > 0.
        first_length: a lower bound on s.

    >>> from unsaddle import Function
    >>> f = Function(lambda x: x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4).sample()
    >>> x, v = torch.zeros(2, dtype=torch.float64), torch.tensor([0.0, 1.0], dtype=torch.float64)
    >>> found = by_line_search(f, x, v, curvature=2.0, first_length=1e-6)
    >>> 1.0 < abs(float(found[1])) < 2.0
    True
    """
    here = float(f.value(x))
    rounding = 16.0 * torch.finfo(x.dtype).eps * abs(here)
    first = max(first_length, math.sqrt(2.0 * rounding / curvature))
    return _moved(x, v, by_values(_values(f.value, x, v), here, first=first, rounding=rounding, curvature=curvature))


GUESS, QUARTERINGS = 1e-2, 10
"""The first length of `by_guessed_lengths`, as a share of max(1, ‖x‖), and how often it may be quartered."""


def by_guessed_lengths(
    value: Callable[[Tensor], Any], x: Tensor, v: Tensor, here: float
) -> tuple[Tensor, float] | None:
    """The lowest of x ± sv and its value, from a guessed length s; None if no s is lower. Values only.

    s is quartered until one sign is lower, then doubled while that helps. It is a guess since the curvature does not
    tell how far the quadratic model holds, and L2 is unknown.

    Args:
        value: f, on the samples that gave `here`.
        here: f(x).

    >>> moved = by_guessed_lengths(lambda x: float(x**4 - x**2), torch.zeros(1), torch.ones(1), 0.0)
    >>> [round(number, 3) for number in (float(moved[0]), moved[1])]
    [0.64, -0.242]
    """
    first, rounding = GUESS * max(1.0, vectors.norm(x)), 4.0 * torch.finfo(x.dtype).eps * abs(here)
    found = by_values(
        _values(value, x, v), here, first=first, rounding=rounding, quarterings=QUARTERINGS, patience=1, ahead=None
    )
    return None if found is None else (torch.add(x, v, alpha=found.length), found.value)


def _values(value: Callable[[Tensor], Any], x: Tensor, v: Tensor) -> Callable[[float], float]:
    return lambda s: float(value(torch.add(x, v, alpha=s)))


def _moved(x: Tensor, v: Tensor, found: Point | None) -> Tensor | None:
    return None if found is None else torch.add(x, v, alpha=found.length)
