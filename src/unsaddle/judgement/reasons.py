"""Why nothing could be decided, and what to do: two plain sentences by cause.

The advice names only arguments that `is_minimum` has: x, eps, gamma, samples, max_gradients.
"""

from __future__ import annotations

import math

import torch

from unsaddle.curvature import result
from unsaddle.curvature.krylov.certificate import LARGEST_NOISE_SHARE
from unsaddle.curvature.result import Curvature, Status

SENTENCES = {
    Status.NOT_FINITE: (
        "A value or gradient was NaN or infinite{not_finite}. Look for NaN and Inf in the data, or pass an x where F "
        "is finite."
    ),
    Status.NOT_DETERMINISTIC: (
        "F is not deterministic: two gradients at the same point differ. Switch dropout off, freeze the batch, or fix "
        "the seed inside F, and pass x again."
    ),
    Status.FLAT: (
        "The gradient is the same at x and next to it: F is constant or linear there, and has no curvature to measure. "
        "Check that F depends on x, or pass another x."
    ),
    Status.SAMPLE_ONLY: (
        "The curvature is negative on the sample that the direction was found on, but fresh samples do not show it. "
        "{more_samples}."
    ),
    Status.BUDGET_SPENT: "The budget ended before there was an answer. Raise max_gradients, or pass a larger gamma.",
    Status.SMOOTHNESS_EXCEEDED: (
        "A curvature was met that is larger than all that were measured before, so steps were too long. Pass another "
        "seed, to have it measured again."
    ),
}
"""By status, where the status is the cause."""

KINK = (
    "F has a kink next to x, as ReLU, abs and max-pooling make them: the gradient jumps there by about {jump:.1g}. "
    "{resolve}."
)
ROUNDING = (
    "The curvature that is looked for cannot be seen: gradients are off by {noise:.1g}, {cause}. {compute} {action}."
)
HIGHER_ORDER = f"{result.ZERO_HESSIAN} Compare values of F around x, or pass another x."
NARROW = (
    "The curvature of F changes within {radius:.1g} of x, and {hides} what is nearer: gradients are off by "
    "{noise:.1g}. {resolve}."
)
MEMORY = (
    "After a move away from x and back, the gradient differs by {noise:.1g}: an iterative solver inside of F starts "
    "where it ended. Tighten its tolerance, or pass {action}."
)
F_ENDS = (
    "Gradients show negative curvature, but only at a distance of {radius:.1g} from x where F is NaN or infinite, so "
    "they do not count. Pass an x that is farther from where F ends."
)
KINKS_TURN_UP = (
    "Between the kinks next to x, as of ReLU, F bends down along a direction, but beyond them no value along it is "
    "lower than F(x). Use a smooth F, or pass another x."
)
FAR_FROM_REST = (
    "The gradient is small beside the highest curvature, but it leads far: F is soft along it, or flattens out, and is "
    "lower far away. Follow the gradient, or pass eps."
)
DOWN_AMONG_KINKS = (
    "Kinks next to x, as of ReLU, or noise hide the curvature, but values tell that the gradient leads down. Follow "
    "the gradient, or pass eps."
)
VALUES_DO_NOT_FALL = (
    "Gradients show negative curvature along a direction, but no value along it is lower than F(x): the gradient is "
    "not that of F, or rounding hides the fall. Check the gradient, or compute in float64 and pass x again."
)


def reason_for(found: Curvature, more_samples: str) -> str:
    """Why the search did not decide, in two sentences: the cause, and what to do.

    A γ is named if it is below half of L1. A larger one would accept everything.
    """
    if found.status in SENTENCES:
        told = f": {found.not_finite}" if found.not_finite else ""
        return SENTENCES[found.status].format(more_samples=more_samples[0].upper() + more_samples[1:], not_finite=told)
    error = max(found.noise * math.sqrt(2.0), found.jump) / found.radius  # of a product
    gamma = max(error / LARGEST_NOISE_SHARE, 2.0 * found.gamma)
    visible = gamma < found.smoothness / 2.0
    action = f"gamma={gamma:.1g} to ask for what can be seen" if visible else "an x that is farther from it"
    cause = "by kinks such as those of ReLU, or by rounding" if _has_jumps(found) else "as in a lower precision"
    seen = {"noise": found.noise, "jump": found.jump, "action": action, "cause": cause} | _by_precision(found, action)
    if found.survey is not None and found.survey.has_memory:
        return MEMORY.format(**seen)
    if found.status is Status.PRECISION_TOO_LOW:
        return ROUNDING.format(**seen)
    if found.hessian_vanishes:
        return HIGHER_ORDER
    return KINK.format(**seen) if found.jumps else NARROW.format(radius=found.radius, **seen)


def kink_of(found: Curvature, jump: float) -> str:
    """The reason where gradients next to x were seen to jump."""
    return KINK.format(jump=jump, **_by_precision(found, "an x that is farther from it"))


def _by_precision(found: Curvature, action: str) -> dict[str, str]:
    """What hides curvature, and what to do about it. In float64 it is seldom the rounding of x. In float32 a larger γ
    does not help among kinks: float64 has room between them."""
    if any(v.dtype == torch.float64 for v in found.deciding):
        hides = "kinks such as those of ReLU, or a lower precision inside, hide"
        return {"hides": hides, "compute": "Pass", "resolve": f"Use a smooth F, or pass {action}"}
    hides = "kinks such as those of ReLU hide" if _has_jumps(found) else "rounding hides"
    again = "Compute in float64, as with model.double(), and ask again; or use a smooth F"
    return {"hides": hides, "compute": "Compute in float64, or pass", "resolve": again}


def _has_jumps(found: Curvature) -> bool:
    """Whether gradients were seen to jump: next to x by the search, or farther out by the survey."""
    return found.jumps or (found.survey is not None and found.survey.jumps)
