"""What gradients around x tell before a search: their error, the size of the Hessian, and how near to x they can be
trusted.

Two rungs of a ladder of radii are always there, along one direction. The near one, a hundred roundings of x, shows
rounding. The far one, a thousandth of x, shows a function that computes in less than the precision of x, and one with
memory. More rungs are taken only where these two contradict each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.measure.noise import LOW_PRECISION_RADIUS, LOW_PRECISION_SHIFT, is_low_precision, noise_radius, off_grid

Grad = Callable[[Tensor], Tensor]

CONTRADICTS, NOISES = 0.05, 5.0
"""Two products along one direction contradict each other if they differ by more than this share of the larger one, and
by more than so many times their noise."""

DECAYS = (0.05, 0.75)
"""At half the distance, what truncation adds to a product falls to a sixteenth, a quarter, or, where the third
derivative jumps, a half. Steps of a staircase do not fall, or vanish at once. A factor within these limits is taken for
truncation."""

INWARDS = 8.0
"""From a rung to the next one nearer to x, where the first two contradict each other."""

FEW_VARIABLES = 64
"""With fewer, none may cross a step of half precision at `LOW_PRECISION_SHIFT`. A rung at `LOW_PRECISION_RADIUS` is
added for float32."""

CLEAR = 10.0 * NOISES / CONTRADICTS
"""At so many σ over ‖Hs‖ a product is known well enough to contradict another."""

TINY = 1e-30
"""‖x‖ up to this counts as zero: products with x may underflow."""

NARROW = 10.0
"""Products next to x that are so many times longer than those farther out come from narrow structure, of f or of the
error of its gradient. Those within a step of a staircase are shorter, as they lack a part of f."""

REMEMBERS = 3.0
"""Gradients have memory if the one at x, taken again after a far move, differs by this many times the noise."""

HALF_PRECISION = 0.5
"""Half precision is inside if more than this share of a gradient's entries has the trailing zeros of half precision."""


@dataclass(frozen=True, kw_only=True)
class Survey:
    """The result of `survey`."""

    noise: float
    """σ: the absolute error of a gradient, in norm."""
    curvature: float
    """A size of the Hessian, ‖Hs‖ for a random unit s, roughly."""
    drowned: bool
    """Whether the noise hides the Hessian on the rung of `noise`."""
    nearest: float = 0.0
    """Gradients nearer to x than this mislead: the function computes in less than the precision of x. 0 if none do."""
    narrow: float = 0.0
    """Where `nearest` is above zero: a radius next to x at which products are far longer than from `nearest` on. They
    may be those of structure that is narrower. 0 if there is none."""
    far_noise: float = 0.0
    """σ on the far rung, or on the one that a ladder ended at; 0 where there is none. It contains truncation."""
    again: Tensor | None = None
    """∇f(x), taken again after a far move, if gradients have memory."""
    suspicious: bool = False
    """Whether half precision may be inside."""
    broken: bool = False
    """Whether no two radii agree: gradients jump at kinks, or in half precision."""
    steady: bool = False
    """Whether the products on the near and on the far rung agree."""
    jumps: bool = False
    """Whether gradients jump farther out as at kinks, and not as in half precision."""

    @property
    def has_memory(self) -> bool:
        return self.again is not None


class _Rung(NamedTuple):
    """Two gradients at x ± ts, for one unit s."""

    product: Tensor
    """Hs, by their difference."""
    size: float
    """‖Hs‖."""
    noise: float
    """σ, by their second difference with ∇f(x)."""
    radius: float
    """t."""
    half: bool
    """Whether they seem to come from half precision."""
    jumps: bool
    """Whether their second difference is off the grid of half precision."""

    @property
    def drowned(self) -> bool:
        return self.size * self.radius < math.sqrt(6.0) * self.noise

    def apart(self, other: _Rung) -> float:
        """How far the two products are apart."""
        return vectors.norm(self.product - other.product)

    def contradicts(self, other: _Rung, noise: float) -> bool:
        """Whether the two products differ, beyond a noise of gradients."""
        error = NOISES * noise / min(self.radius, other.radius)
        return self.apart(other) > CONTRADICTS * max(self.size, other.size) + error


def survey(grad: Grad, x: Tensor, x_norm: float, grad0: Tensor, generator: torch.Generator) -> Survey:
    """Measures σ next to x and farther out, and finds out from where on gradients can be trusted.

    1. The far rung: two gradients at x ± ts, t a thousandth of ‖x‖. s is random, each variable shifted by a share of
       itself, as rounding does. Then the gradient at x again. If it differs, gradients have memory: an iterative solver
       inside starts where it ended.
    2. The near rung, at a hundred roundings of x. σ is that of `gradient_noise`. In half precision the far rung serves.
    3. If the two products contradict each other, further rungs tell truncation from a staircase.

    Cost: five gradients. Two more in float32 with few variables, two if the near rung shows noise only, two where rungs
    contradict each other, and two for each rung of the ladder that then goes in. At x = 0 the scale is taken to be 1.
    """
    along, x_norm = vectors.normal(x, generator), x_norm if x_norm > TINY else 0.0
    if x_norm > 0.0:  # A variable that is exactly zero has no size of its own.
        along.mul_(torch.where(x == 0.0, x_norm / math.sqrt(vectors.dimension(x)), x))
    along.div_(vectors.norm(along))

    size = x_norm if x_norm > 0.0 else 1.0

    def rung(radius: float) -> _Rung:
        above = grad(torch.add(x, along, alpha=radius)).clone()
        half = is_low_precision(above, HALF_PRECISION)
        below = grad(torch.sub(x, along, alpha=radius))
        product = torch.sub(above, below).div_(2.0 * radius)
        even, length = above.add_(below).sub_(grad0, alpha=2.0), vectors.norm(product)
        jumps = x.dtype == torch.float32 and not half and off_grid(even, length * size)
        return _Rung(product, length, vectors.norm(even) / math.sqrt(6.0), radius, half, jumps)

    far = rung(LOW_PRECISION_SHIFT * size)
    again = grad(x)
    moved = vectors.norm(again - grad0)
    again = again.clone() if moved > 0.0 else grad0
    near = far if far.half else rung(noise_radius(x, x_norm))
    seen = Survey(noise=near.noise, curvature=near.size, drowned=near.drowned)
    if not math.isfinite(near.noise + near.size + far.size + far.noise):
        return seen
    if moved > REMEMBERS * near.noise:
        seen = replace(seen, again=again, noise=max(near.noise, moved))
    seen = replace(
        seen,
        far_noise=far.noise,
        suspicious=far.half,
        steady=not near.drowned and not far.contradicts(near, seen.noise),
        jumps=far.jumps,
    )
    if near.drowned or seen.has_memory:
        seen = replace(seen, curvature=far.size, drowned=far.drowned)
    if near.drowned and 0.0 < CLEAR * near.noise < far.size * far.radius:
        near = rung(CLEAR * near.noise / far.size)  # Where the noise no longer hides the Hessian.
    middle, few = far, vectors.dimension(x) < FEW_VARIABLES and x.dtype == torch.float32 and x_norm > 0.0
    if few or far.half or near.size == far.size == 0.0:
        far = rung(LOW_PRECISION_RADIUS * size)  # None of few variables may have crossed a step of half precision.
    return _staircase(seen, rung, near, middle, far) if far.contradicts(near, seen.noise) else seen


def _staircase(seen: Survey, rung: Callable[[float], _Rung], near: _Rung, middle: _Rung, far: _Rung) -> Survey:
    """The survey, with the distance from which on products can be trusted, if those next to x mislead."""
    half_way = rung(far.radius / 2.0)
    off, half_off = far.apart(near), half_way.apart(near)
    decays = DECAYS[0] * off <= half_off <= DECAYS[1] * off and (middle is far or middle.apart(near) <= half_off)
    if near.size > 0.0 and decays:
        return seen
    found = _steady_rung(rung, near, far)
    first = far if found is None else found
    noise = first.noise if seen.again is None else max(first.noise, seen.noise)
    longer = near.size > NARROW * first.size and not near.drowned and seen.again is None
    narrow = near.radius if longer and near.radius < first.radius else 0.0
    seen = replace(seen, nearest=first.radius, narrow=narrow, suspicious=True, broken=found is None)
    return replace(seen, noise=noise, far_noise=first.noise, curvature=first.size, drowned=first.drowned)


def _steady_rung(rung: Callable[[float], _Rung], near: _Rung, far: _Rung) -> _Rung | None:
    """The nearest rung, on the way in from the far one, up to which products agree with each other; None if none do.

    On the way in, truncation falls from rung to rung, and rounding grows. So the way ends where two products that
    disagree are no nearer to each other than the two before them, or where products that agreed do so no more. Still
    nearer to x, within a step of a staircase, they agree again, and mislead: those that agree with the near rung do not
    count.
    """
    last, apart, steady = far, math.inf, None
    while last.radius > INWARDS * near.radius:
        nearer = rung(last.radius / INWARDS)
        change, agrees = nearer.apart(last), not (nearer.contradicts(last, 0.0) or nearer.drowned)
        if nearer.size == 0.0 or (not agrees and (steady is not None or change > apart)):
            break
        last, apart, steady = nearer, change, nearer if agrees else steady
    return steady if steady is not None and steady.contradicts(near, 0.0) else None
