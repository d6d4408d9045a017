"""Rows of `CurvatureMonitor`: the curvature along training, beside the limit of the optimizer's step."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from unsaddle.told import measured


@dataclass(frozen=True, kw_only=True)
class CurvatureRow:
    """What is known of the curvature at one training step.

    >>> row = CurvatureRow(step=100, sharpness=12.0, sharpness_error=0.5, limit=20.0, learning_rate=0.1, gradients=9)
    >>> print(row)
    step 100: λ_max 12 ± 0.5, 0.60 of the limit 20 at learning rate 0.1. 9 gradients.
    >>> CurvatureRow.from_row(row.row()) == row
    True
    """

    step: int
    """Training steps made so far."""
    sharpness: float
    """λ_max: of the Hessian, or, for an optimizer that adapts or has several learning rates, of S∇²F(x)S."""
    sharpness_error: float = math.nan
    """One-sided, at confidence 95 %, over the batches that were averaged."""
    measured_at: int | None = None
    """The training step whose parameters λ_max is of. Batches of later steps were needed to know it."""
    batches: int = 1
    """λ_max was measured on the batches of so many consecutive steps, from that one on."""
    limit: float = math.nan
    """λ_max above which the optimizer's step diverges on a quadratic: 2/η for SGD; nan where it is not known."""
    learning_rate: float = math.nan
    """η: the largest of all parameter groups."""
    lowest: float = math.nan
    """The curvature along the lowest direction of the last search for it, on fresh batches: λ_min was at most this, up
    to the error, at the step `lowest_at`."""
    lowest_error: float = math.nan
    """One-sided, at confidence 95 %; nan if it is from one batch."""
    lowest_at: int | None = None
    """The training step of that search. There are few: thousands of steps may lie between them."""
    gradients: int = 0
    """Evaluations of the loss and its gradient that the monitor has taken so far."""
    warning: str = ""
    """What is wrong and what to do; empty while λ_max is below the limit."""

    @property
    def ratio(self) -> float:
        """λ_max over its limit: above 1 the step is unstable."""
        return self.sharpness / self.limit if self.limit else math.nan

    def row(self) -> dict[str, Any]:
        """The fields by name, as plain numbers and strings."""
        return asdict(self)

    def scalars(self, prefix: str = "curvature/") -> dict[str, float]:
        """The numbers by name, for loggers. Those that were not measured are left out."""
        numbers = {name: getattr(self, name) for name in ("sharpness", "limit", "ratio", "lowest", "gradients")}
        return {prefix + name: float(number) for name, number in numbers.items() if math.isfinite(number)}

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> CurvatureRow:
        return cls(**row)

    def __str__(self) -> str:
        said = f"step {self.step}: λ_max {_measured(self.sharpness, self.sharpness_error)}"
        if self.measured_at not in (None, self.step):
            said += f" at step {self.measured_at}"
        if math.isfinite(self.limit):
            said += f", {self.ratio:.2f} of the limit {self.limit:.4g} at learning rate {self.learning_rate:.3g}"
        if math.isfinite(self.lowest):
            said += f"; λ_min at most {_measured(self.lowest, self.lowest_error)}"
            said += "" if self.lowest_at is None else f" at step {self.lowest_at}"
        return f"{said}.{' ' * bool(self.warning)}{self.warning} {self.gradients} gradients."


def _measured(value: float, error: float) -> str:
    return measured(value, error) if math.isfinite(error) else f"{value:.4g} (one batch)"
