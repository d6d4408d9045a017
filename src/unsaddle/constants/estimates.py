"""Constants measured with a few gradients, for callers who do not know them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.objective import SampledFunction

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


def symmetric_difference(f: SampledFunction, x: Tensor, v: Tensor, radius: float) -> float:
    """vᵀ(∇f(x+rv) − ∇f(x−rv))/(2r) for a unit v: vᵀ∇²f(x)v, up to L2·r/2, and exactly so for cubics. Two gradients."""
    return opposite_probes(f, x, v, radius).curvature


class OppositeProbes(NamedTuple):
    """What two gradients on either side of x tell."""

    curvature: float
    """vᵀ∇²f(x)v, by the symmetric difference."""
    hessian_lipschitz: float
    """L2 as it shows along v, from below; nan without ∇f(x)."""
    low_precision: bool
    """Whether the gradients seem to come from half precision."""


def opposite_probes(
    f: SampledFunction, x: Tensor, v: Tensor, radius: float, grad0: Tensor | None = None
) -> OppositeProbes:
    """The curvature along a unit v as `symmetric_difference` has it and, given ∇f(x), L2 as it shows along v.

        ‖∇f(x+rv) + ∇f(x−rv) − 2∇f(x)‖/r²  →  ‖∂_v∇²f(x)·v‖ ≤ L2

    for r → 0. It is a lower bound on the Lipschitz constant of the Hessian near x, zero wherever f is even around x,
    and rounding adds 2.5σ/r² to it.
    """
    above = f.add_grad_at_sum(torch.empty_like(v), x, v, radius, afresh=True)
    low, change = is_low_precision(above), math.nan
    if grad0 is None:
        difference = f.add_grad_at_sum(above, x, v, -radius, subtract=True)  # In the same vector, for a model.
    else:
        below = f.grad_at_sum(x, v, -radius)
        change = vectors.norm(torch.add(above, below).sub_(grad0, alpha=2.0)) / radius**2
        difference = above.sub_(below)
    (rise,) = vectors.dots((v, difference))
    return OppositeProbes(rise / (2.0 * radius), change, low)


def hessian_lipschitz(f: SampledFunction, x: Tensor, v: Tensor, radius: float) -> float:
    """L2 as it shows along a unit v, from below (`opposite_probes`). Three gradients.

    >>> from unsaddle import Function
    >>> f = Function(lambda x: x[0] ** 3 / 6 + x[1] ** 2).sample()
    >>> x, v = torch.zeros(2, dtype=torch.float64), torch.tensor([1.0, 0.0], dtype=torch.float64)
    >>> round(hessian_lipschitz(f, x, v, radius=1e-3), 6)
    1.0
    """
    return opposite_probes(f, x, v, radius, f.grad(x).clone()).hessian_lipschitz


def relative_error(*, noise: float, grad_norm: float, smoothness: float, x_norm: float) -> float:
    """ε_g = σ/(‖∇f(x)‖ + L1‖x‖): the error of a gradient as a share of the terms that it is made of.

    Near 6e-8 where float32 does the work and 4e-3 where bfloat16 does; far above the precision of x, the function loses
    digits on the way. nan where all of it vanishes.
    """
    size = grad_norm + smoothness * x_norm
    return noise / size if size > 0.0 else math.nan
