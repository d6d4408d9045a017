"""The settings of a `Neon`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from unsaddle.curvature.question import Question

DELTA = 0.05
"""The probability that an unlucky random start hides a curvature below −γ, and that a curvature's interval is wrong at
any time, on either side."""

WINDOW, SHORTEST_WINDOW = 100, 8
"""Losses that the plateau test uses: `every`, but at most and at least these."""


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The settings of a `Neon`."""

    gamma: float | None
    every: int
    max_overhead: float
    escape: bool
    seed: int

    @property
    def window(self) -> int:
        return max(SHORTEST_WINDOW, min(WINDOW, self.every))

    def question(self, probe: int, **more: Any) -> Question:
        """The question of a probe. Each probe has another random start."""
        return Question(gamma=self.gamma, delta=DELTA, seed=self.seed + probe, **more)
