"""How far the Hessian of a sample may hide what the Hessian of F has."""

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
    """What sampling does to the lowest curvature."""

    slack: float
    """How far λ_min(F_S) may lie above λ_min(F), at the confidence asked for; inf where nobody knows."""
    deviation: float
    """Of one sample's curvature along the directions that decide."""


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
    """How far λ_min(F_S) may lie above λ_min(F), at confidence 1 − δ, where nothing was found on a sample.

    With v* the lowest eigenvector of ∇²F(x), fixed before S was drawn, λ_min(F_S) ≤ v*ᵀ∇²F_S v*, whose error is that
    of a mean of independent numbers: no dimension enters. v* is not known. The largest spread along the lowest
    directions that are known stands for it. A one-sided t-interval. An extractor that names no directions leaves it
    unknown.
    """
    directions = found.deciding[:-1] or found.deciding
    if not directions:
        return HessianError(math.inf, math.nan)
    functions = batches.batches(objective, samples, generator, ledger)
    seen = [batches.curvature_on(functions, x, v, found.radius) for v in directions]
    return HessianError(max(along.error(delta) for along in seen), max(along.deviation for along in seen))
