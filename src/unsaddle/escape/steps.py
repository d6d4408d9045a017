"""The step along a direction of negative curvature, eqs. (8) and (9).

Both signs of a direction v have the same curvature, so the step is x ∓ sv for a length s; what differs is how the sign
is chosen. Lemma 1 bounds what either step gains.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from unsaddle import vectors
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
    here = float(f.value(x))
    tried = [(float(f.value(torch.add(x, v, alpha=side * length))), side) for side in (1.0, -1.0)]
    value, sign = min(tried, key=_finite_first)
    return torch.add(x, v, alpha=sign * length) if value < here else None


def _finite_first(tried: tuple[float, float]) -> float:
    """The value, for comparison: nan is worse than any."""
    return math.inf if math.isnan(tried[0]) else tried[0]


DOUBLINGS = 60
LOST = 2
"""Lengths in a row that do not lower the value any further before the search ends."""


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
    length = max(first_length, math.sqrt(2.0 * rounding / curvature))
    best, best_value, lost = None, here - rounding, 0
    signs = [1.0, -1.0]
    for _ in range(DOUBLINGS):
        tried = [(float(f.value(torch.add(x, v, alpha=sign * length))), sign) for sign in signs]
        value, sign = min(tried, key=lambda pair: pair[0] if math.isfinite(pair[0]) else math.inf)
        if value < best_value:
            best, best_value, lost = sign * length, value, 0
        elif best is not None:
            lost += 1
        if lost == LOST or not math.isfinite(value):
            break
        if len(signs) == 2 and abs(tried[0][0] - tried[1][0]) > max(rounding, 0.1 * abs(value - here)):
            signs = [sign]
        length *= 2.0
    return None if best is None else torch.add(x, v, alpha=best)
