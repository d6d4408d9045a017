"""Krylov for `negative_curvature`: quick at a known radius, else with everything measured and checked."""

from __future__ import annotations

import math
from dataclasses import replace

from torch import Tensor

from unsaddle import vectors
from unsaddle.curvature.displaced import DisplacedFunction
from unsaddle.curvature.extractor import Extractor
from unsaddle.curvature.krylov.careful import careful_search
from unsaddle.curvature.krylov.certificate import KrylovCandidate
from unsaddle.curvature.krylov.runs import gradient_error, measured_along, run, settings_for, with_what_is_seen
from unsaddle.curvature.result import Candidate, Status
from unsaddle.curvature.search import Search

QUICK_STEPS = 200
"""The most steps of a quick search. One that needs more gives way to a careful one."""

LINEAR_GRADIENTS = 2
"""Gradients that `_nonlinearity` takes."""

SYMMETRIC = 0.25
"""Products are those of a Hessian if the error of the projected matrix is below this share of γ. The error is at most
the matrix's size times its largest asymmetry."""

FEW_STEPS = 4
"""Fewer steps give too few entries to compare; `_nonlinearity` then checks the products along the start."""


def extract(search: Search) -> Candidate:
    """Searches quickly at the question's radius; carefully if there is none, or if the quick search does not decide."""
    quick = None if search.question.probe_radius is None else _quick(search, search.question.probe_radius)
    return careful_search(search) if quick is None else quick


def _quick(search: Search, radius: float) -> Candidate | None:
    """The search at the caller's radius; None if it does not decide.

    The careful search takes up to 13 gradients to survey those around x and to check that f is quadratic. The quick
    search reads both from the asymmetry of the products, for nothing: rounding and kinks are not symmetric.
    """
    f_hat = search.f_hat
    error = gradient_error(f_hat)
    settings = settings_for(search, num_steps=QUICK_STEPS, noise=error, smallest_radius=radius)
    start = vectors.random_direction(search.x, search.generator)
    candidate = run(search, settings, LINEAR_GRADIENTS, True, start)
    if candidate.scale.radius > radius and not _adds_up(candidate, search.basis):
        # The values are so coarse that the radius had to grow during the run.
        settings = replace(settings, smallest_radius=candidate.scale.radius)
        candidate = run(search, settings, LINEAR_GRADIENTS, True, start)
    if not _adds_up(candidate, search.basis):
        return None
    # The error of a product has the norm √2σ/r.
    scale = candidate.scale
    seen = replace(scale, noise=max(scale.noise, candidate.asymmetry * scale.radius / math.sqrt(2.0)))
    if candidate.vector is not None:
        candidate = replace(measured_along(f_hat, candidate, claims=False), scale=seen)  # The noise is not known.
        return candidate if candidate.measured is not None and candidate.measured.is_negative else None
    if candidate.status is not Status.NOTHING_FOUND:
        return None
    if candidate.steps < FEW_STEPS:
        off = _nonlinearity(f_hat, start, scale.radius)
        if not off <= SYMMETRIC * scale.gamma:
            return None
        candidate = replace(candidate, bound=candidate.bound + off, asymmetry=max(off, candidate.asymmetry))
    return replace(with_what_is_seen(search, candidate), scale=seen, start=start)


def _adds_up(candidate: KrylovCandidate, basis: int) -> bool:
    """Whether there is an answer, and its products are those of a Hessian."""
    size = min(candidate.steps, basis)
    return not candidate.exhausted and size * candidate.asymmetry <= SYMMETRIC * candidate.scale.gamma


def _nonlinearity(f_hat: DisplacedFunction, v: Tensor, r: float) -> float:
    """How far the gradient is from linear between r and −2r along v, by two gradients (a cache may hold the first).

    For a quadratic, 2(∇f(x+rv) − ∇f(x)) + ∇f(x−2rv) − ∇f(x) = 0. A kink, |x|^{3/2} or a third derivative violates it.
    The result is three times the error that a third derivative makes in the product with v.
    """
    off = 2.0 * f_hat.f.grad_at_sum(f_hat.x, v, r) + f_hat.f.grad_at_sum(f_hat.x, v, -2.0 * r)
    off.sub_(f_hat.grad0, alpha=3.0)
    return vectors.norm(off) / (2.0 * r)


KRYLOV = Extractor(extract=extract, has_theory=False, keeps_gradient=True)
