"""The judge: the one place where evidence becomes a verdict, whoever asks."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import NamedTuple

from unsaddle.curvature.result import Curvature, Status


class Kind(StrEnum):
    """What a point is. Equal to its word: `verdict.kind == "saddle"`."""

    MINIMUM = "minimum"
    SADDLE = "saddle"
    NOT_STATIONARY = "not stationary"
    UNDECIDED = "undecided"

    def __repr__(self) -> str:
        return repr(self.value)


class Judgement(NamedTuple):
    """What the evidence comes to, and why, in a sentence; where it is undecided, with what would decide it."""

    kind: Kind
    reason: str


def judge(
    found: Curvature,
    *,
    gradient_norm: float = 0.0,
    gradient_error: float = 0.0,
    eps: float = math.inf,
    slack: float = 0.0,
    more_samples: str = "draw more samples",
) -> Judgement:
    """Decide what x is, from what is known about the gradient and the curvature there.

    Args:
        found: what the search for negative curvature came to.
        gradient_norm: ‖∇F(x)‖.
        gradient_error: how far it may be off, at the confidence stated.
        eps: gradients up to it count as zero; by default any does, for callers who have tested that already.
        slack: how far sampling may hide a lower curvature, at the confidence stated; inf where nobody knows.
        more_samples: how many samples would decide, as the action that the caller offers.
    """
    if found.status in (Status.NOT_FINITE, Status.NOT_DETERMINISTIC):
        return Judgement(Kind.UNDECIDED, sentence(found.status))
    if not math.isfinite(gradient_norm + gradient_error) or math.isnan(slack):
        return Judgement(Kind.UNDECIDED, sentence(Status.NOT_FINITE))
    if gradient_norm - gradient_error > eps:
        return Judgement(Kind.NOT_STATIONARY, "The gradient is not small: follow it.")
    if found.status is Status.FOUND:
        at = found.measurements[-1]
        strong = " All of that interval is below -gamma." if at.curvature + at.error < -found.gamma else ""
        return Judgement(
            Kind.SADDLE, f"The curvature along the direction is {at.curvature:.4g} ± {at.error:.2g}.{strong}"
        )
    if found.status is not Status.NOTHING_FOUND:
        return Judgement(Kind.UNDECIDED, sentence(found.status))
    if gradient_norm + gradient_error > eps:
        return Judgement(
            Kind.UNDECIDED,
            f"The gradient may or may not be small: it is known to {gradient_error:.2g} only. Draw more samples where "
            "there are any, use a higher precision, or pass eps.",
        )
    if slack > found.gamma - found.sought:
        off = f"be off by {slack:.2g}" if math.isfinite(slack) else "differ from that of F by an unknown amount"
        reason = f"Nothing was found on the sample, but its Hessian may {off}: {more_samples}, or raise gamma."
        return Judgement(Kind.UNDECIDED, reason)
    allowed = f", and the Hessian's sampling error of {slack:.2g} is allowed for" if slack else ""
    negative = found.lowest < -found.noise / found.radius
    hint = (
        f" That is negative, though not below -gamma: pass gamma={-found.lowest / 2.0:.1g} to have it decided."
        if negative
        else ""
    )
    seen = f"Nothing below -gamma was found; the lowest curvature seen is {found.lowest:.3g}{allowed}.{hint}"
    return Judgement(Kind.MINIMUM, seen)


def sentence(status: Status) -> str:
    """A status as a sentence."""
    return status.value[0].upper() + status.value[1:] + "."
