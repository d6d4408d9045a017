"""The rounding error of a gradient: its size, and whether it comes from half precision."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.objective import SampledFunction


@dataclass(frozen=True, kw_only=True)
class GradientNoise:
    """The result of two gradients next to x."""

    noise: float
    """σ: the absolute error of a gradient, in norm."""
    curvature: float
    """‖Hs‖ for a random unit s, roughly: a size of the Hessian."""
    drowned: bool
    """Whether the noise hides the Hessian at that distance."""
    radius: float
    """The distance of the two points from x."""


NOISE_SHIFT = 100.0
"""The shift of the two points in units of eps·‖x‖: enough to round differently, too little to change the function."""

SIZE_AT_ZERO = 0.1
"""Stands for ‖x‖ at x = 0 where the noise is measured. There is no rounding of x there, and nothing tells the scale."""

FIRST_RADIUS = {torch.float32: 3e-6, torch.float64: 1e-9}
"""The radius of a first search as a share of ‖x‖: 25 roundings of float32, where products of networks with ‖x‖ ≈ 100
are within a per cent along their lowest direction; more of float64, which has room."""

LOW_PRECISION_SHIFT = 1e-3
"""The shift of the two points, as a share of ‖x‖, if gradients are computed in half precision."""

LOW_PRECISION_RADIUS = 2.0**-6
"""Four spacings of bfloat16, as a share of ‖x‖. Nearer to x, a function in bfloat16 changes only with its coordinates
near zero, and differences of its gradients show a wrong Hessian."""


FEW_ENTRIES, FEW_SHARE = 100, 0.9
"""Of fewer entries than that, at least this share must have trailing zeros: some of few have them by cancellation."""


def is_low_precision(grad: Tensor, share: float = 0.01) -> bool:
    """Whether a float32 gradient was computed in half precision, as under autocast.

    A bfloat16 or float16 number that is cast to float32 has at least 13 trailing zero bits. So has one in 8192 float32
    numbers by chance, and more if terms cancel, as in a gradient near zero. A share up to `share` is taken as chance.
    """
    if grad.dtype != torch.float32:
        return False
    counts = []
    for (block,) in vectors.blocks(grad.contiguous()):  # There may be no room for another vector.
        bits = block.view(torch.int32)
        nonzero = bits != 0
        counts.append([nonzero.sum(), (((bits & 0x1FFF) == 0) & nonzero).sum()])
    nonzeros, rounded = vectors.total(counts)
    return rounded > (share if nonzeros >= FEW_ENTRIES else max(share, FEW_SHARE)) * nonzeros


OFF_GRID, FEW_OFF, QUARTERS = 0.2, 32, 0.02
"""Second differences are off the grid of half precision if at most this share of so many entries at least is within
this of a multiple of a quarter of a power of two. By chance 4 in 100 are."""

CLEARLY = 1000.0
"""An entry of a second difference is no rounding from so many units of precision of the gradient's terms on."""


def off_grid(second: Tensor, terms: float) -> bool:
    """Whether gradients jump as at kinks, by any numbers, and not as in half precision, by few units of its last digit.

    By ∇f(x+rs) + ∇f(x−rs) − 2∇f(x): terms in the precision of x, as those of a weight decay, are not left in it.
    `terms` is about ‖Hx‖, the size of what a gradient is the sum of. False where too few entries tell.

    >>> jumps = torch.randn(100, generator=torch.Generator().manual_seed(0))
    >>> off_grid(jumps, 1.0), off_grid(torch.ldexp(torch.ones(100), (4.0 * jumps).int()), 1.0)
    (True, False)
    """
    least = CLEARLY * torch.finfo(second.dtype).eps * terms / math.sqrt(vectors.dimension(second))
    counts = []
    for (block,) in vectors.blocks(second):  # There may be no room for another vector.
        quarters = torch.frexp(block).mantissa * 8.0
        clear = block.abs() > least
        counts.append([clear.sum(), (clear & ((quarters - quarters.round()).abs() < QUARTERS)).sum()])
    count, on_grid = vectors.total(counts)
    return count >= FEW_OFF and on_grid <= OFF_GRID * count


def noise_radius(x: Tensor, x_norm: float) -> float:
    """The distance from x at which the noise of gradients is measured: a hundred roundings."""
    return NOISE_SHIFT * torch.finfo(x.dtype).eps * (x_norm if x_norm > 0.0 else SIZE_AT_ZERO)


def gradient_noise(
    grad: Callable[[Tensor], Tensor],
    x: Tensor,
    x_norm: float,
    grad0: Tensor,
    generator: torch.Generator,
    shift: float | None = None,
) -> GradientNoise:
    """σ = ‖∇f(x+ts) − 2∇f(x) + ∇f(x−ts)‖/√6 for a random unit s and t of a hundred roundings. Two gradients.

    The three gradients have independent errors of norm σ, with weights 1, −2, 1, and the linear part cancels. A first
    difference would contain the Hessian. A repeated gradient would repeat its error. `shift`, as a share of ‖x‖,
    replaces that of `noise_radius`.
    """
    if shift is None and is_low_precision(grad0):  # Half precision does not resolve the usual distance.
        shift = LOW_PRECISION_SHIFT
    t = noise_radius(x, x_norm) if shift is None else shift * (x_norm if x_norm > 0.0 else 1.0)
    s = vectors.random_direction(x, generator).mul_(t)
    above, below = grad(x + s).clone(), grad(x - s)
    first = vectors.norm(above - below)
    second = vectors.norm(above.add_(below).sub_(grad0, alpha=2.0))
    return GradientNoise(
        noise=second / math.sqrt(6.0), curvature=first / (2.0 * t), drowned=first < 2.0 * second, radius=t
    )


GRADIENT_ROUNDINGS = 3.0
"""The rounding of ∇F(x) is taken to be at most this many σ, as σ is an estimate from two points."""

CONVERGES, REPEATED = 0.95, 7
"""A solver inside converges if each of so many repeated gradients differs from the last by this much less than that did
from the one before. Independent errors do so with a probability of 1/7!."""


def repeats(f: SampledFunction, x: Tensor, radius: float, noise: float, generator: torch.Generator) -> bool:
    """Whether f gives the same gradient again next to x, up to a noise of gradients. Two gradients, or up to eight.

    The point is next to x: at x itself the noise of dropout can vanish. An iterative solver that goes on from where it
    was comes nearer to its limit each time, and counts as deterministic.
    """
    y = vectors.random_direction(x, generator).mul_(radius).add_(x)
    last, change = f.grad(y).clone(), math.inf
    for _ in range(REPEATED):
        now = f.grad(y).clone()
        before, change = change, vectors.norm(now - last)
        if change <= noise:
            return True
        if not change <= CONVERGES * before:
            return False
        last = now
    return True


def relative_error(*, noise: float, grad_norm: float, smoothness: float, x_norm: float) -> float:
    """ε_g = σ/(‖∇f(x)‖ + L1‖x‖): the error of a gradient relative to its terms; nan if they are all zero.

    It is near 6e-8 in float32 and 4e-3 in bfloat16. If it is far above the precision of x, the function loses digits.
    """
    size = grad_norm + smoothness * x_norm
    return noise / size if size > 0.0 else math.nan
