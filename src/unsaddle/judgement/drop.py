"""How far F falls along a direction of negative curvature, by values: what is to be had, in F's own units."""

from __future__ import annotations

import math
import statistics
from typing import NamedTuple

import torch
from torch import Tensor

from unsaddle.cost import Ledger
from unsaddle.escape.line_search import by_values
from unsaddle.measure import batches
from unsaddle.measure.mean_error import farthest_from, mean_error
from unsaddle.measure.values import VALUE_ROUNDING
from unsaddle.objective import Objective


class Drop(NamedTuple):
    """How far F falls. All nan if there is no direction."""

    value: float
    """F(x) − F(x + sv) at the best length s that was tried; 0 if no value is lower than F(x) beyond rounding."""
    interval: tuple[float, float]
    """Where the truth lies at the confidence stated. If nothing was sampled, the value twice."""
    length: float
    """s, with its sign."""
    both_ways: bool = True
    """Whether values are lower than F(x) along the opposite direction, too. At a kink they may not be."""


NO_DIRECTION = Drop(math.nan, (math.nan, math.nan), math.nan)

SHORTER = (1.0, 0.25, 0.0625, 0.015625)
"""Shares of the best length at which the opposite direction is tried."""


def drop_along(
    objective: Objective,
    x: Tensor,
    v: Tensor,
    *,
    curvature: float,
    radius: float,
    samples: int | None,
    delta: float,
    generator: torch.Generator,
    ledger: Ledger,
) -> Drop:
    """Search the line x ± sv over doubled lengths, and measure the fall at the best one.

    The first length is the shortest whose expected fall, curvature·s²/2, stands out of the rounding of values. Where F
    is sampled, the length is found on one sample, and the fall is measured on four times as many fresh ones, with an
    interval; or on everything (`batches.checking_samples`).

    >>> from unsaddle import Function
    >>> f = Function(lambda x: x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4)
    >>> x, v = torch.zeros(2, dtype=torch.float64), torch.tensor([0.0, 1.0], dtype=torch.float64)
    >>> how = {"samples": None, "delta": 0.05, "generator": torch.Generator(), "ledger": Ledger()}
    >>> 0.9 < drop_along(f, x, v, curvature=-2.0, radius=1e-8, **how).value <= 1.0
    True
    """
    f = objective.sample(samples, generator, ledger=ledger)
    here = float(f.value(x))
    rounding = VALUE_ROUNDING * torch.finfo(x.dtype).eps * abs(here)
    shortest = math.sqrt(200.0 * rounding / abs(curvature)) if curvature != 0.0 else 0.0

    def value_at(s: float) -> float:
        return float(f.value(torch.add(x, v, alpha=s)))

    first = max(shortest, 4.0 * radius)
    found = by_values(value_at, here, first=first, rounding=rounding, curvature=abs(curvature))
    if found is None:
        return Drop(0.0, (0.0, 0.0), 0.0) if math.isfinite(here) else NO_DIRECTION
    opposite = (float(f.value(torch.add(x, v, alpha=-share * found.length))) for share in SHORTER)
    both = any(value < here - rounding for value in opposite)
    if samples is None or f.size == objective.num_samples:
        fall = here - found.value
        return Drop(fall, (fall, fall), found.length, both)
    end = torch.add(x, v, alpha=found.length)
    size = batches.checking_samples(objective, samples)
    if size is None:
        f = objective.sample(ledger=ledger)
        fall = float(f.value(x)) - float(f.value(end))
        return Drop(fall, (fall, fall), found.length, both)
    falls = [float(g.value(x)) - float(g.value(end)) for g in batches.drawn(objective, size, generator, ledger)]
    if not all(math.isfinite(fall) for fall in falls):
        return NO_DIRECTION
    fall, deviation = statistics.fmean(falls), statistics.stdev(falls)
    farthest = farthest_from(fall, falls)
    error = mean_error(deviation=deviation, farthest=farthest, count=len(falls), delta=delta / 2.0)
    return Drop(fall, (fall - error, fall + error), found.length, both)
