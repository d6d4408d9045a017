"""The curvature along one direction and its error, from gradients on both sides of x."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.measure.noise import is_low_precision
from unsaddle.objective import SampledFunction


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Constants of a measurement: γ = `gamma`, L1 = `smoothness`, σ = `noise` of a gradient, r = `radius` of probes."""

    gamma: float
    smoothness: float
    noise: float
    radius: float
    measuring_radii: tuple[float, ...] = ()
    """Radii to measure a direction at, tried in turn until a measurement is consistent. Empty means (r,)."""


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """The curvature along one direction, by symmetric gradient differences."""

    curvature: float
    """vᵀ(∇f(x+rv) − ∇f(x−rv))/(2r). On the same sample it is extrapolated to r = 0."""
    error: float
    """How far the curvature may be off, by truncation and rounding. On fresh samples: the width of the interval."""
    radius: float
    """r, the smallest of the radii."""
    consistent: bool = True
    """Whether the radii agree as those of a smooth function do. If not, do not trust the error."""
    samples: int
    fresh: bool
    """Whether the samples are independent of the direction."""
    hessian_lipschitz: float = math.nan
    """A lower bound on L2, seen along the direction; nan on fresh samples."""
    deviation: float = math.nan
    """On fresh samples: the standard deviation of one sample's curvature along the direction."""

    @property
    def is_finite(self) -> bool:
        return math.isfinite(self.curvature) and math.isfinite(self.error)


def symmetric_difference(f: SampledFunction, x: Tensor, v: Tensor, radius: float) -> float:
    """vᵀ(∇f(x+rv) − ∇f(x−rv))/(2r) for a unit v: vᵀ∇²f(x)v up to L2·r/2, and exact for cubics. Two gradients."""
    return opposite_probes(f, x, v, radius).curvature


class OppositeProbes(NamedTuple):
    """The result of two gradients on opposite sides of x. `curvature` is their symmetric difference."""

    curvature: float
    hessian_lipschitz: float
    """A lower bound on L2, seen along v; nan without ∇f(x)."""
    low_precision: bool
    """Whether the gradients seem to come from half precision."""


def opposite_probes(
    f: SampledFunction, x: Tensor, v: Tensor, radius: float, grad0: Tensor | None = None
) -> OppositeProbes:
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
        change = vectors.norm(torch.add(above, below).sub_(grad0, alpha=2.0)) / radius**2
        difference = above.sub_(below)
    (rise,) = vectors.dots((v, difference))
    return OppositeProbes(rise / (2.0 * radius), change, low)


def hessian_lipschitz(f: SampledFunction, x: Tensor, v: Tensor, radius: float) -> float:
    """A lower bound on L2, seen along a unit v (`opposite_probes`). Three gradients.

    >>> from unsaddle import Function
    >>> f = Function(lambda x: x[0] ** 3 / 6 + x[1] ** 2).sample()
    >>> x, v = torch.zeros(2, dtype=torch.float64), torch.tensor([1.0, 0.0], dtype=torch.float64)
    >>> round(hessian_lipschitz(f, x, v, radius=1e-3), 6)
    1.0
    """
    return opposite_probes(f, x, v, radius, f.grad(x).clone()).hessian_lipschitz


SAME_SAMPLE_GRADIENTS = 6
"""The gradients of `on_same_sample`: two at each of three radii."""

SHRINKAGE = 0.6
"""The largest |c(2r) − c(r)|/|c(4r) − c(2r)| of a smooth function. For a term t^p the ratio is 2^{-p}, so p ≥ 0.74 is
admitted, and the error covers the truth. It would not cover t^{0.4}, with 0.75. A kink has 2."""

AGREEMENT = 1e-2
"""Differences between the radii need not shrink if they are below this share of the curvature: that is rounding."""

HALF_ROUNDING = 2.0**-7
"""The relative error of a curvature from gradients in half precision: four roundings of bfloat16. It is added since
the roundings of data and weights are the same at all radii if x is zero, so the radii do not show them."""


def on_same_sample(f: SampledFunction, x: Tensor, v: Tensor, scale: Scale, grad0: Tensor | None = None) -> Measurement:
    """The curvature along v and its error, from three radii, on the F_S that v was found on. Six gradients.

        c(t) = vᵀ(∇f(x+tv) − ∇f(x−tv))/(2t),  t = r, 2r, 4r
        e = (4c(r) − c(2r))/3,  e₂ = (4c(2r) − c(4r))/3         Richardson's extrapolation to t = 0, twice
        error = |c(2r) − c(r)| + |e − e₂| + σ/r  (+ 2⁻⁷|e| in half precision)

    For a smooth f, |c(2r) − c(r)| is half of |c(4r) − c(2r)| for a term linear in t, and a quarter for a quadratic one.
    The measurement is not consistent if the differences do not shrink, or if the error is more than half of the
    curvature. Two radii would not be enough: c(2r) and c(r) can agree by accident.
    """
    r = scale.radius
    near, middle, far = (opposite_probes(f, x, v, factor * r, grad0) for factor in (1.0, 2.0, 4.0))
    c1, c2, c4 = near.curvature, middle.curvature, far.curvature
    rounding = scale.noise / r
    e, e2 = (4.0 * c1 - c2) / 3.0, (4.0 * c2 - c4) / 3.0
    error = abs(c2 - c1) + abs(e - e2) + rounding + (HALF_ROUNDING * abs(e) if near.low_precision else 0.0)
    size = max(scale.gamma, abs(e))
    agree = abs(c2 - c1) + abs(c4 - c2) <= AGREEMENT * size
    shrinks = abs(c2 - c1) <= SHRINKAGE * abs(c4 - c2) + rounding
    ok, l2 = (agree or shrinks) and error <= 0.5 * size, far.hessian_lipschitz
    return Measurement(
        curvature=e, error=error, radius=r, consistent=ok, samples=f.size, fresh=False, hessian_lipschitz=l2
    )
