"""Curvature between the kinks next to x: probes come nearer to x until its two sides agree.

A kink, as of ReLU or max-pooling, is a jump of the gradient somewhere beside x. Where only one side of x has it, the
even part of two opposite probes, ∇f(x+rv) + ∇f(x−rv) − 2∇f(x), is as large as the jump. Without a kink it is rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.measure.direction import ROUNDINGS, Measurement
from unsaddle.measure.ladder import RATIO
from unsaddle.measure.noise import FIRST_RADIUS
from unsaddle.objective import SampledFunction

LEVELS, LEVEL = 5, 3.0
"""Rounding is measured at one rounding of x and at four halves of that. The even part of a probe without a kink is at
most this many times the smallest of the five."""

NEAREST = 1.0 / 8.0
"""The nearest radius, in roundings of x. Fewer coordinates move there, and the direction is another one."""

SUMS = 16.0
"""Roundings of a difference of two gradients: at x = 0 all rounding is of this kind."""

CLAIMED = 3.0
"""The difference to what a search claims counts so often in the error, as in `direction.on_same_sample`."""


@dataclass(frozen=True, kw_only=True)
class Gap:
    """The gap between kinks that x lies in, as far as one random direction tells."""

    radius: float
    """Probes begin here."""
    nearest: float
    """Probes do not come nearer than this."""
    level: float
    """Even parts up to this are rounding."""

    @property
    def noise(self) -> float:
        """σ of a gradient. Three of them, with weights 1, −2, 1, make an even part."""
        return self.level / (LEVEL * math.sqrt(6.0))


class Opposite(NamedTuple):
    """Two gradients on opposite sides of x."""

    difference: Tensor
    """∇f(x+rv) − ∇f(x−rv)."""
    radius: float
    """r."""
    clean: bool
    """Whether there is no kink between them and x, as far as rounding lets see."""


def gap(f: SampledFunction, x: Tensor, x_norm: float, grad0: Tensor, generator: torch.Generator) -> Gap | None:
    """Measures rounding, and how far the gap reaches along a random direction. None if kinks leave no gap.

    Cost: ten gradients, and two for every radius that is tried.
    """
    scale, eps = x_norm or 1.0, torch.finfo(x.dtype).eps
    levels = []
    for k in range(LEVELS):
        v, r = vectors.random_direction(x, generator), eps * scale / 2.0**k
        levels.append(vectors.norm(f.grad_at_sum(x, v, r) + f.grad_at_sum(x, v, -r) - 2.0 * grad0))
    level = LEVEL * min((even for even in levels if even > 0.0), default=0.0)
    start, nearest = FIRST_RADIUS[x.dtype] * scale, NEAREST * eps * scale
    probes = opposite(
        f, x, vectors.random_direction(x, generator), grad0, Gap(radius=start, nearest=nearest, level=level)
    )
    return Gap(radius=probes.radius, nearest=nearest, level=level) if probes.clean else None


def opposite(f: SampledFunction, x: Tensor, v: Tensor, grad0: Tensor, within: Gap) -> Opposite:
    """Gradients at x ± rv for a unit v, at the first of r, r/2, r/4, … without a kink, or at the nearest radius."""
    radius, eps = within.radius, torch.finfo(x.dtype).eps
    while True:
        above = f.grad_at_sum(x, v, radius).clone()
        below = f.grad_at_sum(x, v, -radius)
        difference = above - below
        even = vectors.norm(above.add_(below).sub_(grad0, alpha=2.0))
        clean = even <= within.level + SUMS * eps * vectors.norm(difference)
        if clean or radius < 2.0 * within.nearest:
            return Opposite(difference, radius, clean)
        radius /= 2.0


class Along(NamedTuple):
    """The curvature along a direction between kinks, at two radii."""

    curvature: float
    nearer: float
    """The same, 1.9 times nearer to x."""
    radius: float
    clean: bool


def along(f: SampledFunction, x: Tensor, v: Tensor, grad0: Tensor, within: Gap) -> Along:
    """vᵀ(∇f(x+rv) − ∇f(x−rv))/vᵀu at two radii, u being the way between the two points as they are rounded.

    Where r is a few roundings of x, u is shorter than 2rv: most coordinates do not move.
    """

    def curvature(probes: Opposite) -> float:
        way = torch.add(x, v, alpha=probes.radius).sub_(torch.sub(x, v, alpha=probes.radius))
        rise, length = vectors.dots((v, probes.difference), (v, way))
        return rise / length if length > 0.0 else math.nan

    first = opposite(f, x, v, grad0, within)
    second = opposite(f, x, v, grad0, Gap(radius=first.radius / RATIO, nearest=within.nearest, level=within.level))
    return Along(curvature(first), curvature(second), first.radius, first.clean and second.clean)


def measured(
    f: SampledFunction, x: Tensor, v: Tensor, grad0: Tensor, within: Gap, *, claimed: float, smoothness: float
) -> Measurement:
    """The curvature along v, and its error: what two radii and the claim of a search differ by, and rounding."""
    seen = along(f, x, v, grad0, within)
    rounding = ROUNDINGS * within.noise / math.sqrt(vectors.dimension(x)) / seen.radius
    rounding += 8.0 * torch.finfo(x.dtype).eps * max(smoothness, abs(seen.curvature))
    error = CLAIMED * abs(seen.curvature - claimed) + abs(seen.curvature - seen.nearer) + rounding
    return Measurement(
        curvature=seen.curvature,
        error=error,
        radius=seen.radius,
        consistent=seen.clean and error <= 0.5 * abs(seen.curvature),
        samples=f.size,
        fresh=False,
    )
