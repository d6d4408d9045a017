"""Products along the kinks that x lies on, between all others: what f does in the valleys that kinks make."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.curvature.displaced import DisplacedFunction
from unsaddle.curvature.kinks import EXACT, START, BetweenKinks, KinkMet, no_hessian
from unsaddle.measure.between_kinks import gap
from unsaddle.measure.jumps import Kinks

SMALL = 1e-3
"""Where products run along kinks that x lies on, even parts up to this share of a product count as none: a tenth of γ,
if that is a hundredth of L1."""

NEAREST_ALONG = {torch.float32: 32.0, torch.float64: 1e4}
"""The nearest radius of a product along kinks, in roundings of x: products of float32 are off by a tenth of γ there.
Nearer kinks than this count as going through x."""

SECONDS, LEFT = 12, 8.0
"""Second differences that tell rounding: of kinks through x, up to two less do not count. Rounding is so many times
what is left of the last at most: the error of ∇f(x), which all share, is not left."""


def along_kinks(
    f_hat: DisplacedFunction, along: Tensor, generator: torch.Generator, level: float, kinks: Kinks
) -> BetweenKinks:
    """Products along the kinks that x lies on, between all others; `KinkMet` if they are not those of a Hessian."""
    f, x, grad0, scale, dtype = f_hat.f, f_hat.x, f_hat.grad0, f_hat.x_norm or 1.0, f_hat.x.dtype
    nearest = nearest_along(f_hat)
    within = gap(
        f, x, f_hat.x_norm, grad0, generator, along=along, level=level, start=START[dtype] * scale, nearest=nearest,
        kinks=kinks, small=SMALL,
    )  # fmt: skip
    if within is None:
        raise KinkMet((along,), 2.0 * nearest, 2.0 * level)
    found = BetweenKinks(f_hat, within, None)
    suspects = no_hessian(found, along, generator)
    if suspects:
        raise KinkMet(suspects, found.radius)
    return found


def nearest_along(f_hat: DisplacedFunction) -> float:
    """The nearest radius of products along kinks."""
    dtype = f_hat.x.dtype
    return NEAREST_ALONG[dtype] * torch.finfo(dtype).eps * (f_hat.x_norm or 1.0)


def rounding_level(f_hat: DisplacedFunction, generator: torch.Generator) -> float:
    """What rounding makes of ∇f(x+rv) + ∇f(x−rv) − 2∇f(x), at most. 24 gradients.

    Kinks through x add their jumps to it. Their span is small: what is left of one such vector after the others are
    taken out of it is rounding. In few dimensions a jump of the Hessian may be left, too: no more counts than the size
    of a gradient's terms explains.
    """
    x, radius = f_hat.x, nearest_along(f_hat) / 8.0
    seconds, product = list[Tensor](), 0.0
    for _ in range(max(1, min(SECONDS, vectors.dimension(x) // 2))):
        v = vectors.random_direction(x, generator)
        above, below = (f_hat.f.grad_at_sum(x, v, sign * radius) - f_hat.grad0 for sign in (1.0, -1.0))
        seconds.append(above + below)
        product = min(product or math.inf, vectors.norm(above), vectors.norm(below))
    while len(seconds) > 1:
        seconds.sort(key=vectors.norm)
        longest = seconds.pop()
        (squared,) = vectors.dots((longest, longest))
        if squared > 0.0:
            seconds = [s.sub_(longest, alpha=vectors.dots((longest, s))[0] / squared) for s in seconds]
    rounding = EXACT * torch.finfo(x.dtype).eps * (f_hat.grad_norm + product * (1.0 + f_hat.x_norm / radius))
    return min(LEFT * vectors.norm(seconds[0]) or rounding, rounding)
