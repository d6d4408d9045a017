"""The gradient at a point, as a verdict needs it: its norm, how far that may be off, and what counts as small."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.cost import Ledger
from unsaddle.curvature.posed import Posed
from unsaddle.curvature.result import Curvature
from unsaddle.judgement.half_precision import averaged_gradient
from unsaddle.measure import batches
from unsaddle.measure.noise import GRADIENT_ROUNDINGS
from unsaddle.objective import SampledFunction
from unsaddle.theory.quadratics import stationary_gradient


class Gradient(NamedTuple):
    """What is known about the gradient."""

    norm: float
    error: float
    variance: float
    eps: float
    follows_l1: bool
    """Whether ε was left out."""
    in_metric: bool
    """Whether the norm is that of the gradient that the search saw: without a metric, or where ε was left out."""
    unit: float
    """The user's gradient times this is at most the one in the metric; 1 if `in_metric`."""

    @property
    def least(self) -> float:
        return self.norm - self.error

    @property
    def most(self) -> float:
        return self.norm + self.error

    @property
    def known(self) -> dict[str, float]:
        """As the judge takes it."""
        return {"gradient_norm": self.norm, "gradient_error": self.error, "eps": self.eps}


def measured_gradient(
    asked: Posed,
    found: Curvature,
    f: SampledFunction,
    eps: float | None,
    drawn: int | None,
    delta: float,
    generator: torch.Generator,
    ledger: Ledger,
) -> Gradient:
    """Measures the gradient: on fresh samples if `drawn` is a number, and with its rounding."""
    objective, x, follows_l1 = asked.objective, asked.x, eps is None
    there, at = (objective, x) if follows_l1 else (asked.own_objective, asked.own_x)
    if eps is None:
        eps = stationary_gradient(smoothness=_smoothness(found), x_norm=vectors.norm(x))
    norm, error, variance, unit = found.gradient_norm, 0.0, 0.0, 1.0
    if there is not objective:
        f, unit = there.sample(asked.question.sample_size(objective), generator, ledger=ledger), asked.smallest
        norm = vectors.norm(f.grad(at))
    if math.isfinite(found.noise):
        if drawn is not None:
            norm, error, variance = batches.gradient_norm(there, at, drawn, delta / 2.0, generator, ledger)
        exact = asked.question.full_precision  # Then jumps of the gradient farther out are no error of the one at x.
        error += GRADIENT_ROUNDINGS * (_rounding_of_x(found, x) if exact else _rounding(found, x)) / unit
        if norm - error > eps:
            error = max(error, asked.question.gradient_off / unit)
        if drawn is None and not exact and _rounds(found, x) and norm - error <= eps < norm + error:
            mean = averaged_gradient(f, at, generator)
            if mean.norm + mean.error(delta / 2.0) <= eps:  # If it is not small, that may be truncation.
                norm, error = mean.norm, mean.error(delta / 2.0)
    return Gradient(norm, error, variance, eps, follows_l1, there is objective, unit)


def _smoothness(found: Curvature) -> float:
    """L1: a search that failed, as its radius was too small, may have seen less than the steady products before it."""
    around = found.survey
    return max(found.smoothness, around.curvature if around is not None and around.steady else 0.0)


def _rounds(found: Curvature, x: Tensor) -> bool:
    """Whether the noise of the far rung counts as rounding: in float32, and where a lower precision is inside. Else it
    is mostly truncation, or kinks."""
    around = found.survey
    if found.piece > 0.0 or around is None or around.jumps:
        return False
    return x.dtype == torch.float32 or around.nearest > 0.0


def _rounding_of_x(found: Curvature, x: Tensor) -> float:
    """That of a gradient which is computed in the precision of x all through, and of x itself."""
    return torch.finfo(x.dtype).eps * (found.gradient_norm + found.smoothness * vectors.norm(x))


def _rounding(found: Curvature, x: Tensor) -> float:
    """σ of the gradient at x."""
    far = found.survey.far_noise if found.survey is not None and _rounds(found, x) else 0.0
    return max(found.noise, far)
