"""What `Neon` saw and did, one event a verdict."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

VERDICTS = ("none", "flat", "batch only", "undecided", "trial failed", "saddle")
"""How a probe can end. "batch only" is the normal answer in mid-training."""

CANDIDATE = "candidate"
"""What `probe(closure)` answers while it waits for fresh batches. Not a verdict: it is not among the events."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """One verdict: when, what, on which evidence, at what price.

    >>> event = Event(step=100, verdict="none", gradients=21, sentence="No curvature below -0.1.")
    >>> print(event)
    step 100: none. No curvature below -0.1. 21 gradients.
    >>> Event.from_row(event.row()) == event
    True
    """

    step: int
    """Training steps that had been made."""
    verdict: str
    """One of `VERDICTS`; "candidate" while fresh batches are awaited."""
    curvature: float = float("nan")
    """Along the direction: on fresh batches where there were any, else on the batch it was found on. Where nothing was
    found, the lowest that was seen."""
    error: float = float("nan")
    """Of the curvature: one-sided, at confidence 95 %; nan where it is that of one batch."""
    decrease: float = float("nan")
    """Of the loss by the step that was tried: mean over fresh batches. nan where none was tried."""
    decrease_error: float = float("nan")
    """Of the decrease, likewise."""
    length: float = float("nan")
    """Of the step that was tried."""
    gradients: int = 0
    """Evaluations of the loss with its gradient that this verdict took."""
    escaped: bool = False
    """Whether the step was taken."""
    sentence: str = ""
    """What was seen, and what to do."""

    @property
    def pending(self) -> bool:
        """Whether it waits for fresh batches."""
        return self.verdict == CANDIDATE

    def row(self) -> dict[str, Any]:
        """The fields by name, plain numbers and words."""
        return asdict(self)

    def scalars(self, prefix: str = "neon/") -> dict[str, float]:
        """The numbers by name, as loggers want them; those that were not measured are left out."""
        numbers = {
            name: float(getattr(self, name)) for name in ("curvature", "decrease", "length", "gradients", "escaped")
        }
        return {prefix + name: number for name, number in numbers.items() if math.isfinite(number)}

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> Event:
        return cls(**row)

    def __str__(self) -> str:
        return f"step {self.step}: {self.verdict}. {self.sentence} {self.gradients} gradients."
