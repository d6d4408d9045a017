"""Keeping an iterate near the radius of its noise: Zhang and Li's way to stay where f̂ is quadratic."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from unsaddle import vectors


def renormalised(
    squared_norm: float, radius: float, x: Tensor, point: Tensor | None, u: Tensor, *others: Tensor, unit: float = 1.0
) -> float:
    """‖u‖² after the state (u, *others) was rescaled in place to ‖u‖ = r, and point = x + u with it.

    Nothing is done, and no vector touched, while r/2 ≤ ‖u‖ ≤ 2r, or where u is zero or not finite.

    Args:
        squared_norm: ‖u‖².
        radius: r.
        x: where f̂ is anchored.
        point: x + u, where the next gradient is taken; None if the function forms it itself.
        u: what must stay near r.
        others: whatever else depends linearly on the start: on a quadratic, f̂ does not notice the rescaling.
        unit: that u is held in.
    """
    if radius / 2.0 <= math.sqrt(squared_norm) <= 2.0 * radius or not 0.0 < squared_norm < math.inf:
        return squared_norm
    scale = radius / math.sqrt(squared_norm)
    for x_, p_, u_, *others_ in vectors.blocks(x, point, u, *others):
        for v_ in (u_, *others_):
            v_.mul_(scale)
        torch.add(x_, u_, alpha=unit, out=p_)
    return radius**2
