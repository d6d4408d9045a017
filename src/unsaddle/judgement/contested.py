"""What may contest a judgement: values, gradients farther out, and F along its gradient."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from unsaddle.curvature.displaced import DisplacedFunction
from unsaddle.curvature.krylov.certificate import SURE
from unsaddle.curvature.krylov.steep import leads_far
from unsaddle.curvature.result import Curvature
from unsaddle.judgement.drop import Drop
from unsaddle.judgement.flat_direction import FlatFall, flat_fall
from unsaddle.judgement.gradient_promise import BETTER_WAY, fall_along_gradient
from unsaddle.judgement.half_precision import STAIRCASE, contradicts, ends_within, steps_next_to_x, values_rise
from unsaddle.judgement.judge import Judgement, Kind
from unsaddle.judgement.measured_gradient import Gradient
from unsaddle.judgement.reasons import DOWN_AMONG_KINKS, F_ENDS, FAR_FROM_REST, KINKS_TURN_UP, VALUES_DO_NOT_FALL
from unsaddle.judgement.zero_hessian import SHAPES, without_hessian
from unsaddle.measure.rest import small_gradient
from unsaddle.objective import SampledFunction

SYMMETRIC, ROUNDINGS = 0.05, 3.0
"""Where values show no fall, products have to be symmetric up to this share of the curvature that they claim, or up to
so many times their rounding."""

MAY_BE_BETTER = 0.25
"""The gradient may be the better way down if it promises this share of the fall along the direction."""


def contested(
    judgement: Judgement,
    seen: Gradient,
    found: Curvature,
    f: SampledFunction,
    x: Tensor,
    drop: Drop,
    generator: torch.Generator,
    *,
    sampled: bool,
    full_precision: bool,
) -> tuple[Judgement, Gradient, FlatFall | None]:
    """The judgement after whoever may contest it: values, gradients farther out, and F along its gradient.

    Where that last one objects, as the better way down or for being so soft, ε is what it takes for small.
    """
    if judgement.kind is Kind.UNDECIDED and found.small_gradient < seen.norm:
        # What was measured as noise are jumps at kinks. The rounding of the gradient is below this (`leads_far`).
        small, error = found.small_gradient, min(seen.error, seen.norm - found.small_gradient)
        return Judgement(Kind.NOT_STATIONARY, DOWN_AMONG_KINKS), seen._replace(eps=small, error=error), None
    if judgement.kind is Kind.UNDECIDED and found.status in SHAPES and not sampled:
        reason, falls = without_hessian(judgement.reason, found, f, x, generator)
        return Judgement(Kind.UNDECIDED, reason), seen, falls
    if judgement.kind is Kind.SADDLE and drop.value == 0.0 and (not _is_sure(found) or values_rise(f, x, found)):
        return Judgement(Kind.UNDECIDED, KINKS_TURN_UP if found.piece > 0.0 else VALUES_DO_NOT_FALL), seen, None
    if judgement.kind is Kind.SADDLE and not drop.both_ways and ends_within(f, x, found):
        return Judgement(Kind.UNDECIDED, F_ENDS.format(radius=found.measurements[0].radius)), seen, None
    if not full_precision and contradicts(f, x, found, judgement.kind, seen.unit * (seen.least - seen.eps), generator):
        return Judgement(Kind.UNDECIDED, STAIRCASE), seen, None
    # The gradient is asked only if it may promise more: at a saddle it is zero, and this costs nothing.
    may_be_better = seen.follows_l1 and seen.least * abs(drop.length) > MAY_BE_BETTER * drop.value > 0.0
    if judgement.kind is Kind.SADDLE and not sampled and may_be_better:
        fall = fall_along_gradient(f, x, abs(drop.length))
        if fall >= drop.value:
            ways = {"along_gradient": fall, "along_direction": drop.value, "curvature": found.curvature}
            small = MAY_BE_BETTER * seen.least * drop.value / fall
            return Judgement(Kind.NOT_STATIONARY, BETTER_WAY.format(**ways)), seen._replace(eps=small), None
    if judgement.kind is not Kind.MINIMUM or sampled:
        return judgement, seen, None
    if not full_precision and steps_next_to_x(f, x, found, generator):
        return Judgement(Kind.UNDECIDED, STAIRCASE), seen, None
    falls = flat_fall(f, x, found)
    if falls is not None:
        return judgement, seen, falls
    if seen.follows_l1 and seen.norm > seen.error:
        if found.piece > 0.0:  # Beyond the piece of F that x lies in, the way may go on.
            small = leads_far(DisplacedFunction(f, x), seen.error)
        else:
            small = small_gradient(f, x, radius=found.radius, eps=seen.eps, error=seen.error)
        if seen.least > small:
            return Judgement(Kind.NOT_STATIONARY, FAR_FROM_REST), seen._replace(eps=small), None
    return judgement, seen, None


def _is_sure(found: Curvature) -> bool:
    """Whether gradients are sure of a saddle where values show no fall, and may be too coarse: products near x and
    farther out agree, and they are symmetric. Those of a gradient that lacks a part by rounding are not."""
    steady = found.survey is not None and found.survey.steady
    rounding = math.sqrt(2.0) * found.noise / found.radius
    expected = max(SYMMETRIC * abs(found.curvature), ROUNDINGS * rounding)
    return steady and found.asymmetry <= min(expected, SURE * abs(found.curvature))
