"""A rotation of the coordinates that costs O(d)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from unsaddle import checks
from unsaddle.problems.arguments import generator, normal


def reflection(dimension: int, seed: int | None, dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
    """Q = I − 2wwᵀ for a random unit vector w. Q is its own inverse. The identity if `seed` is None.

    >>> Q = reflection(3, 0, torch.float64)
    >>> x = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    >>> bool(torch.allclose(Q(Q(x)), x))
    True
    """
    checks.count(dimension, "dimension")
    if seed is None:
        return lambda x: x
    w = normal(dimension, random=generator(seed))
    w = (w / torch.linalg.vector_norm(w)).to(dtype)
    return lambda x: x - w * (2.0 * torch.dot(w, x))
