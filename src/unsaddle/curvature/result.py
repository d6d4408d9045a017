"""What an extraction returns: a direction that was measured, or why there is none."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum

from torch import Tensor

from unsaddle.cost import Cost
from unsaddle.measure.direction import Measurement, Scale


class Status(Enum):
    """How an extraction ended, in a sentence that says what to do next."""

    FOUND = (
        "negative curvature found and measured: to second order the function falls along the direction and its "
        "opposite, so take the sign that goes against the gradient, or either where that is zero"
    )
    NOTHING_FOUND = (
        "no curvature below -gamma was found: with probability 1 - delta over the random start there is none, "
        "as far as the function is quadratic within the probe radius"
    )
    NOT_CONFIRMED = (
        "a candidate was found, but measured again symmetrically its curvature is not negative beyond its error, or "
        "differs between radii as that of a smooth function does not: the Hessian may be zero, or the function rough, "
        "at x; otherwise a higher precision, or smoothness and hessian_lipschitz, may help"
    )
    SAMPLE_ONLY = (
        "the curvature is negative on the sample that the direction was found on, but not on fresh samples: "
        "draw more samples"
    )
    BUDGET_SPENT = "the budget ended before there was an answer: raise max_gradients, or gamma"
    PRECISION_TOO_LOW = (
        "rounding drowns the curvature sought at every radius where the function is still quadratic: "
        "use float64, or a larger gamma"
    )
    SMOOTHNESS_EXCEEDED = "a curvature above the given smoothness was met, so steps overshoot: give a larger smoothness"
    FLAT = (
        "the gradient does not change near x: the function is constant or affine there, "
        "or x is detached from the loss; nothing can be said"
    )
    NOT_QUADRATIC = (
        "gradients at the probe radius do not add up to a Hessian: the function has a kink, or structure narrower than "
        "the radius, and no smaller radius is possible in this precision: use float64, or smooth the function"
    )
    NOT_DETERMINISTIC = (
        "the objective is not deterministic, two gradients at the same point differ: "
        "switch dropout off, freeze the batch, or fix the seed inside the function"
    )
    NOT_FINITE = (
        "a value or gradient was NaN or infinite: look for NaN and Inf in the data, move x, or bound the function there"
    )


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """What an extractor suspects, before it is measured."""

    vector: Tensor | None
    status: Status
    lowest: float = float("inf")
    """The lowest quotient met on the way: uᵀ∇f̂(u)/‖u‖², or what the extractor has in its place."""
    scale: Scale | None = None
    """The constants it found for itself, if it did not take those of the search."""
    deciding: tuple[Tensor, ...] = ()
    """Where nothing was found: the lowest directions it knows, and the highest."""
    hessian_lipschitz: float = math.nan
    """L2 as it shows along the first of them, if it was looked at."""
    exhausted: bool = False
    """Whether it took every step it was allowed, so that more might have changed the answer."""
    start: Tensor | None = None
    """The random start, where the first entry of the history is the curvature along it."""
    measured: Measurement | None = None
    """The curvature along the vector, where the extractor has measured it itself."""
    history: tuple[tuple[int, float], ...] = ()


class Trail:
    """What an extractor leaves behind on its way, and the candidate that it ends with."""

    def __init__(self, keep_history: bool = False) -> None:
        self.lowest = math.inf
        """The lowest quotient met so far."""
        self.history: list[tuple[int, float]] = []
        self._keeps = keep_history

    def note(self, spent: int, quotient: float) -> None:
        """A step: what had been spent by then, and the quotient that it met."""
        if self._keeps:
            self.history.append((spent, quotient))

    def end(self, status: Status, vector: Tensor | None = None, *, exhausted: bool = False) -> Candidate:
        """The candidate."""
        return Candidate(
            vector=vector, status=status, lowest=self.lowest, history=tuple(self.history), exhausted=exhausted
        )


@dataclass(frozen=True, kw_only=True)
class Curvature:
    """The answer of `negative_curvature`."""

    direction: Tensor | None = field(repr=False)
    """A unit vector of measured negative curvature, or None."""
    curvature: float
    """Measured along the direction, on fresh samples where there are any; nan where nothing was measured."""
    status: Status
    gradient_norm: float
    """‖∇F_S(x)‖."""
    cost: Cost
    """Everything that was evaluated to get here."""
    gamma: float
    """γ, the curvature sought in F."""
    sought: float
    """What was looked for on the sample: γ, less a margin for the difference between F_S and F, if there was one."""
    delta: float
    """The probability that the random start hid a curvature below -gamma."""
    extractor: str
    """The extractor that ran."""
    smoothness: float
    """L1 as given, or the largest |eigenvalue| seen."""
    radius: float
    """The resolution: structure narrower than this around x is invisible, and the answer is conditional on it."""
    noise: float
    """σ, the absolute error of a gradient that was reckoned with."""
    relative_noise: float
    """ε_g: that as a share of the terms that a gradient is made of, ‖∇F_S(x)‖ + L1‖x‖."""
    hessian_lipschitz: float
    """L2 as it shows along the direction, or along the lowest one where nothing was found: a lower bound. As given, if
    it was given and nothing was measured; nan if neither."""
    lowest: float
    """The lowest quotient that the extractor met on its way: evidence, not a bound."""
    measurements: tuple[Measurement, ...] = ()
    deciding: tuple[Tensor, ...] = field(default=(), repr=False)
    """Where nothing was found: the directions that decide, lowest first; on them "nothing" was checked. Where a
    candidate was not confirmed: the candidate. Where the budget ended: the lowest that was seen, unmeasured."""
    start: Tensor | None = field(default=None, repr=False)
    """The random start of a quick search, along which the curvature is the first of the history."""
    history: tuple[tuple[int, float], ...] = field(default=(), repr=False)
    """(gradients or Hessian products spent, quotient) for each step, if it was asked for."""

    @property
    def found(self) -> bool:
        """Whether there is a direction."""
        return self.direction is not None

    def __str__(self) -> str:
        c = self.cost
        spent = f"{c.gradients} gradients" + (f", {c.hessian_products} Hessian products" if c.hessian_products else "")
        measured = (
            f" Curvature {self.measurements[-1].curvature:.4g} ± {self.measurements[-1].error:.1g}."
            if self.measurements
            else ""
        )
        return f"{self.extractor}: {self.status.value}.{measured} Sought: below {-self.gamma:.4g}. Spent: {spent}."
