"""The careful search: the gradients around x are surveyed, radii follow the noise, and "nothing" is checked."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from unsaddle.curvature.displaced import DisplacedFunction
from unsaddle.curvature.krylov.certificate import LARGEST_NOISE_SHARE, KrylovCandidate, KrylovSettings
from unsaddle.curvature.krylov.runs import gradient_error, measured_along, run, settings_for, with_what_is_seen
from unsaddle.curvature.question import RELATIVE_GAMMA
from unsaddle.curvature.result import Candidate, Status
from unsaddle.curvature.search import Inconclusive, Search
from unsaddle.measure import noise
from unsaddle.measure.direction import opposite_probes
from unsaddle.measure.survey import Survey, survey

STEPS = 2000
"""The most steps of a search."""

NOISE_SHARE = {torch.float32: 0.1, torch.float64: 1e-4}
"""Rounding in a product as a share of γ, at the radius of the first attempt."""

FARTHEST, FARTHER = 0.03, 0.5
"""Probes stay within these shares of ‖x‖: the second if no nearer ones decide. That the function is quadratic so far
out is checked, along both ends of the spectrum."""

CENTRAL_SHARE = 0.1
"""Rounding in a product as a share of γ if products are central and the radius follows the noise that was met."""

CHECK_GRADIENTS = 8
"""Gradients that `_checked` takes."""

FIRST_RADIUS = {torch.float32: 3e-6, torch.float64: 1e-9}
"""The radius of the first search as a share of ‖x‖: 25 roundings of float32, where products of networks with ‖x‖ ≈ 100
are within a per cent along their lowest direction; more of float64, which has room."""

NEAR = 3.0
"""The nearest radius of a search, in units of the smallest one."""

NEARER = 0.5
"""A curvature that is steady only nearer to x than this share of a search's radius tells where to search instead."""

STEADY = 0.25
"""The highest curvature may change by this share between r and 2r. A kink changes it by a half, and |x|^{3/2} by 0.29:
L1, and γ with it, would then mean nothing."""

CONSTANT = 0.8
"""Even parts at two radii count as equal from this ratio on. Rounding and a third derivative have one half, or two."""

SUSPICIOUS = 1e3
"""If the noise is above so many roundings of the gradient and of x, f may not be deterministic, which is tested."""

MET = 10.0
"""Jumps of the gradient that a search met count as jumps from this multiple of the noise on."""

SURVEY_GRADIENTS = 5
"""Gradients of a survey of a smooth function."""

REPEATS = 10.0
"""If two gradients at the same point differ by more than this many σ, the function is not deterministic."""


def careful_search(search: Search) -> Candidate:
    """Searches, and checks that f is quadratic before it reports that nothing was found.

    The first radius follows from the precision of x alone. What is found there is measured, and needs no more. Else the
    gradients around x are surveyed. A search that fails says why, and the next one is nearer to x, from both sides, or
    as far out as the noise that it met asks for.
    """
    f_hat, question = search.f_hat, search.question
    if not search.affords(SURVEY_GRADIENTS + CHECK_GRADIENTS):
        raise Inconclusive(Status.BUDGET_SPENT)
    radius_is_open = question.smallest_radius is None and gradient_error(f_hat) == 0.0
    first = around = None
    if question.survey_first or not radius_is_open:
        around = _surveyed(search)
    if radius_is_open and (around is None or _may_be_near(search, around)):
        first = _at_first_radius(search)
        if first is not None and first.measured is not None and first.measured.is_negative:
            return replace(first, survey=around)
    around = _surveyed(search) if around is None else around
    if around.again is not None:  # The first gradient is that of a solver that had not moved.
        f_hat.renew(around.again)
    settings, farthest = _careful_settings(search, around), FARTHER * (f_hat.x_norm or 1.0)
    coarse = replace(settings, noise_share=LARGEST_NOISE_SHARE)
    # Kinks look like noise next to x. Where that noise leads too far from x, probes are brought near.
    near_to_x = replace(settings, noise=0.0, smallest_radius=NEAR * settings.smallest_radius)
    far_out = replace(settings, central=True, noise_share=CENTRAL_SHARE)
    noisy = settings.wanted_radius(settings.relative_gamma * around.curvature) > settings.largest_radius
    left = [near_to_x, far_out] if noisy else [settings, coarse, near_to_x]
    if around.has_memory or (noisy and around.suspicious):
        left = [far_out]
    largest = max(farthest, settings.largest_radius)
    far = [replace(coarse, central=True, largest_radius=largest), replace(far_out, largest_radius=largest)]
    left, nearest = left + far, math.inf
    candidate: KrylovCandidate | None = None
    if first is not None and first.vector is not None:  # It was measured already, and was not confirmed.
        candidate, nearest, first = replace(first, survey=around).with_jump(), first.scale.radius, None
        left = _where_smooth(candidate, settings) + _after_jumps(left, far, near_to_x, candidate, settings.noise)
    while left:
        attempt, before = left.pop(0), candidate
        if first is not None and coarse.allows(first.scale.gamma, first.scale.radius):
            candidate = first
        else:
            candidate = run(search, attempt, CHECK_GRADIENTS, question.keep_history)
        # Jumps that an earlier search met set the radius. What is checked is checked against the noise.
        measure_at = candidate.scale.radius if attempt.central else candidate.scale.measuring_radius
        sigma = min(settings.noise, attempt.noise) if attempt is near_to_x else settings.noise
        scale = replace(candidate.scale, noise=sigma, measuring_radius=measure_at)
        candidate, first = replace(candidate, scale=scale, survey=around), None
        if candidate.exhausted:  # The attempt before it has more to say.
            return replace(candidate if before is None else before, vector=None, status=Status.BUDGET_SPENT)
        if candidate.vector is not None:
            candidate = measured_along(f_hat, candidate, to_the_ground=attempt.central)
            if candidate.measured is not None and candidate.measured.is_negative:
                return candidate
        elif candidate.status is not Status.NOTHING_FOUND:
            if before is None:
                return candidate
            candidate = before  # Half precision is flat next to x.
        else:
            candidate, quadratic = _checked(f_hat, candidate, attempt.central)
            if quadratic:
                return with_what_is_seen(search, candidate)
            candidate = replace(candidate, status=Status.NOT_QUADRATIC)
        candidate = candidate.with_jump()
        if left and candidate.scale.radius < nearest:
            nearest = candidate.scale.radius
            left = _where_smooth(candidate, settings) + _after_jumps(left, far, near_to_x, candidate, settings.noise)
    assert candidate is not None
    if not noise.repeats(f_hat.f, f_hat.x, candidate.scale.radius, REPEATS * settings.noise, search.generator):
        return replace(candidate, vector=None, status=Status.NOT_DETERMINISTIC)
    if coarse.wanted_radius(candidate.scale.gamma) > farthest:
        return replace(candidate, vector=None, status=Status.PRECISION_TOO_LOW)
    return candidate


def _where_smooth(failed: KrylovCandidate, settings: KrylovSettings) -> list[KrylovSettings]:
    """A search from both sides at the radius where the curvature along the failed direction was steady, if that is
    nearer to x."""
    measured = failed.measured
    if measured is None or not measured.consistent or measured.radius > NEARER * failed.scale.radius:
        return []
    return [replace(settings, central=True, noise=0.0, smallest_radius=measured.radius)]


def _after_jumps(
    left: list[KrylovSettings],
    far: list[KrylovSettings],
    near_to_x: KrylovSettings,
    failed: KrylovCandidate,
    noise: float,
) -> list[KrylovSettings]:
    """The searches that are left. If the gradient jumps, only one near to x may do, or those so far out that jumps do
    not count."""
    met = failed.jump / math.sqrt(2.0)
    if met <= MET * noise:
        return left
    near = [attempt for attempt in left if attempt is near_to_x]
    return near + [replace(attempt, noise=met) for attempt in far]


def _may_be_near(search: Search, around: Survey) -> bool:
    """Whether the noise seems to allow the first radius. L1 is up to √d times the product along a random direction."""
    largest = math.sqrt(search.dimension) * around.curvature
    wanted = math.sqrt(2.0) * around.noise / (LARGEST_NOISE_SHARE * RELATIVE_GAMMA * largest) if largest > 0.0 else 0.0
    near = wanted <= FIRST_RADIUS[search.x.dtype] * (search.f_hat.x_norm or 1.0)
    return near and around.nearest == 0.0 and not around.has_memory


def _at_first_radius(search: Search) -> KrylovCandidate | None:
    """The search at a radius that follows from the precision of x, with what it found measured; None without answer."""
    f_hat, eps = search.f_hat, torch.finfo(search.x.dtype).eps
    radius = FIRST_RADIUS[search.x.dtype] * f_hat.x_norm if f_hat.x_norm > 0.0 else math.sqrt(eps)
    settings = settings_for(search, num_steps=STEPS, smallest_radius=radius)
    candidate = run(search, settings, CHECK_GRADIENTS, search.question.keep_history)
    if candidate.exhausted or candidate.status not in (Status.FOUND, Status.NOTHING_FOUND):
        return None
    rounding = eps * (f_hat.grad_norm + candidate.scale.smoothness * f_hat.x_norm)
    candidate = replace(candidate, scale=replace(candidate.scale, noise=rounding))
    return candidate if candidate.vector is None else measured_along(f_hat, candidate, not search.question.survey_first)


def _surveyed(search: Search) -> Survey:
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


def _careful_settings(search: Search, around: Survey) -> KrylovSettings:
    """The settings of the first careful search."""
    f_hat, x_norm, eps = search.f_hat, search.f_hat.x_norm, torch.finfo(search.x.dtype).eps
    # In few dimensions the measured noise can be small by accident. The rounding is always there.
    rounding = 0.25 * eps * (f_hat.grad_norm + around.curvature * x_norm)
    sigma = max(around.noise, rounding, gradient_error(f_hat))
    smallest = search.question.smallest_radius or around.nearest
    farthest = max(FARTHEST * x_norm if x_norm > 0.0 else FARTHEST, smallest)
    if not smallest:  # If the noise is zero, that is an accident; at x = 0 it is not, and nothing tells the scale.
        smallest = math.sqrt(eps) * x_norm if x_norm > 0.0 == sigma else 10.0 * eps * (x_norm or 1.0)
    return settings_for(
        search,
        num_steps=STEPS,
        noise=sigma,
        noise_share=NOISE_SHARE[search.x.dtype],
        smallest_radius=smallest,
        largest_radius=farthest,
        first_curvature=around.curvature,
    )


def _checked(f_hat: DisplacedFunction, candidate: KrylovCandidate, central: bool) -> tuple[KrylovCandidate, bool]:
    """Whether the probes saw a Hessian; and the candidate, with what the check tells about L2 and λ_min.

    Products must be symmetric. Along the lowest and the highest direction, their even part,
    ‖∇f(x+rv) + ∇f(x−rv) − 2∇f(x)‖/(2r), must be small; central ones have none. At twice the radius, or at half of
    it far out, the curvature must be the same: along the lowest direction up to γ/2, along the highest up to a share,
    or L1 may come from a kink.
    """
    scale = candidate.scale
    if candidate.asymmetry > scale.gamma / 2.0:
        return candidate, False
    r, rounding = scale.radius, 1.2 * scale.noise / scale.radius
    other = r / 2.0 if r > FARTHEST * (f_hat.x_norm or 1.0) else 2.0 * r
    ends = candidate.deciding[0], candidate.deciding[-1]
    for v in {id(v): v for v in ends}.values():
        near, change, _ = opposite_probes(f_hat.f, f_hat.x, v, r, f_hat.grad0)
        if v is ends[0]:
            candidate = replace(candidate, hessian_lipschitz=change)
        if not central and not change * r / 2.0 <= scale.gamma / 2.0 + rounding:
            return candidate, False
        far, far_change, _ = opposite_probes(f_hat.f, f_hat.x, v, other, f_hat.grad0)
        if _hessian_jumps(change * r / 2.0, far_change * other / 2.0, scale.gamma):
            return candidate, False
        odd, grows = abs(far - near), (abs(near) - abs(far)) * math.copysign(1.0, other - r)
        candidate = replace(candidate, jump=max(candidate.jump, grows * max(r, other)))
        if v is ends[0]:
            candidate = replace(candidate, upper=max(near, candidate.lowest) + odd + rounding)
            if not odd <= scale.gamma / 2.0 + rounding:
                return candidate, False
    return candidate, odd <= STEADY * abs(near) + rounding


def _hessian_jumps(even: float, far_even: float, gamma: float) -> bool:
    """Whether the Hessian is another one on the other side of x, as that of z|z| is.

    The even part of a product falls as 1/t where it is rounding, and grows with t where it is a third derivative. A
    jump of the Hessian makes it constant.
    """
    return min(even, far_even) > gamma / 2.0 and CONSTANT * even <= far_even <= even / CONSTANT
