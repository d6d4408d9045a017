"""NEON spread over training steps: one fresh batch a step measures the direction, then turns it downwards.

    h = (∇f_B(x + ru) − ∇f_B(x))/r          one gradient more than the training step takes
    q = uᵀh                                 unbiased: u was made by earlier batches
    u ← u − ηh, normalised                  NEON (Algorithm 1 of the paper) on fresh samples, with |u| = 1

So no batch is spent on confirming what another one found: the q of all steps are the evidence
(`measure.confidence_sequence`). x may move meanwhile, as training does.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from unsaddle import vectors

FADING = 8.0
"""η = 1/L1 falls as 1/(1 + t/FADING): a constant η goes on to follow the noise of each batch. Between 4 and 8 the
curvature along u is lowest on classifiers at zero (`python -m benchmarks.online --turns`)."""


class Look(NamedTuple):
    """What one batch tells about a direction."""

    curvature: float
    """q = uᵀh."""
    size: float
    """‖h‖, at most the L1 of this batch."""
    product: Tensor
    """h."""


def look(u: Tensor, at_x: Tensor, beyond: Tensor, radius: float) -> Look:
    """The curvature of a batch along the unit vector u, from its gradients at x and at x + `radius`·u.

    >>> u, hessian = torch.tensor([0.6, 0.8]), torch.tensor([2.0, -1.0])
    >>> round(look(u, torch.zeros(2), 0.1 * hessian * u, 0.1).curvature, 4)
    0.08
    """
    h = torch.sub(beyond, at_x).div_(radius)
    q, squared = vectors.dots((u, h), (h, h))
    return Look(q, squared**0.5, h)


def turn(u: Tensor, product: Tensor, *, smoothness: float, number: int) -> Tensor:
    """The next direction: u − ηh, normalised. `smoothness` is L1, the largest ‖h‖ so far; `number` is t, from 0 on.

    >>> u = torch.tensor([0.6, 0.8])
    >>> for t in range(20):
    ...     u = turn(u, torch.tensor([2.0, -1.0]) * u, smoothness=2.0, number=t)
    >>> [round(abs(c), 2) for c in u.tolist()]
    [0.0, 1.0]
    """
    if not smoothness > 0.0:
        return u
    moved = torch.sub(u, product, alpha=1.0 / (smoothness * (1.0 + number / FADING)))
    norm = vectors.norm(moved)
    return moved.div_(norm) if norm > 0.0 else u  # A direction of curvature L1 is its own noise: keep it.
