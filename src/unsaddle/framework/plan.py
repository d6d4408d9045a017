"""The parts of Algorithm 4 that differ in theory and practice: test, extraction and escape."""

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
    """The result of an extraction."""

    direction: Tensor | None = field(repr=False, default=None)
    decided: bool
    """Whether a direction was found or excluded."""
    curvature: float = math.nan
    """The curvature along the direction; without one, the lowest seen."""
    error: float = 0.0
    """The error of the curvature; without a direction, how far λ_min(F) may lie above the curvature."""
    gamma: float = math.nan
    radius: float = math.nan
    samples: int | None = None
    """|S2|; None for everything."""
    eps: float = math.nan
    """ε that follows from L1 at this point; nan if the caller gave ε."""
    note: str = ""


def weighed(
    found: Curvature, judgement: Judgement, samples: int | None, slack: float = 0.0, eps: float = math.nan
) -> Evidence:
    """Make the evidence from an extraction and its judgement."""
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
    """Test, extraction and escape: with measured constants (`PracticalPlan`), or those of theorems (`TheoryPlan`)."""

    def begin(self, run: Run, x: Tensor, local: Local) -> None:
        """Set the constants at x, at the start and after each escape."""

    def test(self, run: Run, y: Tensor, method: FirstOrderMethod, local: Local) -> Anchor:
        """∇F_S(y) on fresh samples."""

    def is_small(self, run: Run, seen: Anchor) -> bool:
        """The first-order test."""

    def extract(self, run: Run, y: Tensor) -> Evidence:
        """Search for negative curvature at y, on fresh samples."""

    def escape(self, run: Run, y: Tensor, seen: Anchor, found: Evidence) -> Tensor | None:
        """The step along ± the direction; None if neither way goes down."""

    def recover(self, run: Run, local: Local) -> bool:
        """Prepare smaller steps after a round whose numbers were not finite. False ends the run."""
