"""Events of `Neon`: one for each verdict, with what it saw and did."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

VERDICTS = ("none", "flat", "batch only", "undecided", "trial failed", "saddle")
"""The ways a probe can end. "batch only" is the normal answer in mid-training."""

CANDIDATE = "candidate"
"""The answer of `probe(closure)` while it waits for fresh batches. It is no verdict, and not among the events."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """One verdict, with its evidence and its cost.

    >>> event = Event(step=100, verdict="none", gradients=21, sentence="No curvature below -0.1.")
    >>> print(event)
    step 100: none. No curvature below -0.1. 21 gradients.
    >>> Event.from_row(event.row()) == event
    True
    """

    step: int
    """Training steps made so far."""
    verdict: str
    """One of `VERDICTS`; "candidate" while fresh batches are awaited."""
    curvature: float = float("nan")
    """Along the direction, on fresh batches if there were any. The lowest curvature seen if nothing was found."""
    error: float = float("nan")
    """Of the curvature: one-sided, at confidence 95 %; nan if it is from one batch."""
    decrease: float = float("nan")
    """How much the step that was tried lowers the loss, in the mean over fresh batches; nan if none was tried.
    `Verdict.drop` is the same for the best step that `is_minimum` tried, on F itself."""
    decrease_error: float = float("nan")
    """Of the decrease: one-sided, at confidence 95 %."""
    length: float = float("nan")
    """Of the step that was tried."""
    gradients: int = 0
    """Evaluations of the loss and its gradient that this verdict took."""
    escaped: bool = False
    """Whether the step was taken."""
    sentence: str = ""
    """What was seen and what to do, for people."""

    @property
    def pending(self) -> bool:
        """Whether the candidate still waits for fresh batches."""
        return self.verdict == CANDIDATE

    def row(self) -> dict[str, Any]:
        """The fields by name, as plain numbers and strings."""
        return asdict(self)

    def scalars(self, prefix: str = "neon/") -> dict[str, float]:
        """The numbers by name, for loggers. Those that were not measured are left out."""
        names = ("curvature", "error", "decrease", "decrease_error", "length", "gradients", "escaped")
        return {prefix + name: float(getattr(self, name)) for name in names if math.isfinite(getattr(self, name))}

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> Event:
        return cls(**row)

    def __str__(self) -> str:
        return f"step {self.step}: {self.verdict}. {self.sentence} {self.gradients} gradients."
