"""Curvature between the kinks next to x: probes come nearer to x until its two sides agree.

A kink, as of ReLU or max-pooling, is a jump of the gradient somewhere beside x. Where only one side of x has it, the
even part of two opposite probes, ∇f(x+rv) + ∇f(x−rv) − 2∇f(x), is as large as the jump. Without a kink it is rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.measure.direction import ROUNDINGS, Measurement, symmetric_difference
from unsaddle.measure.jumps import Kinks
from unsaddle.measure.ladder import RATIO
from unsaddle.measure.noise import FIRST_RADIUS
from unsaddle.objective import SampledFunction

LEVELS, LEVEL = (8.0, 2.0, 0.5), 3.0
"""Rounding is measured at these radii, in nearest ones. The even part of a probe without a kink is at most so many
times the smallest of the three."""

GAP_GRADIENTS = 64
"""The most gradients of `gap`: eight, and two for every halving of the first radius of float64."""

NEAREST = {torch.float32: 1.0 / 8.0, torch.float64: 1e4}
"""The nearest radius, in roundings of x. In float32 there is room for no more between the kinks of a large network,
though fewer coordinates move there, and the direction is another one. At x = 0 every radius is possible, and this is in
squared roundings of 1."""

DECAYS = (0.05, 0.4)
"""At half the distance the even part of truncation falls to a quarter, or to a sixteenth. Among many kinks it falls to
a half at least, and that of one kink stays, or vanishes at once."""

JUMPS = 0.9
"""At half the distance the gradient changes by half as much. More than this share is a jump at x, or rounding."""

WIDER = 8.0
"""A direction is measured from so many times the radius of the gap on, inwards."""

ONE_SIDED = 3.0
"""A kink is on the side where the gradient changes this many times more than on the other one."""

SUMS = 16.0
"""Roundings of a difference of two gradients: at x = 0 all rounding is of this kind."""

FAR, STILL = 1e-2, 0.5
"""At this share of ‖x‖ a curvature that was seen next to x only is asked for again. It has to be this share of it."""

STEP, STEPS = 2.0**-7, 10.0
"""bfloat16 rounds a number to a multiple of this share of it, at most. Probes that would have crossed so many of these
steps, and met none, exclude them."""

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
    farthest: float = 0.0
    """Probes along other directions do not go farther than this, or than `radius`."""
    smooth: bool = False
    """Whether even parts fell towards x as those of a smooth function do: truncation, and no kink, is beside x."""
    kinks: Kinks | None = None
    """Kinks that x lies on. Probes run along them, and what gradients differ by across them is left out."""
    small: float = 0.0
    """Even parts up to this share of what the gradient changes by count as none."""

    @property
    def noise(self) -> float:
        """σ of a gradient. Three of them, with weights 1, −2, 1, make an even part."""
        return self.level / (LEVEL * math.sqrt(6.0))

    def wider(self, radius: float, times: float) -> Gap:
        """The gap along another direction. Probes begin so many times farther out than `radius`."""
        return replace(self, radius=min(times * radius, max(self.farthest, self.radius)))


class Opposite(NamedTuple):
    """Two gradients on opposite sides of x."""

    difference: Tensor
    """∇f(x+rv) − ∇f(x−rv); or twice that between x and one side, if a kink is on the other one."""
    radius: float
    """r."""
    evens: tuple[float, ...]
    """The even part at each radius that was tried."""
    level: float
    """What rounding makes of the last of them, at most."""
    uneven: float = 0.0
    """vᵀ(∇f(x+rv) + ∇f(x−rv) − 2∇f(x))."""
    sided: bool = False
    """Whether a kink nearer than every radius is on one side, so that the other side is taken."""

    @property
    def clean(self) -> bool:
        """Whether there is no kink between them and x, as far as rounding lets see."""
        return self.sided or self.evens[-1] <= self.level

    @property
    def smooth(self) -> bool:
        """Whether even parts fell by what truncation falls by at half the distance, until they were rounding."""
        pairs = list(zip(self.evens, self.evens[1:], strict=False))
        falls = (
            DECAYS[0] * a <= b <= DECAYS[1] * a or (b <= self.level and DECAYS[0] * a <= self.level) for a, b in pairs
        )
        return self.clean and not self.sided and bool(pairs) and all(falls)


def gap(
    f: SampledFunction,
    x: Tensor,
    x_norm: float,
    grad0: Tensor,
    generator: torch.Generator,
    *,
    along: Tensor | None = None,
    level: float | None = None,
    start: float | None = None,
    nearest: float | None = None,
    sides: bool = False,
    kinks: Kinks | None = None,
    small: float = 0.0,
) -> Gap | None:
    """Measures rounding, and how far the gap reaches along a direction. None if kinks leave no gap.

    Args:
        f, x, x_norm, grad0: the function, the point, ‖x‖ and ∇f(x).
        generator: of the random directions.
        along: a unit vector, along which the gap is measured; None for a random one.
        level: even parts up to this are rounding; None to measure it, by six gradients.
        start: the first radius that is tried; None for that of a first search.
        nearest: the nearest radius of probes; None for `NEAREST`.
        sides: as for `opposite`.
        kinks, small: as of the `Gap`.

    Cost: eight gradients, and two for every radius that is tried.
    """
    scale, eps = x_norm or 1.0, torch.finfo(x.dtype).eps
    level = _level(f, x, scale, grad0, generator) if level is None else level
    first = FIRST_RADIUS[x.dtype] * scale if start is None else start
    nearest = NEAREST[x.dtype] * eps * (x_norm or eps) if nearest is None else nearest
    v = vectors.random_direction(x, generator) if along is None else along
    begin = Gap(radius=first, nearest=nearest, level=level, farthest=first, kinks=kinks, small=small)
    probes = opposite(f, x, v, grad0, begin, sides=sides)
    half = opposite(f, x, v, grad0, replace(begin, radius=probes.radius / 2.0), sides=sides)
    if not probes.clean or vectors.norm(half.difference) > JUMPS * vectors.norm(probes.difference):
        return None
    return replace(begin, radius=probes.radius, smooth=probes.smooth)


def _level(f: SampledFunction, x: Tensor, scale: float, grad0: Tensor, generator: torch.Generator) -> float:
    """What even parts without a kink are at most, by random directions at a few radii next to x."""
    levels = []
    for share in LEVELS:
        v, r = vectors.random_direction(x, generator), share * NEAREST[x.dtype] * torch.finfo(x.dtype).eps * scale
        levels.append(vectors.norm(f.grad_at_sum(x, v, r) + f.grad_at_sum(x, v, -r) - 2.0 * grad0))
    return LEVEL * min((even for even in levels if even > 0.0), default=0.0)


def opposite(f: SampledFunction, x: Tensor, v: Tensor, grad0: Tensor, within: Gap, *, sides: bool = False) -> Opposite:
    """Gradients at x ± rv for a unit v, at the first of r, r/2, r/4, … without a kink, or at the nearest radius.

    A kink may be nearer still. It is on one side, and the gradient changes less on the other one. With `sides`, a side
    is taken already where it has no kink by itself: there the gradient changes half as much at half the distance.
    """
    radius, eps, evens = within.radius, torch.finfo(x.dtype).eps, list[float]()
    farther: tuple[Tensor, Tensor] | None = None
    while True:
        above = f.grad_at_sum(x, v, radius) - grad0
        below = grad0 - f.grad_at_sum(x, v, -radius)
        if within.kinks is not None:
            above, below = within.kinks.along(above), within.kinks.along(below)
        even = above - below
        evens.append(vectors.norm(even))
        level = within.level + max(SUMS * eps, within.small) * vectors.norm(above + below)
        if evens[-1] <= level:
            (uneven,) = vectors.dots((v, even))
            return Opposite(above + below, radius, tuple(evens), level, uneven)
        if farther is not None:
            pairs = zip(farther, (above, below), strict=True)
            straight = [far for far, near in pairs if vectors.norm(far - 2.0 * near) <= level]
            if straight:
                both = len(straight) == 2
                difference = straight[0] + straight[-1]
                return Opposite(difference, 2.0 * radius, tuple(evens), evens[-2] if both else level, sided=not both)
        if radius < 2.0 * within.nearest:
            low, high = sorted((above, below), key=vectors.norm)
            sided = vectors.norm(high) > ONE_SIDED * vectors.norm(low)
            return Opposite(2.0 * low, radius, tuple(evens), level, sided=sided)
        farther = (above, below) if sides else None
        radius /= 2.0


class Along(NamedTuple):
    """The curvature along a direction between kinks, at two radii."""

    curvature: float
    nearer: float
    """The same, 1.9 times nearer to x."""
    radius: float
    clean: bool
    uneven: float
    """What a kink that is too small to be seen may add to the curvature: the even part along the direction."""
    sided: bool
    """Whether a kink nearer than every radius is on one side, so that the other side was taken."""


def along(f: SampledFunction, x: Tensor, v: Tensor, grad0: Tensor, within: Gap) -> Along:
    """vᵀ(∇f(x+rv) − ∇f(x−rv))/vᵀu at two radii, u being the way between the two points as they are rounded.

    Where r is a few roundings of x, u is shorter than 2rv: most coordinates do not move. The first radius is as far out
    as the kinks along v allow, since rounding falls with it; a random direction may have met a nearer kink.
    """

    def curvature(probes: Opposite) -> float:
        way = torch.add(x, v, alpha=probes.radius).sub_(torch.sub(x, v, alpha=probes.radius))
        rise, length = vectors.dots((v, probes.difference), (v, way))
        return rise / length if length > 0.0 else math.nan

    first = opposite(f, x, v, grad0, within.wider(within.radius, WIDER))
    second = opposite(f, x, v, grad0, replace(within, radius=first.radius / RATIO))
    uneven = abs(first.uneven) / (2.0 * first.radius)
    clean, sided = first.clean and second.clean, first.sided or second.sided
    return Along(curvature(first), curvature(second), first.radius, clean, uneven, sided)


def measured(
    f: SampledFunction, x: Tensor, v: Tensor, grad0: Tensor, within: Gap, *, claimed: float | None, smoothness: float
) -> Measurement:
    """The curvature along v, and its error: what two radii and the claim of a search differ by, and rounding.

    Without a claim, the nearer one of the two radii stands for it.
    """
    seen = along(f, x, v, grad0, within)
    rounding = ROUNDINGS * within.noise / math.sqrt(vectors.dimension(x)) / seen.radius
    rounding += 8.0 * torch.finfo(x.dtype).eps * max(smoothness, abs(seen.curvature))
    error = abs(seen.curvature - seen.nearer) + seen.uneven + rounding
    error += CLAIMED * abs(seen.curvature - (seen.nearer if claimed is None else claimed))
    return Measurement(
        curvature=seen.curvature,
        error=error,
        radius=seen.radius,
        consistent=seen.clean and error <= 0.5 * abs(seen.curvature),
        samples=f.size,
        fresh=False,
        sided=seen.sided,
    )


def excludes_stairs(x: Tensor, within: Gap, radius: float, products: int) -> bool:
    """Whether clean products at this radius, or farther out, exclude that f rounds x to half precision.

    On average a random direction moves each coordinate by r/‖x‖ of itself. So x ± rq would have crossed 2rd/‖x‖ steps
    of relative length 1 a product, and at each of them the two sides differ. At the nearest radius they may have.
    """
    crossed = products * 2.0 * radius * vectors.dimension(x) / STEP
    return radius >= 2.0 * within.nearest and crossed > STEPS * vectors.norm(x) > 0.0


def holds_far_out(f: SampledFunction, x: Tensor, v: Tensor, curvature: float) -> bool:
    """Whether f bends down along v farther out, too, where a staircase no longer hides the function. Two gradients."""
    return symmetric_difference(f, x, v, FAR * (vectors.norm(x) or 1.0)) <= STILL * curvature
