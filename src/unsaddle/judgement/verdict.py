"""The verdict: minimum, saddle, not stationary or undecided, with how sure and why."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torch import Tensor

from unsaddle.cost import Cost
from unsaddle.curvature.result import Curvature
from unsaddle.judgement.judge import Judgement, Kind
from unsaddle.judgement.sampling_error import NOTHING_SAMPLED, HessianError
from unsaddle.objective import Objective

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What `is_minimum` found."""

    kind: Kind
    """"minimum", "saddle", "not stationary" or "undecided"."""
    gradient_norm: float
    """‖∇F(x)‖, from fresh samples where there are any."""
    gradient_error: float
    """How far it may be off: by sampling, at the confidence stated, and by rounding."""
    eps: float
    """What counts as stationary."""
    curvature: float
    """Of a saddle: measured along the direction. Else the lowest that was seen, and not a bound."""
    interval: tuple[float, float]
    """Of a saddle: where the curvature along the direction lies, at the confidence stated. Of a minimum: where the
    lowest eigenvalue lies. Else (nan, nan)."""
    direction: Tensor | None = field(repr=False)
    """Of a saddle: a unit vector along which, both ways, the function falls."""
    gamma: float
    """The curvature looked for; nan where there was none to look for."""
    confidence: float
    """1 − δ: over the random start and, where there was sampling, the samples. Structure narrower than the resolution
    is outside of it."""
    resolution: float
    """The probe radius: structure narrower than this around x is invisible."""
    gradient_variance: float
    """V, the variance of one sample's gradient; 0 where nothing was sampled."""
    hessian_deviation: float
    """The deviation of one sample's curvature along the directions that decide; 0 where nothing was sampled."""
    cost: Cost
    reason: str
    """Why, in a sentence; where it is undecided, with what would decide it."""
    evidence: Curvature = field(repr=False)
    """The extraction that it rests on."""
    _objective: Objective = field(repr=False)
    _x: Tensor = field(repr=False)

    def __bool__(self) -> bool:
        """Whether it is a minimum, so that `if is_minimum(f, x):` means what it says."""
        return self.kind is Kind.MINIMUM

    def __str__(self) -> str:
        how_far = "to first order" if math.isnan(self.gamma) else "up to a curvature of -gamma"
        head = {
            Kind.MINIMUM: f"A minimum, {how_far}.",
            Kind.SADDLE: "A saddle.",
            Kind.NOT_STATIONARY: "Not stationary.",
            Kind.UNDECIDED: "Undecided.",
        }[self.kind]
        seen = self.gradient_error > 0.01 * max(self.gradient_norm, self.eps)
        error = f" ± {self.gradient_error:.2g}" if seen else ""
        counts = "" if math.isnan(self.eps) else f"; up to {self.eps:.3g} counts as stationary"
        sought = (
            "Looked"
            if math.isnan(self.gamma)
            else f"Looked for curvature below {-self.gamma:.3g}, at resolution {self.resolution:.2g},"
        )
        gradients, products = self.cost.gradients, self.cost.hessian_products
        work = [f"{gradients} gradients ({self.cost.samples} samples)"] if gradients or not products else []
        work += [f"{products} Hessian products"] if products else []
        return (
            f"{head} {self.reason} The gradient norm is {self.gradient_norm:.3g}{error}{counts}. {sought} with "
            f"{' and '.join(work)}."
        )

    def plot(self) -> Figure:
        """The loss along ± the direction with the quadratic that was predicted, and curvature against gradients spent.

        Needs matplotlib, of the extra `plot`. Evaluates the objective at some points along the direction.
        """
        from unsaddle.judgement.plots import plot_verdict

        return plot_verdict(self)


def assembled(
    objective: Objective,
    x: Tensor,
    found: Curvature,
    judgement: Judgement,
    *,
    gradient_norm: float,
    gradient_error: float,
    eps: float,
    delta: float,
    gradient_variance: float = 0.0,
    hessian: HessianError = NOTHING_SAMPLED,
    cost: Cost | None = None,
) -> Verdict:
    """The verdict: a judgement with the evidence that it rests on, and what follows from that."""
    kind, reason = judgement
    interval, curvature = (math.nan, math.nan), found.lowest
    if kind is Kind.SADDLE and found.found:
        at = found.measurements[-1]
        interval, curvature = (at.curvature - at.error, at.curvature + at.error), at.curvature
    elif kind is Kind.MINIMUM:
        # The Ritz value is above λ_min but for the error of products, of which the checks of "nothing" let γ/2 pass.
        interval = (-found.gamma, found.lowest + found.sought / 2.0 + hessian.slack)
    return Verdict(
        kind=kind,
        gradient_norm=gradient_norm,
        gradient_error=gradient_error,
        eps=eps,
        curvature=curvature,
        interval=interval,
        direction=found.direction if kind is Kind.SADDLE else None,
        gamma=found.gamma,
        confidence=1.0 - delta,
        resolution=found.radius,
        gradient_variance=gradient_variance,
        hessian_deviation=hessian.deviation,
        cost=found.cost if cost is None else cost,
        reason=reason,
        evidence=found,
        _objective=objective,
        _x=x,
    )
