"""Jumps of the gradient right beside x, one by one: kinks that x lies on, to rounding.

Across a kink of a continuous f the gradient jumps along the kink's normal: by +cn where f bends up, as at a valley, and
by −cn where it bends down. Along the kink it does not jump.
"""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.objective import SampledFunction

PARTS, HALVINGS = 8, 3
"""A segment is cut into so many parts. Those where the gradient jumps are halved so often."""

STEEPER = 4.0
"""The gradient jumps within a part where it changes by so many times as much as in the part where it changes least, and
more than rounding explains."""

STAYS = 0.2
"""What is left of the change in a part after the halvings, if it is a jump. Of a slope, an eighth is left."""

LINES, REACH = 6, 4.0
"""Jumps at x are looked for on so many random lines, which pass x at the nearest radius and are so many times longer.
Off x, several kinks through x are crossed one after the other."""

MOST = 32
"""More kinks than this through one point are not told apart."""

SAME, MERGED = 2e-3, 0.1
"""A jump is that of a kink that is known already, if no more than the first share of it is orthogonal to the known
ones. Up to the second share, it is that of a known one and of another one at the same place."""

SLANT = 1e-2
"""A way that crosses a kink at a smaller angle than this does not tell whether f bends up there."""

INEXACT = 64.0
"""Units of precision that a jump is off by: the gradient of one row of data cancels more than that of all rows."""

SWEEPS = 100
"""Sweeps of the coordinate descent for the smallest gradient."""


class Kinks:
    """The kinks that x lies on, to rounding: their normals, and whether f bends up across each of them.

    Attributes:
        jumps: the jump of the gradient across each kink.
        down: for each, whether f bends down across it.
        basis: orthonormal vectors that span the jumps.
    """

    def __init__(self) -> None:
        self.jumps: list[Tensor] = []
        self.down: list[bool] = []
        self.basis: list[Tensor] = []

    def __len__(self) -> int:
        return len(self.jumps)

    @property
    def inexact(self) -> float:
        """What is left of the jumps, at most, if they are projected: they are as exact as a part of the gradient is."""
        if not self.jumps:
            return 0.0
        return INEXACT * torch.finfo(self.basis[0].dtype).eps * max(vectors.norm(jump) for jump in self.jumps)

    def along(self, v: Tensor) -> Tensor:
        """v ← its part along all the kinks, in place."""
        for n in self.basis:
            v.sub_(n, alpha=vectors.dots((n, v))[0])
        return v

    def add(self, jump: Tensor, way: Tensor, level: float) -> bool:
        """Takes in a jump that was seen on the way along a vector; returns False if its kink is known already."""
        rest = self.along(self.along(jump.clone()))
        length, size = vectors.norm(rest), vectors.norm(jump)
        if length <= max(SAME * size, level):
            return False
        jump = jump if length > MERGED * size else rest.clone()
        self.basis.append(rest.div_(length))
        self.jumps.append(jump)
        self.down.append(vectors.dots((jump, way))[0] < -SLANT * vectors.norm(jump) * vectors.norm(way))
        return True

    def across(self, index: int) -> Tensor:
        """The unit vector across one kink that is along all others, as far as they allow."""
        others = Kinks()
        for jump in self.jumps[:index] + self.jumps[index + 1 :]:
            others.add(jump, jump, 0.0)
        v = others.along(others.along(self.jumps[index].clone()))
        return v.div_(vectors.norm(v))


def take_in(kinks: Kinks, f: SampledFunction, x: Tensor, start: Tensor, way: Tensor, level: float) -> bool:
    """Takes in the kinks on the segment from x + start to x + start + way, one after the other; returns whether there
    are new ones. Nine gradients, and three for each."""

    def grad(t: float) -> Tensor:
        return f.grad(torch.add(x, start).add_(way, alpha=t)).clone()

    def change(left: Tensor, right: Tensor) -> float:
        return vectors.norm(kinks.along(right - left))

    ends = [grad(i / PARTS) for i in range(PARTS + 1)]
    least = min(itertools.pairwise(ends), key=lambda pair: change(*pair))
    slope, usual, found = least[1] - least[0], change(*least), False

    def split(left: Tensor, right: Tensor, t: float, width: float, halvings: int, whole: float) -> None:
        nonlocal found
        if change(left, right) <= level + STEEPER * usual * width * PARTS:
            return
        if halvings == 0 and change(left, right) <= STAYS * whole:  # A slope: each half has a half of the change.
            return
        if halvings == 0:
            jump = (right - left).sub_(slope, alpha=width * PARTS)
            found = kinks.add(jump, way, level) or found
            return
        middle = grad(t + width / 2.0)
        split(left, middle, t, width / 2.0, halvings - 1, whole)
        split(middle, right, t + width / 2.0, width / 2.0, halvings - 1, whole)

    for i in range(PARTS):
        split(ends[i], ends[i + 1], i / PARTS, 1.0 / PARTS, HALVINGS, change(ends[i], ends[i + 1]))
    return found


def kinks_at(
    f: SampledFunction, x: Tensor, radius: float, level: float, generator: torch.Generator, most: int = MOST
) -> Kinks:
    """The kinks that are nearer to x than a radius, as far as a few random lines beside x cross them.

    Ends once there are more than `most`. Cost: 54 gradients, and three a kink. Memory: two vectors a kink, and ten.
    """
    kinks = Kinks()
    for _ in range(LINES):
        if len(kinks) > most:
            break
        aside, way = (vectors.random_direction(x, generator) for _ in range(2))
        start = aside.mul_(radius).sub_(way, alpha=REACH * radius)
        way = way.mul_(2.0 * REACH * radius)
        take_in(kinks, f, x, start, way, level)
    return kinks


def smallest_gradient(f: SampledFunction, x: Tensor, grad0: Tensor, kinks: Kinks, radius: float) -> float:
    """The norm of the shortest vector between the gradients on all sides of the kinks: where it is zero, f has no slope
    at x that all sides share. NaN if f does not bend up along all normals. Two gradients a kink.

        min ‖g + Σ t_i n_i‖ with t_i between what the gradient changes by along n_i on either side of x
    """
    normals, limits = list[Tensor](), list[tuple[float, float]]()
    for jump in kinks.jumps:
        size = vectors.norm(jump)
        n = jump / size
        above, below = (vectors.dots((n, f.grad_at_sum(x, n, sign * radius) - grad0))[0] for sign in (1.0, -1.0))
        if not above > below:
            return math.nan
        share = above / (above - below) if above > 0.0 > below else float(above > -below)  # x lies on this side.
        normals.append(n)
        limits.append(((share - 1.0) * size, share * size))
    rest, taken = grad0.clone(), [0.0] * len(limits)
    for _ in range(SWEEPS):
        for i, (low, high) in enumerate(limits):
            (slope,) = vectors.dots((normals[i], rest))
            new = min(max(taken[i] - slope, low), high)
            rest.add_(normals[i], alpha=new - taken[i])
            taken[i] = new
    return vectors.norm(rest)
