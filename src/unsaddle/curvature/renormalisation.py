"""Keeps an iterate near the radius of its noise, where f̂ is quadratic (Zhang and Li, 2021)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from unsaddle import vectors


def renormalised(
    squared_norm: float, radius: float, x: Tensor, point: Tensor | None, u: Tensor, *others: Tensor, unit: float = 1.0
) -> float:
    """Rescales (u, *others) in place to ‖u‖ = r if ‖u‖ has left [r/2, 2r]; returns ‖u‖².

    A u that is zero or not finite stays as it is. `point` is x + unit·u, and follows u; it is None if the function
    forms it itself. `others` are all vectors of the state that depend linearly on the start with u. On a quadratic,
    rescaling them together changes no direction.
    """
    if radius / 2.0 <= math.sqrt(squared_norm) <= 2.0 * radius or not 0.0 < squared_norm < math.inf:
        return squared_norm
    scale = radius / math.sqrt(squared_norm)
    for x_, p_, u_, *others_ in vectors.blocks(x, point, u, *others):
        for v_ in (u_, *others_):
            v_.mul_(scale)
        torch.add(x_, u_, alpha=unit, out=p_)
    return radius**2
