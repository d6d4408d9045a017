"""Krylov as `negative_curvature` calls it: quick where a radius is known, else with everything measured and checked."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.curvature.displaced import DisplacedFunction
from unsaddle.curvature.extractor import Extractor
from unsaddle.curvature.krylov.certificate import (
    LARGEST_NOISE_SHARE,
    KrylovCandidate,
    KrylovSettings,
    krylov,
    wanted_radius,
)
from unsaddle.curvature.question import RELATIVE_GAMMA
from unsaddle.curvature.result import Candidate, Status
from unsaddle.curvature.search import Inconclusive, Search
from unsaddle.measure import noise
from unsaddle.measure.direction import on_same_sample, opposite_probes, symmetric_difference

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

QUICK_STEPS = 200
"""Gradients after which the quick search gives way to the careful one."""

SYMMETRIC = 0.25
"""Products add up to a Hessian if the error of the projected matrix, at most its size times its largest asymmetry, is
below this share of γ."""

FEW_STEPS = 4
"""After fewer steps there are not enough entries to compare, and gradients along the start check the products:"""

LINEAR_GRADIENTS = 2
"""so many, which `_is_linear` takes."""


def extract(search: Search) -> Candidate:
    """Look quickly, if the question names a radius; carefully, if it does not or if that did not decide."""
    quick = None if search.question.probe_radius is None else _quick(search, search.question.probe_radius)
    return _careful(search) if quick is None else quick


# --- Quick: at a radius that is known -------------------------------------------------------------------------------


def _quick(search: Search, radius: float) -> Candidate | None:
    """The search at a radius of the caller's; None where it does not decide.

    The careful search spends eight gradients on the noise before and on whether f is quadratic after. Both show in the
    asymmetry of the products, which costs nothing: rounding and kinks are not symmetric.
    """
    f_hat = search.f_hat
    settings = KrylovSettings(
        num_steps=QUICK_STEPS,
        delta=search.delta,
        gamma=_given_gamma(search),
        relative_gamma=_relative_gamma(search),
        noise=f_hat.f.gradient_error(f_hat.value0, f_hat.grad_norm),
        smallest_radius=radius,
        basis=search.basis,
    )
    start = vectors.random_direction(search.x, search.generator)

    def run(settings: KrylovSettings) -> KrylovCandidate:
        candidate = search.within_budget(
            settings,
            lambda s: krylov(f_hat, s, search.generator, keep_history=True, start=start),
            extra_calls=LINEAR_GRADIENTS,
        )
        assert isinstance(candidate, KrylovCandidate)
        return candidate

    candidate = run(settings)
    if candidate.scale.radius > radius and not _adds_up(candidate, settings):
        # Values are so coarse that probes had to grow on the way.
        settings = replace(settings, smallest_radius=candidate.scale.radius)
        candidate = run(settings)
    if not _adds_up(candidate, settings):
        return None
    # What the products are off by is √2σ/r in norm.
    scale = candidate.scale
    seen = replace(scale, noise=max(scale.noise, candidate.asymmetry * scale.radius / math.sqrt(2.0)))
    if candidate.vector is not None:
        v = candidate.vector.div_(vectors.norm(candidate.vector))
        measured = on_same_sample(f_hat.f, f_hat.x, v, scale, f_hat.grad0)
        negative = measured.is_finite and measured.consistent and measured.curvature + measured.error < 0.0
        return replace(candidate, scale=seen, measured=measured) if negative else None
    decided = candidate.status is Status.NOTHING_FOUND
    if not decided or (len(candidate.history) < FEW_STEPS and not _is_linear(f_hat, start, candidate)):
        return None
    return replace(candidate, scale=seen, start=start)


def _adds_up(candidate: KrylovCandidate, settings: KrylovSettings) -> bool:
    """Whether there is an answer, and its products are those of a Hessian."""
    size = min(len(candidate.history), settings.basis)
    return not candidate.exhausted and size * candidate.asymmetry <= SYMMETRIC * candidate.scale.gamma


def _is_linear(f_hat: DisplacedFunction, v: Tensor, candidate: KrylovCandidate) -> bool:
    """Whether the gradient is linear between r and −2r along v. Two gradients; a function that remembers has the first.

    For a quadratic 2(∇f(x+rv) − ∇f(x)) + ∇f(x−2rv) − ∇f(x) = 0; a kink, |x|^{3/2} and a third derivative show.
    """
    r = candidate.scale.radius
    off = 2.0 * f_hat.f.grad_at_sum(f_hat.x, v, r) + f_hat.f.grad_at_sum(f_hat.x, v, -2.0 * r)
    off.sub_(f_hat.grad0, alpha=3.0)
    return vectors.norm(off) / (2.0 * r) <= SYMMETRIC * candidate.scale.gamma


# --- Careful: with nothing given ------------------------------------------------------------------------------------


def _careful(search: Search) -> Candidate:
    """Measure σ, search, and check what "nothing" rests on."""
    f_hat, x_norm = search.f_hat, search.f_hat.x_norm
    eps = torch.finfo(search.x.dtype).eps
    if not search.affords(2 + CHECK_GRADIENTS):
        raise Inconclusive(Status.BUDGET_SPENT)
    near = _noise(search)
    # In few dimensions the measured noise can come out small by accident; this much there always is.
    sigma = max(
        near.noise,
        0.25 * eps * (f_hat.grad_norm + near.curvature * x_norm),
        f_hat.f.gradient_error(f_hat.value0, f_hat.grad_norm),
    )
    smallest = search.question.smallest_radius
    if smallest is None:  # Where x or the noise is zero nothing tells the scale, and √ε of one, or of ‖x‖, has to do.
        smallest = 10.0 * eps * x_norm if sigma * x_norm > 0.0 else math.sqrt(eps) * max(1.0, x_norm)
    farthest = FARTHEST * x_norm if x_norm > 0.0 else FARTHEST
    settings = KrylovSettings(
        num_steps=STEPS,
        delta=search.delta,
        gamma=_given_gamma(search),
        relative_gamma=_relative_gamma(search),
        noise=sigma,
        noise_share=NOISE_SHARE[search.x.dtype],
        smallest_radius=smallest,
        largest_radius=max(farthest, search.question.smallest_radius or 0.0),
        first_curvature=near.curvature,
        basis=search.basis,
    )
    coarse = replace(settings, noise_share=LARGEST_NOISE_SHARE)
    for attempt in (settings, coarse, replace(coarse, central=True)):
        candidate = search.within_budget(
            attempt,
            lambda s: krylov(f_hat, s, search.generator, keep_history=search.question.keep_history),
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


def _given_gamma(search: Search) -> float | None:
    """What is looked for in F_S, if γ was given."""
    return None if search.question.gamma is None else search.sample_share * search.question.gamma


def _relative_gamma(search: Search) -> float:
    """The same as a share of the largest |eigenvalue| seen."""
    return search.sample_share * RELATIVE_GAMMA


def _noise(search: Search) -> noise.GradientNoise:
    """σ; where it is far above what rounding does, two more gradients tell whether f answers the same twice.

    They are taken next to x: at x itself the gradient may vanish whatever dropout does.
    """
    f_hat = search.f_hat
    share = None
    if search.question.smallest_radius is not None:  # Whoever names it expects what is nearer to be misleading.
        share = search.question.smallest_radius / (f_hat.x_norm or 1.0)
    elif f_hat.f.gradient_error(f_hat.value0, f_hat.grad_norm) > 0.0:
        # Where the oracle knows of more error than rounding, a hundred roundings are too short a shift to see it.
        share = torch.finfo(search.x.dtype).eps ** (1.0 / 3.0)
    near = noise.gradient_noise(f_hat.f.grad, search.x, f_hat.x_norm, f_hat.grad0, search.generator, share)
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


KRYLOV = Extractor(extract=extract, has_theory=False, keeps_gradient=True)
