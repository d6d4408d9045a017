"""Which way F goes where it is flat to second order: values show the terms of higher order."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.curvature.result import Curvature
from unsaddle.judgement.lower_points import Around, LowerPoint
from unsaddle.measure.direction import symmetric_difference
from unsaddle.objective import SampledFunction

SOFT = {torch.float64: 1e-7, torch.float32: 1e-5}
"""A lowest curvature up to this share of the largest counts as flat, and so does one that is not known better: a cubic
term, measured from one side, looks like L2 times half of the radius."""

RISES = 3e-6
"""A curvature above this share of the largest, measured as far out as the nearest lower point, makes x a minimum, if a
narrow one. float32 gradients do not tell less from zero."""

SURE, OWN = 0.1, 10.0
"""A third of that is enough if the error is at most this share of the curvature c, and ‖Hv‖ at most so many times c: a
flat vector v with a small part along a stiff direction has a curvature, too, but a far longer Hv."""

KNOWN = 2e-4
"""The curvature along a flat direction has to be known to this share of the largest. Beside stiff directions, rounding
may hide that it is positive."""

ELSEWHERE = (8.0, 0.125)
"""Shares of a radius at which the curvature is measured, too, if rounding or truncation rules there."""

CLEARLY = 2.0
"""A fall counts if it is so many times what the curvature explains, as far as that is known."""

POWERS = (1.5, 64.0)
"""Curvatures at a radius, a half and a quarter of it differ by two numbers with such a ratio, if by a power from t^0.6
to t⁶."""

NO_MINIMUM = "So x is no minimum, or a very narrow one."
FALLS = (
    "There is a direction v along which the curvature is zero, but F falls {ways}: by {fall:.2g} at a distance of "
    "{length:.2g}. " + NO_MINIMUM + " Go on from x + {length:.2g}·v, with v = verdict.evidence.deciding[0]."
)


def is_flat(found: Curvature, flat: float) -> bool:
    """Whether the lowest eigenvalue is zero, up to `flat` times L1 or as far as it is known."""
    known_to = max(abs(found.upper - found.lowest), flat * found.smoothness)
    return abs(found.lowest) <= known_to < found.gamma / 2.0


class FlatFall(NamedTuple):
    """A fall of F from a point where it is flat to second order along a direction."""

    fall: float
    """F(x) − F(x + sv)."""
    length: float
    """s > 0."""
    direction: Tensor
    """v, a unit vector."""
    ways: str
    """One way, both ways, or along a curve."""

    @property
    def reason(self) -> str:
        """The fall in words, and what to do."""
        return FALLS.format(ways=self.ways, fall=self.fall, length=self.length)


def flat_fall(f: SampledFunction, x: Tensor, found: Curvature, *, by_descent: bool = True) -> FlatFall | None:
    """How far F falls by terms of higher order, if the lowest direction of a search that found nothing is flat.

    Once a lower point is seen, the curvature along that direction is measured again, out there. If it is positive, x is
    a minimum, if a narrow one; if it explains the fall, that is not of higher order.

    Cost: nothing if the direction is not flat. Else some thirty values, 16 gradients more if F rises along it
    (`Around.lower_point`), and some more where F falls.
    """
    errors = (abs(found.upper - found.lowest), found.hessian_lipschitz * found.radius / 2.0)
    known_to = max([SOFT[x.dtype] * found.smoothness, *(error for error in errors if math.isfinite(error))])
    if not found.deciding or found.lowest > known_to:
        return None
    around, v = Around(f, x, found.smoothness), found.deciding[0]
    lower = around.lower_point(v, by_descent=by_descent)
    if lower is None:
        return None
    curvature, error = _curvature_near(f, x, v, lower.nearest / 2.0, RISES * found.smoothness)
    share = curvature / found.smoothness
    rises = share > RISES or not error <= KNOWN * found.smoothness
    rises = rises or (share > RISES / 3.0 and error <= SURE * curvature and _is_own(f, x, v, lower.nearest, curvature))
    explained = 0.5 * (abs(curvature) + error) * lower.distance**2
    if rises or not lower.fall > CLEARLY * explained:
        return None
    return told(around, lower)


def told(around: Around, lower: LowerPoint) -> FlatFall:
    """The fall to a lower point, with the ways that F falls."""
    ways = "along a curve" if not lower.straight else "both ways" if around.falls_along(-lower.way) else "one way"
    return FlatFall(lower.fall, lower.distance, lower.way, ways)


def _curvature_near(f: SampledFunction, x: Tensor, v: Tensor, radius: float, small: float) -> tuple[float, float]:
    """vᵀ∇²f(x)v and its error: at the radius if it is clear there, or `small`; else where the error is the smallest."""
    first = extrapolated_curvature(f, x, v, radius)
    if first[1] <= max(abs(first[0]) / 2.0, small):
        return first
    return min([first, *(extrapolated_curvature(f, x, v, share * radius) for share in ELSEWHERE)], key=lambda c: c[1])


def _is_own(f: SampledFunction, x: Tensor, v: Tensor, radius: float, curvature: float) -> bool:
    """Whether v is nearly an eigenvector of the Hessian with this curvature. Two gradients."""
    product = f.grad_at_sum(x, v, radius).clone().sub_(f.grad_at_sum(x, v, -radius)).div_(2.0 * radius)
    return vectors.norm(product) <= OWN * curvature


def extrapolated_curvature(f: SampledFunction, x: Tensor, v: Tensor, radius: float) -> tuple[float, float]:
    """vᵀ∇²f(x)v and its error, by symmetric differences at the radius, a half and a quarter of it. Six gradients.

    Where these shrink together as powers of the radius do, t² of a smooth function or t of a jump in the third
    derivative, they are extrapolated to 0 by Aitken's formula. Else they differ by rounding, and the first has least.
    """
    far, middle, near = (symmetric_difference(f, x, v, radius * share) for share in (1.0, 0.5, 0.25))
    outer, inner = far - middle, middle - near
    if inner != 0.0 and POWERS[0] <= outer / inner <= POWERS[1]:
        value = near - inner**2 / (outer - inner)
        return value, abs(near - value) / 8.0
    return far, abs(outer) + abs(inner)
