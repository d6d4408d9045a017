"""Krylov with nothing given: the noise of a gradient is measured, and what "nothing found" rests on is checked."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from unsaddle import vectors
from unsaddle.curvature.displaced import DisplacedFunction
from unsaddle.curvature.krylov.certificate import (
    LARGEST_NOISE_SHARE,
    KrylovCandidate,
    KrylovSettings,
    krylov,
    wanted_radius,
)
from unsaddle.curvature.result import Candidate, Status
from unsaddle.curvature.search import Inconclusive, Search
from unsaddle.measure import noise
from unsaddle.measure.direction import opposite_probes, symmetric_difference

STEPS = 2000
"""Gradients that a run takes without a budget of its own."""

NOISE_SHARE = {torch.float32: 0.1, torch.float64: 1e-4}
"""Rounding in a product as a share of γ, at the radius that is tried first."""

FARTHEST = 0.03
"""Probes go no farther than this share of ‖x‖; beyond it a Hessian means nothing for any function we met."""

CHECK_GRADIENTS = 6
"""Gradients that `_is_quadratic` takes."""

STEADY = 0.25
"""How much the highest curvature may change, as a share of it, between r and 2r. A kink changes it by a half, |x|^{3/2}
by 0.29, and L1 and with it γ would mean nothing."""

SUSPICIOUS = 1e3
"""Noise above so many roundings of the gradient and of x is looked into."""


def extract(search: Search) -> Candidate:
    """Krylov as `negative_curvature` calls it: measure σ, run, and check what "nothing" rests on."""
    f_hat, x_norm = search.f_hat, search.f_hat.x_norm
    eps = torch.finfo(search.x.dtype).eps
    if not search.affords(2 + CHECK_GRADIENTS):
        raise Inconclusive(Status.BUDGET_SPENT)
    near = _noise(search)
    # In few dimensions the measured noise can come out small by accident; this much there always is.
    noise = max(
        near.noise,
        0.25 * eps * (f_hat.grad_norm + near.curvature * x_norm),
        f_hat.f.gradient_error(f_hat.value0, f_hat.grad_norm),
    )
    settings = KrylovSettings(
        num_steps=STEPS,
        delta=search.delta,
        gamma=search.given_gamma,
        relative_gamma=search.relative_gamma,
        noise=noise,
        noise_share=NOISE_SHARE[search.x.dtype],
        # Where x or the noise is zero nothing tells the scale, and √ε of one, or of ‖x‖, has to do.
        smallest_radius=10.0 * eps * x_norm if noise * x_norm > 0.0 else math.sqrt(eps) * max(1.0, x_norm),
        largest_radius=FARTHEST * x_norm if x_norm > 0.0 else FARTHEST,
        first_curvature=near.curvature,
        basis=search.basis,
    )
    coarse = replace(settings, noise_share=LARGEST_NOISE_SHARE)
    for attempt in (settings, coarse, replace(coarse, central=True)):
        candidate = search.within_budget(
            attempt,
            lambda s: krylov(f_hat, s, search.generator, keep_history=search.keep_history),
            calls_a_step=1 + attempt.central,
            extra_calls=CHECK_GRADIENTS,
        )
        assert isinstance(candidate, KrylovCandidate)
        if candidate.exhausted:
            return replace(candidate, status=Status.BUDGET_SPENT)
        if candidate.scale.gamma > 0.0 and wanted_radius(coarse, candidate.scale.gamma) > settings.largest_radius:
            return replace(candidate, vector=None, status=Status.PRECISION_TOO_LOW)
        if candidate.status is not Status.NOTHING_FOUND:
            return candidate
        quadratic, change = _is_quadratic(f_hat, candidate)
        candidate = replace(candidate, hessian_lipschitz=change)
        if quadratic:
            return candidate
    return replace(candidate, status=Status.NOT_QUADRATIC)


def _noise(search: Search) -> noise.GradientNoise:
    """σ; where it is far above what rounding does, two more gradients tell whether f answers the same twice.

    They are taken next to x: at x itself the gradient may vanish whatever dropout does.
    """
    f_hat = search.f_hat
    # Where the oracle knows of more error than rounding, a hundred roundings are too short a shift to see it.
    coarse = f_hat.f.gradient_error(f_hat.value0, f_hat.grad_norm) > 0.0
    near = noise.gradient_noise(
        f_hat.f.grad,
        search.x,
        f_hat.x_norm,
        f_hat.grad0,
        search.generator,
        shift=torch.finfo(search.x.dtype).eps ** (1.0 / 3.0) if coarse else None,
    )
    if not math.isfinite(near.noise):
        raise Inconclusive(Status.NOT_FINITE)
    eps = torch.finfo(search.x.dtype).eps
    shift = noise.NOISE_SHIFT * eps * (f_hat.x_norm if f_hat.x_norm > 0.0 else 1.0)
    # Where the noise drowns the Hessian, what was taken for its size is the noise.
    rounding = eps * (f_hat.grad_norm + (0.0 if near.drowned else near.curvature * (f_hat.x_norm + shift)))
    if near.noise > SUSPICIOUS * rounding:
        u = vectors.random_direction(search.x, search.generator).mul_(shift)
        if vectors.norm(f_hat.grad(u) - f_hat.grad(u)) > 0.1 * near.noise:
            raise Inconclusive(Status.NOT_DETERMINISTIC)
    return near


def _is_quadratic(f_hat: DisplacedFunction, candidate: KrylovCandidate) -> tuple[bool, float]:
    """Whether the probes saw a Hessian: products are symmetric, and opposite probes agree along what decides; and L2.

    ‖∇f(x+rv) + ∇f(x−rv) − 2∇f(x)‖/(2r) is the even part of a product, zero for a quadratic. The curvature along the
    highest direction must be about the same at 2r, so that L1 is more than a kink seen from a distance of r.
    """
    scale, changes = candidate.scale, []
    if candidate.asymmetry > scale.gamma / 2.0:
        return False, math.nan
    r, rounding = scale.radius, 1.2 * scale.noise / scale.radius
    for v in {id(v): v for v in (candidate.deciding[0], candidate.deciding[-1])}.values():
        near, change, _ = opposite_probes(f_hat.f, f_hat.x, v, r, f_hat.grad0)
        changes.append(change)
        if not change * r / 2.0 <= scale.gamma / 2.0 + rounding:
            return False, changes[0]
    far = symmetric_difference(f_hat.f, f_hat.x, v, 2.0 * r)  # Along the last one, the highest.
    return abs(far - near) <= STEADY * abs(near) + rounding, changes[0]
