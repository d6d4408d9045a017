"""The error of a gradient: how large it is, and whether it comes from half precision."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from unsaddle import vectors


@dataclass(frozen=True, kw_only=True)
class GradientNoise:
    """What two gradients next to x tell."""

    noise: float
    """σ: the absolute error of a gradient, in norm."""
    curvature: float
    """‖Hs‖ along a random unit s, roughly: a size of the Hessian."""
    drowned: bool
    """Whether the noise hides the Hessian at that distance."""


NOISE_SHIFT = 100.0
"""Shift of the two points, in units of the precision times ‖x‖: enough to round differently, too little to matter."""


LOW_PRECISION_SHIFT = 1e-3
"""The same as a share of ‖x‖ for gradients computed in half precision."""

LOW_PRECISION_RADIUS = 2.0**-6
"""Four spacings of bfloat16, as a share of ‖x‖. Nearer to x a function that computes in bfloat16 moves only in its
coordinates near zero, and its gradients add up to a Hessian that is not that of the function that was meant."""


def is_low_precision(grad: Tensor, share: float = 0.01) -> bool:
    """Whether a float32 gradient was computed in half precision, as under autocast.

    What comes out of a bfloat16 or float16 operation keeps at least 13 trailing zero bits when it is cast to float32.
    Of float32 results one in 8192 does by chance; a hundredth is taken to be none. Where terms cancel, as in a gradient
    near zero, more do.
    """
    if grad.dtype != torch.float32:
        return False
    counts = []
    for (block,) in vectors.blocks(grad.contiguous()):  # Not all at once: there may be no room for another vector.
        bits = block.view(torch.int32)
        nonzero = bits != 0
        counts.append([nonzero.sum(), (((bits & 0x1FFF) == 0) & nonzero).sum()])
    nonzeros, rounded = vectors.total(counts)
    return rounded > share * nonzeros


def gradient_noise(
    grad: Callable[[Tensor], Tensor],
    x: Tensor,
    x_norm: float,
    grad0: Tensor,
    generator: torch.Generator,
    shift: float | None = None,
) -> GradientNoise:
    """σ from a second difference of gradients across a shift of a hundred roundings; two gradients.

    ‖∇f(x+ts) − 2∇f(x) + ∇f(x−ts)‖/√6: the three gradients have independent errors of norm σ, with weights 1, −2, 1, and
    the linear part cancels. (A first difference would see the Hessian; a repeated gradient has the same error twice.)
    A function that computes in half precision does not see so small a shift; it is given a larger one. `shift`, as a
    share of ‖x‖, overrides both.
    """
    if shift is None:
        shift = LOW_PRECISION_SHIFT if is_low_precision(grad0) else NOISE_SHIFT * torch.finfo(x.dtype).eps
    t = shift * (x_norm if x_norm > 0.0 else 1.0)
    s = vectors.random_direction(x, generator).mul_(t)
    above = grad(x + s).clone()
    below = grad(x - s)
    first = vectors.norm(above - below)
    second = vectors.norm(above.add_(below).sub_(grad0, alpha=2.0))
    return GradientNoise(noise=second / math.sqrt(6.0), curvature=first / (2.0 * t), drowned=first < 2.0 * second)


def relative_error(*, noise: float, grad_norm: float, smoothness: float, x_norm: float) -> float:
    """ε_g = σ/(‖∇f(x)‖ + L1‖x‖): the error of a gradient as a share of the terms that it is made of.

    Near 6e-8 where float32 does the work and 4e-3 where bfloat16 does; far above the precision of x, the function loses
    digits on the way. nan where all of it vanishes.
    """
    size = grad_norm + smoothness * x_norm
    return noise / size if size > 0.0 else math.nan
