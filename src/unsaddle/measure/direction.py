"""Curvature along one direction, by gradients on both sides of x, with an error."""

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
    """The constants that a measurement goes by."""

    gamma: float
    """γ, given or relative to L1."""
    smoothness: float
    """L1, given or the largest |eigenvalue| seen."""
    noise: float
    """σ, the absolute error of a gradient."""
    radius: float
    """r, the probe radius: structure narrower than this is invisible."""
    measuring_radii: tuple[float, ...] = ()
    """Where a direction is measured, the next one where the radii around the one before do not agree; (r,) if empty."""


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Curvature along one direction, by symmetric gradient differences."""

    curvature: float
    """vᵀ(∇f(x+rv) − ∇f(x−rv))/(2r), extrapolated to r = 0."""
    error: float
    """How far it may be off: truncation and rounding; on fresh samples, the interval's half-width."""
    radius: float
    """r, the smallest of the radii."""
    consistent: bool = True
    """Whether the radii agree as those of a smooth function do; if not, the error is not to be trusted."""
    samples: int
    """How many samples answered."""
    fresh: bool
    """Whether they are independent of the direction."""
    hessian_lipschitz: float = math.nan
    """L2 as it shows along the direction, from below; nan on fresh samples."""
    deviation: float = math.nan
    """On fresh samples: the standard deviation of one sample's curvature along the direction, the Hessian's noise."""

    @property
    def is_finite(self) -> bool:
        """Whether the function answered with numbers at every radius and on every batch."""
        return math.isfinite(self.curvature) and math.isfinite(self.error)


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


SAME_SAMPLE_GRADIENTS = 6
"""Gradients that `on_same_sample` takes: two at each of three radii."""

SHRINKAGE = 0.6
"""How much of |c(4r) − c(2r)| may be left in |c(2r) − c(r)|. A term t^p leaves 2^{-p}: this admits p ≥ 0.74, for which
the error covers the truth; t^{0.4} would leave 0.75 and not be covered, a kink leaves 2."""

AGREEMENT = 1e-2
"""Curvatures at the three radii that agree to this share of what they measure need not shrink: the rest is rounding."""

HALF_ROUNDING = 2.0**-7
"""Error of a curvature, as a share of it, if gradients are computed in half precision: four roundings of bfloat16.
Those of data and weights are the same at all radii when x is zero, so that the radii do not show them."""


def on_same_sample(f: SampledFunction, x: Tensor, v: Tensor, scale: Scale, grad0: Tensor | None = None) -> Measurement:
    """Curvature along v on the F_S that v was found on, from three radii, with an error that covers what they show.

        c(t) = vᵀ(∇f(x+tv) − ∇f(x−tv))/(2t),  t = r, 2r, 4r
        e = (4c(r) − c(2r))/3,  e₂ = (4c(2r) − c(4r))/3         Richardson's extrapolation to t = 0, twice
        error = |c(2r) − c(r)| + |e − e₂| + σ/r  (+ 2⁻⁷|e| in half precision)

    The differences of a smooth function shrink with the radius: |c(2r) − c(r)| is half of |c(4r) − c(2r)| for a term
    linear in t, a quarter for a quadratic one. Where they do not, or where the error is more than half of what it
    measures, the measurement is not consistent. Two radii instead of three can be fooled by a function whose c(2r) and
    c(r) agree by accident.
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
    return Measurement(
        curvature=e,
        error=error,
        radius=r,
        consistent=(agree or shrinks) and error <= 0.5 * size,
        samples=f.size,
        fresh=False,
        hessian_lipschitz=far.hessian_lipschitz,
    )
