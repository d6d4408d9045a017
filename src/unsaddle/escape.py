"""The step along a direction of negative curvature, eqs. (8) and (9).

Both signs of a direction v have the same curvature, so the step is x ∓ sv for a length s; what differs is how the sign
is chosen. Lemma 1 bounds what either step gains.
"""

from __future__ import annotations

import torch
from torch import Tensor

from unsaddle import vectors


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
