"""Measuring the curvature along a direction again, symmetrically, before anybody is told that it is negative."""

from __future__ import annotations

import torch
from torch import Tensor

from unsaddle.constants import sampled
from unsaddle.constants.estimates import opposite_probes
from unsaddle.cost import Ledger
from unsaddle.curvature.result import Measurement, Scale
from unsaddle.objective import Objective, SampledFunction

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


def on_fresh_samples(
    objective: Objective,
    x: Tensor,
    v: Tensor,
    radius: float,
    size: int,
    delta: float,
    generator: torch.Generator,
    ledger: Ledger,
) -> Measurement:
    """Curvature of F itself along v, from independent batches of about `size` samples in all.

    The direction was fixed before these samples were drawn, so their curvatures are independent and unbiased: the error
    is that of a one-sided t-interval at confidence 1 − δ.
    """
    seen = sampled.curvature(objective, x, v, radius=radius, samples=size, generator=generator, ledger=ledger)
    return Measurement(
        curvature=seen.mean,
        error=seen.error(delta),
        radius=radius,
        samples=seen.samples,
        fresh=True,
        deviation=seen.deviation,
    )
