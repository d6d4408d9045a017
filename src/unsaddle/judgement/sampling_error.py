"""How far the lowest eigenvalue of a sample's Hessian may lie above that of F."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from unsaddle.cost import Ledger
from unsaddle.curvature.result import Curvature
from unsaddle.measure import batches
from unsaddle.objective import Objective


class HessianError(NamedTuple):
    """The effect of sampling on the lowest curvature."""

    slack: float
    """How far λ_min(F_S) may lie above λ_min(F), at the confidence asked for; inf if unknown."""
    deviation: float
    """The standard deviation of one sample's curvature along the deciding directions."""


NOTHING_SAMPLED = HessianError(0.0, 0.0)


def hessian_error(
    objective: Objective,
    x: Tensor,
    found: Curvature,
    samples: int,
    delta: float,
    generator: torch.Generator,
    ledger: Ledger | None = None,
) -> HessianError:
    """How far λ_min(F_S) may lie above λ_min(F), at confidence 1 − δ, if nothing was found on a sample.

    Let v* be the lowest eigenvector of ∇²F(x). It does not depend on S, and λ_min(F_S) ≤ v*ᵀ∇²F_S v*, a mean of
    independent numbers: its error does not depend on the dimension. As v* is unknown, this takes the largest one-sided
    t-interval along the lowest directions that the extractor names. Without such directions the slack is inf.
    """
    directions = found.deciding[:-1] or found.deciding
    if not directions:
        return HessianError(math.inf, math.nan)
    functions = batches.batches(objective, samples, generator, ledger)
    seen = [batches.curvature_on(functions, x, v, found.radius) for v in directions]
    return HessianError(max(along.error(delta) for along in seen), max(along.deviation for along in seen))
