"""The curvature along one direction and its error, from gradients on both sides of x."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.measure import ladder
from unsaddle.measure.noise import is_low_precision
from unsaddle.objective import SampledFunction


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Constants of a measurement: γ = `gamma`, L1 = `smoothness`, σ = `noise` of a gradient, r = `radius` of probes."""

    gamma: float
    smoothness: float
    noise: float
    radius: float
    measuring_radius: float | None = None
    """Where to begin to measure a direction; None for r."""
    smallest_radius: float = 0.0
    """Nearer to x, rounding drowns every difference."""
    largest_radius: float = math.inf
    """A direction is not measured farther out than this."""


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """The curvature along one direction, by symmetric gradient differences."""

    curvature: float
    """vᵀ∇²f(x)v, by gradients on both sides of x, or on one if a search claimed it. From three radii it is extrapolated
    to r = 0."""
    error: float
    """How far the curvature may be off, by truncation and rounding. On fresh samples: the width of the interval."""
    radius: float
    """r, the only radius, or the smallest of three."""
    consistent: bool = True
    """Whether the radii agree as those of a smooth function do. If not, do not trust the error."""
    samples: int
    fresh: bool
    """Whether the samples are independent of the direction."""
    hessian_lipschitz: float = math.nan
    """A lower bound on L2, seen along the direction; nan on fresh samples."""
    jump: float = 0.0
    """How far the gradient along the direction jumps next to x, as far as the radii tell."""
    uneven: float = 0.0
    """‖∇f(x+rv) + ∇f(x−rv) − 2∇f(x)‖, where it counts beside the curvature and no third derivative explains it: kinks,
    or noise, are nearer than r. Then the curvature is how f bends over r, and the Hessian at x may be another."""
    sided: bool = False
    """Whether a kink is right beside x, and the curvature is that of the other side."""
    deviation: float = math.nan
    """On fresh samples: the standard deviation of one sample's curvature along the direction."""

    @property
    def is_finite(self) -> bool:
        return math.isfinite(self.curvature) and math.isfinite(self.error)

    @property
    def is_negative(self) -> bool:
        """Whether the curvature is negative beyond its error, and the error can be trusted."""
        return self.is_finite and self.consistent and self.curvature + self.error < 0.0


def symmetric_difference(f: SampledFunction, x: Tensor, v: Tensor, radius: float) -> float:
    """vᵀ(∇f(x+rv) − ∇f(x−rv))/(2r) for a unit v: vᵀ∇²f(x)v up to L2·r/2, and exact for cubics. Two gradients."""
    return opposite_probes(f, x, v, radius).curvature


class Probes(NamedTuple):
    """Two gradients on opposite sides of x, or one beside ∇f(x). `curvature` is by their difference."""

    curvature: float
    hessian_lipschitz: float
    """A lower bound on L2, seen along v; nan without ∇f(x)."""
    low_precision: bool
    """Whether the gradients seem to come from half precision."""

    def even(self, radius: float) -> float:
        """‖∇f(x+rv) + ∇f(x−rv) − 2∇f(x)‖/(2r), the even part of a product from one side; nan without ∇f(x)."""
        return self.hessian_lipschitz * radius / 2.0


def opposite_probes(f: SampledFunction, x: Tensor, v: Tensor, radius: float, grad0: Tensor | None = None) -> Probes:
    """The symmetric difference along a unit v and, given ∇f(x), a lower bound on L2. Two gradients.

        ‖∇f(x+rv) + ∇f(x−rv) − 2∇f(x)‖/r²  →  ‖∂_v∇²f(x)·v‖ ≤ L2   for r → 0

    The bound is zero if f is even around x. Rounding adds 2.5σ/r² to it.
    """
    above = f.add_grad_at_sum(torch.empty_like(v), x, v, radius, afresh=True)
    low, change = is_low_precision(above), math.nan
    if grad0 is None:
        difference = f.add_grad_at_sum(above, x, v, -radius, subtract=True)  # Needs no second vector.
    else:
        below = f.grad_at_sum(x, v, -radius)
        change = vectors.norm(torch.add(above, below).sub_(grad0, alpha=2.0)) / radius / radius  # radius² may overflow.
        difference = above.sub_(below)
    (rise,) = vectors.dots((v, difference))
    return Probes(rise / (2.0 * radius), change, low)


def forward_probe(f: SampledFunction, x: Tensor, v: Tensor, radius: float, grad0: Tensor) -> Probes:
    """vᵀ(∇f(x+rv) − ∇f(x))/r for a unit v: vᵀ∇²f(x)v up to L2·r/2. One gradient."""
    there = f.grad_at_sum(x, v, radius)
    low = is_low_precision(there)
    (rise,) = vectors.dots((v, there - grad0))
    return Probes(rise / radius, math.nan, low)


CLAIM_GRADIENTS, SAME_SAMPLE_GRADIENTS = 2, 6
"""The gradients of `on_same_sample` where a claim agrees; and without one, where the first radii agree."""

MOST_GRADIENTS = CLAIM_GRADIENTS + SAME_SAMPLE_GRADIENTS + 4 * ladder.MOVES
"""The most gradients of `on_same_sample`."""

HALF_ROUNDING = 2.0**-7
"""The relative error of a curvature from gradients in half precision: four roundings of bfloat16. It is added since
the roundings of data and weights are the same at all radii if x is zero, so the radii do not show them."""

ROUNDINGS = 3.0
"""The rounding of a gradient along one direction is taken to be at most this many times σ/√d."""


UNEVEN, GROWS = 0.2, 2.0
"""The even part of a product counts from this share of the curvature on. Where it is a third derivative, it is 3.6
times as large at the third rung; that of rounding falls, and that of many kinks stays. Up to the second number it is no
third derivative."""


CLAIMED, AGREES = 3.0, 0.1
"""A measurement at one radius stands if it agrees with what the search claims from a nearer one: CLAIMED times their
difference is the error, and has to be at most this share of the curvature. A kink, a + J/t, would leave 1.1 times the
difference, truncation by t² 1.4 times, and by t, on one side, 2.1 times."""


def on_same_sample(
    f: SampledFunction,
    x: Tensor,
    v: Tensor,
    scale: Scale,
    grad0: Tensor | None = None,
    *,
    claimed: float | None = None,
    one_sided: bool = False,
    to_the_ground: bool = False,
) -> Measurement:
    """The curvature along v and its error, from two or more radii, on the F_S that v was found on.

        c(t) = vᵀ(∇f(x+tv) − ∇f(x−tv))/(2t)

    Products at r may claim a curvature already. If c(ρr) agrees with it, it stands. Else c is taken at r, ρr and ρ²r,
    for the r where they disagree least (`ladder.plateau`). The error is what the radii disagree by. Rounding adds to
    it: a gradient is off by σ, which is spread over all coordinates, so that the part along v is about σ/√d. In half
    precision 2⁻⁷ of the curvature is added. The measurement is not consistent if the differences do not shrink as those
    of a smooth function do, or if the error is more than half of the curvature. Given ∇f(x), what is `uneven` is told.

    Cost: two gradients where a claim agrees, or one if `one_sided`; six more where it does not; up to 20 where the
    first radii disagree; and up to 24 more if `to_the_ground`, which is for directions that were found far out.
    """
    seen: dict[float, Probes] = {}

    def at(radius: float) -> float:
        seen[radius] = opposite_probes(f, x, v, radius, grad0)
        return seen[radius].curvature

    along = ROUNDINGS * scale.noise / math.sqrt(vectors.dimension(x))
    sums = 8.0 * torch.finfo(x.dtype).eps  # The rounding of a sum over coordinates.
    if claimed is not None:
        r = ladder.RATIO * scale.radius
        one = (
            forward_probe(f, x, v, r, grad0) if one_sided and grad0 is not None else opposite_probes(f, x, v, r, grad0)
        )
        error = CLAIMED * abs(one.curvature - claimed) + along / r + sums * max(scale.smoothness, abs(one.curvature))
        uneven = one.even(r) > UNEVEN * abs(one.curvature) + math.sqrt(1.5) * scale.noise / r
        if error <= AGREES * abs(one.curvature) and not one.low_precision and not uneven:
            return Measurement(
                curvature=one.curvature,
                error=error,
                radius=r,
                samples=f.size,
                fresh=False,
                hessian_lipschitz=one.hessian_lipschitz,
            )
    r = scale.radius if scale.measuring_radius is None else scale.measuring_radius
    limits = (scale.smallest_radius, scale.largest_radius)
    found = ladder.plateau(at, r, rounding=along / r, within=limits, to_the_ground=to_the_ground)
    near, far = seen[found.radius], max(seen.items())[1]
    third = sorted(t for t in seen if t >= found.radius)[2]
    even = near.even(found.radius)
    uneven = UNEVEN * abs(found.value) < even and seen[third].even(third) < GROWS * even
    error = found.error + (HALF_ROUNDING * abs(found.value) if near.low_precision else 0.0)
    error += sums * max(scale.smoothness, abs(found.value))
    return Measurement(
        curvature=found.value,
        error=error,
        radius=found.radius,
        consistent=found.smooth and error <= 0.5 * abs(found.value),
        samples=f.size,
        fresh=False,
        hessian_lipschitz=far.hessian_lipschitz,
        jump=found.jump,
        uneven=2.0 * found.radius * even if uneven else 0.0,
    )
