"""The step along a direction of negative curvature, eqs. (8) and (9).

Both signs of a direction v have the same curvature, so the step is x ∓ sv for a length s; what differs is how the sign
is chosen. Lemma 1 bounds what either step gains.
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
    """x₊ = x − s·sign(vᵀ∇f(x))·v, eq. (8): the sign that also goes down to first order.

    sign(0) is taken as 1 (E29): at an exact saddle the printed rule would not move at all.

    >>> against_gradient(torch.zeros(2), torch.tensor([0.0, 1.0]), torch.zeros(2), 0.5).tolist()
    [0.0, -0.5]
    """
    (slope,) = vectors.dots((v, grad))
    return torch.sub(x, v, alpha=length if slope >= 0.0 else -length)


def at_random(x: Tensor, v: Tensor, length: float, generator: torch.Generator) -> Tensor:
    """x′₊ = x − s·ξ̄·v with a Rademacher ξ̄, eq. (9): for when no gradient is at hand; gains in expectation."""
    heads = bool(torch.randint(2, (), generator=generator, device=generator.device))
    return torch.sub(x, v, alpha=length if heads else -length)


def better_sign(f: SampledFunction, x: Tensor, v: Tensor, length: float) -> Tensor | None:
    """Whichever of x ± sv has the lower value; None if neither is below f(x). Three values."""
    return _moved(x, v, by_values(_values(f.value, x, v), float(f.value(x)), first=length, lengths=1))


def by_line_search(f: SampledFunction, x: Tensor, v: Tensor, *, curvature: float, first_length: float) -> Tensor | None:
    """The best of x ± sv over doubled lengths s; None if none of them is below f(x). Values only.

    No L2 is needed: measured as a third derivative along v it vanishes at every even saddle, and 2q/L2 then means
    nothing. The first length is one at which the predicted gain ½qs² can be told from the rounding of f. Both signs are
    tried until one of them is ahead.

    Args:
        f: on samples that are independent of v.
        curvature: q = −vᵀ∇²f(x)v > 0.
        first_length: s is at least this.

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
    return _moved(x, v, by_values(_values(f.value, x, v), here, first=first, rounding=rounding))


GUESS, QUARTERINGS = 1e-2, 10
"""The first length of a search that knows no better, as a share of max(1, ‖x‖), and how often it is quartered."""


def by_guessed_lengths(
    value: Callable[[Tensor], Any], x: Tensor, v: Tensor, here: float
) -> tuple[Tensor, float] | None:
    """The best of x ± sv from a guessed length s, and its value: quartered until one sign is lower, then doubled while
    that helps. None where no s is lower.

    The curvature says how f begins, not how far that reaches, and L2, which would say, is not known.

    Args:
        value: f, on the samples that x was looked at with.
        here: f(x).

    >>> moved = by_guessed_lengths(lambda x: float(x**4 - x**2), torch.zeros(1), torch.ones(1), 0.0)
    >>> [round(number, 3) for number in (float(moved[0]), moved[1])]
    [0.64, -0.242]
    """
    found = by_values(
        _values(value, x, v),
        here,
        first=GUESS * max(1.0, vectors.norm(x)),
        rounding=4.0 * torch.finfo(x.dtype).eps * abs(here),
        quarterings=QUARTERINGS,
        patience=1,
        ahead=None,
    )
    return None if found is None else (torch.add(x, v, alpha=found.length), found.value)


def _values(value: Callable[[Tensor], Any], x: Tensor, v: Tensor) -> Callable[[float], float]:
    return lambda s: float(value(torch.add(x, v, alpha=s)))


def _moved(x: Tensor, v: Tensor, found: Point | None) -> Tensor | None:
    return None if found is None else torch.add(x, v, alpha=found.length)
