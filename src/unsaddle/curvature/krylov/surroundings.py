"""The gradients around x, before a careful search: surveyed, and tested for being deterministic."""

from __future__ import annotations

import math

import torch

from unsaddle.curvature.krylov.certificate import LARGEST_NOISE_SHARE
from unsaddle.curvature.krylov.runs import gradient_error
from unsaddle.curvature.question import RELATIVE_GAMMA
from unsaddle.curvature.result import Status
from unsaddle.curvature.search import Inconclusive, Search
from unsaddle.measure import noise
from unsaddle.measure.survey import Survey, survey

SURVEY_GRADIENTS = 5
"""Gradients of a survey of a smooth function."""

SUSPICIOUS = 1e3
"""If the noise is above so many roundings of the gradient and of x, f may not be deterministic, which is tested."""


def surveyed(search: Search) -> Survey:
    """Surveys the gradients around x. If σ is far above rounding, two more test whether f is deterministic.

    Their point is next to x: at x itself the gradient may vanish, whatever dropout does.
    """
    f_hat, eps, share = search.f_hat, torch.finfo(search.x.dtype).eps, None
    if search.question.smallest_radius is not None:  # Gradients nearer than this radius may mislead.
        share = search.question.smallest_radius / (f_hat.x_norm or 1.0)
    elif gradient_error(f_hat) > 0.0:
        # The oracle knows of an error above rounding. A shift of a hundred roundings is too short to see it.
        share = eps ** (1.0 / 3.0)
    where = (f_hat.f.grad, search.x, f_hat.x_norm, f_hat.grad0, search.generator)
    if share is None:
        around = survey(*where)
    else:
        near = noise.gradient_noise(*where, share)
        around = Survey(noise=near.noise, curvature=near.curvature, drowned=near.drowned)
    if not math.isfinite(around.noise):
        raise Inconclusive(Status.NOT_FINITE)
    shift = noise.NOISE_SHIFT * eps * (f_hat.x_norm if f_hat.x_norm > 0.0 else 1.0)
    # If the noise drowns the Hessian, the measured curvature is noise.
    rounding = eps * (f_hat.grad_norm + (0.0 if around.drowned else around.curvature * (f_hat.x_norm + shift)))
    suspicious = around.noise > SUSPICIOUS * rounding
    where_seen = max(shift, around.nearest)
    if suspicious and not noise.repeats(f_hat.f, search.x, where_seen, 0.1 * around.noise, search.generator):
        raise Inconclusive(Status.NOT_DETERMINISTIC)
    return around


def allows(around: Survey, search: Search, share: float) -> bool:
    """Whether the noise seems to allow a search at this share of ‖x‖. L1 is up to √d times the product along a random
    direction."""
    largest = math.sqrt(search.dimension) * around.curvature
    wanted = math.sqrt(2.0) * around.noise / (LARGEST_NOISE_SHARE * RELATIVE_GAMMA * largest) if largest > 0.0 else 0.0
    near = wanted <= share * (search.f_hat.x_norm or 1.0)
    return near and around.nearest == 0.0 and not around.has_memory
