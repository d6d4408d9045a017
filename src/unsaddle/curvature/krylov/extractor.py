"""Krylov for `negative_curvature`: quick at a known radius, else with everything measured and checked."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.curvature.displaced import DisplacedFunction
from unsaddle.curvature.extractor import Extractor
from unsaddle.curvature.krylov.certificate import LARGEST_NOISE_SHARE, KrylovCandidate, KrylovSettings, krylov
from unsaddle.curvature.question import RELATIVE_GAMMA
from unsaddle.curvature.result import Candidate, Status
from unsaddle.curvature.search import Inconclusive, Search
from unsaddle.measure import noise
from unsaddle.measure.direction import on_same_sample, opposite_probes, symmetric_difference

STEPS, QUICK_STEPS = 2000, 200
"""The most steps of a careful and of a quick search. A quick search that needs more gives way to a careful one."""

NOISE_SHARE = {torch.float32: 0.1, torch.float64: 1e-4}
"""Rounding in a product as a share of γ, at the radius of the first attempt."""

FARTHEST = 0.03
"""Probes stay within this share of ‖x‖. Beyond it, the Hessian at x told nothing about any function that we met."""

CHECK_GRADIENTS, LINEAR_GRADIENTS = 6, 2
"""Gradients that `_is_quadratic` and `_nonlinearity` take."""

NEAR = 3.0
"""The nearest radius of a search, in units of the smallest one."""

STEADY = 0.25
"""The highest curvature may change by this share between r and 2r. A kink changes it by a half, and |x|^{3/2} by 0.29:
L1, and γ with it, would then mean nothing."""

SUSPICIOUS = 1e3
"""If the noise is above so many roundings of the gradient and of x, f may not be deterministic, which is tested."""

SYMMETRIC = 0.25
"""Products are those of a Hessian if the error of the projected matrix is below this share of γ. The error is at most
the matrix's size times its largest asymmetry."""

FEW_DIMENSIONS = 10
"""In so few dimensions a search goes on until every eigenvalue is known."""

FINE = 1e-4
"""A search that may go farther ends once curvature below −`FINE`·L1 is excluded."""

OPEN = 1e-7
"""In few dimensions a lowest curvature whose sign is within the error of the products is measured, if that error is
above this share of L1, which rounding does not explain in float64."""

FEW_STEPS = 4
"""Fewer steps give too few entries to compare; `_nonlinearity` then checks the products along the start."""


def extract(search: Search) -> Candidate:
    """Searches quickly at the question's radius; carefully if there is none, or if the quick search does not decide."""
    quick = None if search.question.probe_radius is None else _quick(search, search.question.probe_radius)
    return _careful(search) if quick is None else quick


def _settings(search: Search, **how: Any) -> KrylovSettings:
    """Settings for the γ that is looked for in F_S."""
    share, gamma = search.sample_share, search.question.gamma
    gamma = None if gamma is None else share * gamma
    few = search.question.seen_counts and search.dimension <= min(FEW_DIMENSIONS, search.basis)
    relative = share * RELATIVE_GAMMA
    farther, fine = (search.dimension, 0.0) if few else (search.question.farther, FINE)
    how = how | {"basis": search.basis, "farther": farther, "fine": fine}
    return KrylovSettings(delta=search.delta, gamma=gamma, relative_gamma=relative, **how)


def _run(
    search: Search, settings: KrylovSettings, extra_calls: int, keep_history: bool, start: Tensor | None = None
) -> KrylovCandidate:
    candidate = search.within_budget(
        settings,
        lambda s: krylov(search.f_hat, s, search.generator, keep_history=keep_history, start=start),
        calls_a_step=1 + settings.central,
        extra_calls=extra_calls,
    )
    assert isinstance(candidate, KrylovCandidate)
    return candidate


def _quick(search: Search, radius: float) -> Candidate | None:
    """The search at the caller's radius; None if it does not decide.

    The careful search takes eight gradients to measure the noise and to check that f is quadratic. The quick search
    reads both from the asymmetry of the products, for nothing: rounding and kinks are not symmetric.
    """
    f_hat = search.f_hat
    error = f_hat.f.gradient_error(f_hat.value0, f_hat.grad_norm)
    settings = _settings(search, num_steps=QUICK_STEPS, noise=error, smallest_radius=radius)
    start = vectors.random_direction(search.x, search.generator)
    candidate = _run(search, settings, LINEAR_GRADIENTS, True, start)
    if candidate.scale.radius > radius and not _adds_up(candidate, search.basis):
        # The values are so coarse that the radius had to grow during the run.
        settings = replace(settings, smallest_radius=candidate.scale.radius)
        candidate = _run(search, settings, LINEAR_GRADIENTS, True, start)
    if not _adds_up(candidate, search.basis):
        return None
    # The error of a product has the norm √2σ/r.
    scale = candidate.scale
    seen = replace(scale, noise=max(scale.noise, candidate.asymmetry * scale.radius / math.sqrt(2.0)))
    if candidate.vector is not None:
        v = candidate.vector.div_(vectors.norm(candidate.vector))
        measured = on_same_sample(f_hat.f, f_hat.x, v, scale, f_hat.grad0)
        return replace(candidate, scale=seen, measured=measured) if measured.is_negative else None
    if candidate.status is not Status.NOTHING_FOUND:
        return None
    if len(candidate.history) < FEW_STEPS:
        off = _nonlinearity(f_hat, start, scale.radius)
        if not off <= SYMMETRIC * scale.gamma:
            return None
        candidate = replace(candidate, bound=candidate.bound + off, asymmetry=max(off, candidate.asymmetry))
    return replace(_with_what_is_seen(search, candidate), scale=seen, start=start)


def _with_what_is_seen(search: Search, candidate: KrylovCandidate) -> KrylovCandidate:
    """The candidate, with its lowest direction measured if that may count, though it is above −γ."""
    error = len(candidate.history) * candidate.asymmetry
    is_open = search.dimension <= FEW_DIMENSIONS and error > OPEN * candidate.scale.smoothness
    wanted = search.question.seen_counts and candidate.lowest < (error if is_open else -candidate.asymmetry)
    if not wanted or not search.affords(0):
        return candidate
    v, f_hat = candidate.deciding[0], search.f_hat
    measured = on_same_sample(f_hat.f, f_hat.x, v, candidate.scale, f_hat.grad0)
    return replace(candidate, vector=v.clone(), measured=measured) if measured.is_negative else candidate


def _adds_up(candidate: KrylovCandidate, basis: int) -> bool:
    """Whether there is an answer, and its products are those of a Hessian."""
    size = min(len(candidate.history), basis)
    return not candidate.exhausted and size * candidate.asymmetry <= SYMMETRIC * candidate.scale.gamma


def _nonlinearity(f_hat: DisplacedFunction, v: Tensor, r: float) -> float:
    """How far the gradient is from linear between r and −2r along v, by two gradients (a cache may hold the first).

    For a quadratic, 2(∇f(x+rv) − ∇f(x)) + ∇f(x−2rv) − ∇f(x) = 0. A kink, |x|^{3/2} or a third derivative violates it.
    The result is three times the error that a third derivative makes in the product with v.
    """
    off = 2.0 * f_hat.f.grad_at_sum(f_hat.x, v, r) + f_hat.f.grad_at_sum(f_hat.x, v, -2.0 * r)
    off.sub_(f_hat.grad0, alpha=3.0)
    return vectors.norm(off) / (2.0 * r)


def _careful(search: Search) -> Candidate:
    """Measures σ, searches, and checks that f is quadratic before it reports that nothing was found."""
    f_hat, x_norm = search.f_hat, search.f_hat.x_norm
    eps = torch.finfo(search.x.dtype).eps
    if not search.affords(2 + CHECK_GRADIENTS):
        raise Inconclusive(Status.BUDGET_SPENT)
    near = _noise(search)
    # In few dimensions the measured noise can be small by accident. The rounding is always there.
    rounding = 0.25 * eps * (f_hat.grad_norm + near.curvature * x_norm)
    sigma = max(near.noise, rounding, f_hat.f.gradient_error(f_hat.value0, f_hat.grad_norm))
    smallest = search.question.smallest_radius
    if smallest is None:  # If x or the noise is zero, nothing tells the scale; √ε of max(1, ‖x‖) is a guess.
        smallest = 10.0 * eps * x_norm if sigma * x_norm > 0.0 else math.sqrt(eps) * max(1.0, x_norm)
    farthest = FARTHEST * x_norm if x_norm > 0.0 else FARTHEST
    settings = _settings(
        search,
        num_steps=STEPS,
        noise=sigma,
        noise_share=NOISE_SHARE[search.x.dtype],
        smallest_radius=smallest,
        largest_radius=max(farthest, search.question.smallest_radius or 0.0),
        first_curvature=near.curvature,
    )
    coarse = replace(settings, noise_share=LARGEST_NOISE_SHARE)
    # Kinks look like noise next to x. Where that noise leads too far from x, probes are brought near.
    near_to_x = replace(settings, noise=0.0, smallest_radius=NEAR * smallest)
    candidate: KrylovCandidate | None = None
    for attempt in (settings, coarse, near_to_x, replace(coarse, central=True)):
        before, candidate = candidate, _run(search, attempt, CHECK_GRADIENTS, search.question.keep_history)
        if candidate.exhausted:  # The attempt before it has more to say.
            return replace(candidate, status=Status.BUDGET_SPENT) if before is None else before
        if candidate.vector is not None:
            v = candidate.vector.div_(vectors.norm(candidate.vector))
            measured = on_same_sample(f_hat.f, f_hat.x, v, candidate.scale, f_hat.grad0)
            candidate = replace(candidate, measured=measured)
            if measured.is_negative:
                return candidate
        elif candidate.status is not Status.NOTHING_FOUND:
            if before is None:
                return candidate
            candidate = before  # Half precision is flat next to x.
        else:
            quadratic, change = _is_quadratic(f_hat, candidate)
            candidate = replace(candidate, hessian_lipschitz=change)
            if quadratic:
                return _with_what_is_seen(search, candidate)
            candidate = replace(candidate, status=Status.NOT_QUADRATIC)
    assert candidate is not None
    if coarse.wanted_radius(candidate.scale.gamma) > settings.largest_radius:
        return replace(candidate, vector=None, status=Status.PRECISION_TOO_LOW)
    return candidate


def _noise(search: Search) -> noise.GradientNoise:
    """Measures σ. If σ is far above rounding, two more gradients at one point test whether f is deterministic.

    That point is next to x: at x itself the gradient may vanish, whatever dropout does.
    """
    f_hat, eps, share = search.f_hat, torch.finfo(search.x.dtype).eps, None
    if search.question.smallest_radius is not None:  # Gradients nearer than this radius may mislead.
        share = search.question.smallest_radius / (f_hat.x_norm or 1.0)
    elif f_hat.f.gradient_error(f_hat.value0, f_hat.grad_norm) > 0.0:
        # The oracle knows of an error above rounding. A shift of a hundred roundings is too short to see it.
        share = eps ** (1.0 / 3.0)
    near = noise.gradient_noise(f_hat.f.grad, search.x, f_hat.x_norm, f_hat.grad0, search.generator, share)
    if not math.isfinite(near.noise):
        raise Inconclusive(Status.NOT_FINITE)
    shift = noise.NOISE_SHIFT * eps * (f_hat.x_norm if f_hat.x_norm > 0.0 else 1.0)
    # If the noise drowns the Hessian, the measured curvature is noise.
    rounding = eps * (f_hat.grad_norm + (0.0 if near.drowned else near.curvature * (f_hat.x_norm + shift)))
    if near.noise > SUSPICIOUS * rounding:
        u = vectors.random_direction(search.x, search.generator).mul_(shift)
        if vectors.norm(f_hat.grad(u) - f_hat.grad(u)) > 0.1 * near.noise:
            raise Inconclusive(Status.NOT_DETERMINISTIC)
    return near


def _is_quadratic(f_hat: DisplacedFunction, candidate: KrylovCandidate) -> tuple[bool, float]:
    """Whether the probes saw a Hessian, and an estimate of L2.

    Products must be symmetric. Along the lowest and the highest direction, the even part of a product,
    ‖∇f(x+rv) + ∇f(x−rv) − 2∇f(x)‖/(2r), must be small; for a quadratic it is zero. The curvature along the highest
    direction must be about the same at 2r, or L1 may come from a kink.
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
