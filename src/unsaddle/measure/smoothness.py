"""L1 from a few Hessian products. Holds one vector."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from unsaddle import vectors

SMOOTHNESS_STEPS = 8
"""k, the products of `smoothness`."""


def smoothness(
    product: Callable[[Tensor], Tensor], like: Tensor, generator: torch.Generator, steps: int = SMOOTHNESS_STEPS
) -> float:
    """The largest growth ‖Hv‖/‖v‖ in a short power iteration, times d^{1/(2k)}: an estimate of L1 from above.

    With high probability, k power steps from a random start see a growth of at least about ‖H‖·d^{-1/(2k)}: half of ‖H‖
    at d = 1e5. The result is nan or inf if a product is not finite.

    Args:
        product: v ↦ Hv, exact or by a difference of gradients. It may overwrite v, and its result is overwritten.
        like: any vector of the space.
        generator: the randomness of the start.
        steps: the number of products.
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
    return largest * math.pow(vectors.dimension(like), 0.5 / steps)
