"""The judge: the one place where evidence becomes a verdict, for `is_minimum`, `minimize`, `Neon` and SciPy alike."""

from __future__ import annotations

import math
from dataclasses import replace
from enum import StrEnum
from typing import NamedTuple

from unsaddle.curvature.result import Curvature, Status
from unsaddle.judgement.enough_samples import RAREST
from unsaddle.judgement.flat_direction import is_flat
from unsaddle.judgement.reasons import reason_for
from unsaddle.told import measured

FLAT = 1e-9
"""A curvature below this share of the largest counts as zero: it is rounding."""


class Kind(StrEnum):
    """What a point is. Equal to its word: `verdict.kind == "saddle"`."""

    MINIMUM = "minimum"
    SADDLE = "saddle"
    NOT_STATIONARY = "not stationary"
    UNDECIDED = "undecided"

    def __repr__(self) -> str:
        return repr(self.value)


class Judgement(NamedTuple):
    """The kind of a point, and the reason in a sentence. An undecided one says what would decide it."""

    kind: Kind
    reason: str


def judge(
    found: Curvature,
    *,
    gradient_norm: float = 0.0,
    gradient_error: float = 0.0,
    eps: float = math.inf,
    missed: float = 0.0,
    more_samples: str = "draw more samples where there are any",
    fall: float = math.nan,
) -> Judgement:
    """Decide what x is, from what is known about the gradient and the curvature there.

    Args:
        found: the result of the search for negative curvature.
        gradient_norm: ‖∇F(x)‖.
        gradient_error: how far that may be off, at the confidence stated.
        eps: gradients up to this norm count as zero. By default all do, for callers that have tested the gradient.
        missed: the share of the data that all samples may have missed, at the confidence stated.
        more_samples: advice on how many samples would decide, in terms of the caller's arguments.
        fall: how far F falls along the direction that was found, by values; nan if that was not measured.
    """
    judgement = _judged(found, gradient_norm, gradient_error, eps, more_samples, fall)
    if judgement.kind is Kind.UNDECIDED or missed <= RAREST:
        return judgement
    reason = f"So few samples may miss {missed:.2g} of the data, which could change the verdict: {more_samples}."
    return Judgement(Kind.UNDECIDED, reason)


def _judged(
    found: Curvature, gradient_norm: float, gradient_error: float, eps: float, more_samples: str, fall: float
) -> Judgement:
    """The judgement, if the samples missed no part of the data."""
    if found.status in (Status.NOT_FINITE, Status.NOT_DETERMINISTIC):
        return Judgement(Kind.UNDECIDED, reason_for(found, more_samples))
    if not math.isfinite(gradient_norm + gradient_error):
        return Judgement(Kind.UNDECIDED, reason_for(replace(found, status=Status.NOT_FINITE), more_samples))
    if gradient_norm - gradient_error > eps:
        return Judgement(Kind.NOT_STATIONARY, _two_ways(found, gradient_norm, fall))
    if found.status is Status.FOUND:
        at = found.measurements[-1]
        reason = f"The curvature along the direction is {measured(at.curvature, at.error)}."
        if at.curvature + at.error < -found.gamma:
            reason += " All of that interval is below -gamma."
        reason += found.over_kinks
        return Judgement(Kind.SADDLE, reason)
    if found.status is Status.SAMPLE_ONLY and found.measurements and found.measurements[-1].is_negative:
        at = found.measurements[-1]
        reason = f"There is soft negative curvature, {measured(at.curvature, at.error)}, but the gradient is not known "
        return Judgement(Kind.UNDECIDED, f"{reason}well enough to tell whether it explains that: {more_samples}.")
    if found.status is not Status.NOTHING_FOUND:
        return Judgement(Kind.UNDECIDED, reason_for(found, more_samples))
    if gradient_norm + gradient_error > eps:
        reason = f"The gradient may or may not be small: it is known to {gradient_error:.2g} only. "
        advice = f"{more_samples[0].upper()}{more_samples[1:]}, use a higher precision, or pass eps."
        return Judgement(Kind.UNDECIDED, reason + advice)
    reason = f"Nothing below -gamma was found; the lowest curvature seen is {found.lowest:.3g}."
    known_to = max(abs(found.upper - found.lowest), FLAT * found.smoothness)
    if is_flat(found, FLAT):
        reason += f" Along one direction the curvature is zero, within ± {known_to:.1g}: there, higher derivatives "
        reason += "decide whether F rises. verdict.plot() shows F along it."
    return Judgement(Kind.MINIMUM, reason + found.over_kinks)


def _two_ways(found: Curvature, gradient_norm: float, fall: float) -> str:
    """What to do where the gradient is not small: it and negative curvature, if that was seen, promise a fall each."""
    if found.direction is None:
        return f"The gradient is not small: follow it.{found.over_kinks}"
    promise = gradient_norm**2 / (2.0 * found.smoothness)
    step = f"The gradient is not small: a step along it promises a fall of about {promise:.2g}."
    return f"{step} {negative_too(found, fall, promise)}{found.over_kinks}"


def negative_too(found: Curvature, fall: float, promise: float = math.nan) -> str:
    """Tells negative curvature that was seen where the gradient leads down, and compares the two ways.

    A step along the gradient is sure of its promise. More steps, or a longer one, may lead farther down.
    """
    at, better = found.measurements[-1], ", but no lower point was found along it" if fall == 0.0 else ""
    if fall > 0.0:
        better = f", where F falls by {fall:.2g}"
        better += ": more than that step, though the gradient may lead farther" if fall > promise else ""
        better += ": the lesser way down" if fall <= promise else ""
    return f"There is negative curvature too, {measured(at.curvature, at.error)} along the direction{better}."
