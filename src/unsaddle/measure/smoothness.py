"""L1 from a few products, in one vector."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from unsaddle import vectors

SMOOTHNESS_STEPS = 8
"""Products taken by `smoothness`. After k of them a power iteration from a random start has seen a growth of at least
‖H‖·d^{-1/(2k)}, up to probability: within a factor of two at d = 1e5."""


def smoothness(
    product: Callable[[Tensor], Tensor], like: Tensor, generator: torch.Generator, steps: int = SMOOTHNESS_STEPS
) -> float:
    """Twice the largest growth ‖Hv‖/‖v‖ that a power iteration of a few products sees: an estimate of L1 from above.

    Args:
        product: v ↦ Hv, exact or by a difference of gradients; one gradient each in the second case. It may answer in
            v, and what it answers is written to.
        like: a vector of the space.
        generator: the randomness of the start.
        steps: how many products.

    Returns:
        The estimate; nan or inf if a product was not finite.
    """
    v = vectors.random_direction(like, generator)
    largest = 0.0
    for _ in range(steps):
        v = product(v)
        growth = vectors.norm(v)
        if not math.isfinite(growth):
            return growth
        largest = max(largest, growth)
        if growth == 0.0:
            break
        v = v.div_(growth)
    return 2.0 * largest
