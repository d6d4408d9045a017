"""Where kinks or noise hide the curvature: a lower point farther out, by values."""

from __future__ import annotations

from dataclasses import replace

import torch

from unsaddle import vectors
from unsaddle.cost import Ledger
from unsaddle.judgement.flat_direction import NO_MINIMUM
from unsaddle.judgement.verdict import Verdict
from unsaddle.measure.values import VALUE_ROUNDING
from unsaddle.objective import Objective

LENGTHS = (1.0, 0.25, 0.0625)
"""Shares of the radius of the last search at which values are asked for along the direction that it left."""

LOWER = (
    "Kinks or noise next to x hide the curvature there, but F is lower by {fall:.2g} at a distance of {length:.2g}. "
    + NO_MINIMUM
    + " Go on from x + {length:.2g}·v, with v = verdict.evidence.deciding[0]."
)


def lower_beyond(objective: Objective, undecided: Verdict) -> Verdict:
    """The verdict, with a lower point named if F has one along the direction that the last search left.

    It is lower by more than a gradient explains that counts as zero. Up to seven values.
    """
    found, x, ledger = undecided.evidence, undecided._x, Ledger()
    if not found.deciding or found.radius <= 0.0:
        return undecided
    f, v = objective.sample(ledger=ledger), found.deciding[0] / vectors.norm(found.deciding[0])
    here = float(f.value(x))
    rounding = VALUE_ROUNDING * torch.finfo(x.dtype).eps * abs(here)
    ways = [(found.radius * share, sign * v) for share in LENGTHS for sign in (1.0, -1.0)]
    falls = [(here - float(f.value(torch.add(x, way, alpha=s))) - undecided.eps * s, s, way) for s, way in ways]
    fall, length, way = max(falls, key=lambda lower: lower[0] / lower[1] ** 2)
    cost = undecided.cost + ledger.cost
    if not fall > rounding:
        return replace(undecided, cost=cost)
    reason = LOWER.format(fall=fall + undecided.eps * length, length=length)
    return replace(undecided, cost=cost, reason=reason, evidence=replace(found, deciding=(way, *found.deciding[1:])))
