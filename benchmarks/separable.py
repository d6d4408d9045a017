"""f(x) = Σ (x_i⁴/4 − x_i²/2): a double well in each coordinate, for the benchmarks of time and memory.

Its gradient x³ − x is made in one new vector and needs no other, so that it takes as little as a gradient can that
reads x from memory; whatever an extractor adds to that shows.
"""

from __future__ import annotations

import torch
from torch import Tensor

from unsaddle import Function


def double_wells(buffer: Tensor | None = None) -> Function:
    """The function as an objective; with a buffer, every gradient is written there instead of in a new vector."""

    def value_and_grad(x: Tensor) -> tuple[Tensor, Tensor]:
        square = torch.mul(x, x, out=buffer)
        value = 0.25 * torch.dot(square, square) - 0.5 * torch.sum(square)
        return value, square.sub_(1.0).mul_(x)

    return Function(value_and_grad, gradient=True)


def point(dimension: int, seed: int, *, scale: float = 0.5, dtype: torch.dtype = torch.float32) -> Tensor:
    """A point uniform in [−scale, scale]ᵈ, made without a second vector; |x_i| < 0.57 is where f curves down."""
    return torch.empty(dimension, dtype=dtype).uniform_(-scale, scale, generator=torch.Generator().manual_seed(seed))
