"""What Algorithm 4 leaves open: how y is tested, how a direction is looked for, and how it is followed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor

from unsaddle.curvature.result import Curvature
from unsaddle.first_order.anchor import Anchor
from unsaddle.first_order.method import FirstOrderMethod, Local
from unsaddle.judgement.judge import Judgement, Kind
from unsaddle.run import Run


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What an extraction came to."""

    direction: Tensor | None = field(repr=False, default=None)
    decided: bool
    """Whether it found a direction, or excluded one."""
    curvature: float = math.nan
    """Along the direction; else the lowest that was seen."""
    error: float = 0.0
    """How far sampling may hide a lower one."""
    gamma: float = math.nan
    radius: float = math.nan
    samples: int | None = None
    """|S2|; None for everything."""
    eps: float = math.nan
    """ε as it follows from L1 at this point; nan where it was given."""
    note: str = ""


def weighed(
    found: Curvature, judgement: Judgement, samples: int | None, slack: float = 0.0, eps: float = math.nan
) -> Evidence:
    """What the framework needs of an extraction and the judge's word on it."""
    at = found.measurements[-1] if found.direction is not None else None
    return Evidence(
        direction=found.direction,
        decided=judgement.kind in (Kind.SADDLE, Kind.MINIMUM),
        curvature=found.lowest if at is None else at.curvature,
        error=slack if at is None else at.error,
        gamma=found.gamma,
        radius=found.radius,
        samples=samples,
        eps=eps,
        note=f"{found.extractor} on {'everything' if samples is None else samples}: {found.status.name}",
    )


class Plan(Protocol):
    """Constants measured (`PracticalPlan`), or those of the theorems (`TheoryPlan`)."""

    def begin(self, run: Run, x: Tensor, local: Local) -> None:
        """Learn what has to be known about F at x, where the run starts or has jumped to."""

    def test(self, run: Run, y: Tensor, method: FirstOrderMethod, local: Local) -> Anchor:
        """∇F_S(y) on fresh samples."""

    def is_small(self, run: Run, seen: Anchor) -> bool:
        """The first-order test."""

    def extract(self, run: Run, y: Tensor) -> Evidence:
        """Look for negative curvature at y, on fresh samples."""

    def escape(self, run: Run, y: Tensor, seen: Anchor, found: Evidence) -> Tensor | None:
        """The step along ± the direction; None if neither way goes down."""

    def recover(self, run: Run, local: Local) -> bool:
        """The last round ended in numbers that are not finite. Whether to go back and on from there, more carefully."""
