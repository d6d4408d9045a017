"""The result of an extraction: a measured direction, or the reason why there is none."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from torch import Tensor

from unsaddle.cost import Cost
from unsaddle.curvature.plots import drawn_if_quick, plot_search
from unsaddle.measure.direction import Measurement, Scale
from unsaddle.measure.survey import Survey
from unsaddle.measure.where import NOWHERE, Where, where
from unsaddle.objective import Objective
from unsaddle.told import as_html, as_text, counted, measured

if TYPE_CHECKING:
    from matplotlib.figure import Figure

IN_FLOAT64 = "It was computed in float64, on a copy, since float32 did not decide."


class Status(Enum):
    """How an extraction ended. The value is a sentence that says what to do next."""

    FOUND = (
        "negative curvature found and measured: to second order the function falls along the direction and its "
        "opposite, so take the sign that goes against the gradient, or either where that is zero"
    )
    NOTHING_FOUND = (
        "no curvature below -gamma was found: with probability 1 - delta over the random start there is none, "
        "as far as the function is quadratic within the probe radius"
    )
    NOT_CONFIRMED = (
        "a direction was found, but measured again its curvature is not clearly negative, or changes with the distance "
        "from x: the Hessian may be zero at x, or the function rough there; otherwise use float64, or give smoothness "
        "and hessian_lipschitz"
    )
    SAMPLE_ONLY = (
        "the curvature is negative on the sample that the direction was found on, but not on fresh samples: "
        "draw more samples"
    )
    BUDGET_SPENT = "the budget ended before there was an answer: raise max_gradients, or gamma"
    PRECISION_TOO_LOW = (
        "rounding hides the curvature that is looked for, at every distance where the function is still quadratic: "
        "use float64, or a larger gamma"
    )
    SMOOTHNESS_EXCEEDED = "a curvature above the given smoothness was met, so steps overshoot: give a larger smoothness"
    FLAT = (
        "the gradient does not change near x: the function is constant or linear there, or x is detached from the "
        "loss, and there is no curvature to measure"
    )
    NOT_QUADRATIC = (
        "gradients next to x do not change as those of a smooth function do: it has a kink there, or changes within "
        "the distance that was probed, and rounding hides what is nearer; use float64, or smooth the function"
    )
    NOT_DETERMINISTIC = (
        "the objective is not deterministic, two gradients at the same point differ: "
        "switch dropout off, freeze the batch, or fix the seed inside the function"
    )
    NOT_FINITE = (
        "a value or gradient was NaN or infinite: look for NaN and Inf in the data, move x, or bound the function there"
    )


GIVEN_SETTINGS = (
    "no iterate passed the test with the settings given: which curvature that excludes, and how surely, follows from "
    "them alone; leave them out to have it decided"
)
"""What `NOTHING_FOUND` means with constants of the caller's own."""


ZERO_HESSIAN = (
    "Towards x the curvature goes to zero: the Hessian seems to be zero there, so that higher derivatives decide."
)
"""What `negative_curvature`, `is_minimum` and `Neon` say where layers are all zero, and the like."""

JUMPS = 10.0
"""A change of the gradient by this many σ over no distance is a jump."""

EXACT = 1e-10
"""Gradients whose relative error is below this are not rough: a curvature that goes to zero then does so."""

SMALL_JUMP = 1e-3
"""A jump that is less than this share of what the gradient changes by along a direction is rounding, and not told."""


NO_ANSWER = (
    Status.NOT_CONFIRMED,
    Status.PRECISION_TOO_LOW,
    Status.SMOOTHNESS_EXCEEDED,
    Status.FLAT,
    Status.NOT_QUADRATIC,
)
"""Outcomes that another look may change: without a metric, or in float64."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """The direction that an extractor suspects, before it is measured."""

    vector: Tensor | None
    """The direction. If the status is `NOTHING_FOUND`, its curvature is above −γ, but seems to be negative."""
    status: Status
    lowest: float = math.inf
    """The lowest quotient of the run: uᵀ∇f̂(u)/‖u‖², or the extractor's own one."""
    scale: Scale | None = None
    """The extractor's own constants; None if it used those of the search."""
    deciding: tuple[Tensor, ...] = ()
    """If nothing was found: the lowest directions that the extractor knows, then the highest."""
    hessian_lipschitz: float = math.nan
    """A lower estimate of L2, along the first of `deciding`; nan if not measured."""
    bound: float = math.inf
    """The smallest γ for which curvature below −γ is excluded in F_S, at confidence 1 − δ; inf if none is known."""
    exhausted: bool = False
    """Whether the extractor took every step that it was allowed. More steps might change the answer."""
    start: Tensor | None = None
    """The random start, if the first entry of the history is the curvature along it."""
    measured: Measurement | None = None
    """The curvature along the vector, if the extractor measured it itself."""
    upper: float = math.inf
    """If nothing was found: λ_min of F_S is at most this, by a measurement along the lowest direction; inf if none."""
    survey: Survey | None = None
    """What gradients around x told before the search, if the extractor looked."""
    jump: float = 0.0
    """If there is no answer: how far the gradient jumped where the search probed, at kinks or by noise."""
    piece: float = 0.0
    """If the answer is that of the piece between kinks that x lies in: how far from x it was seen. Else 0."""
    asymmetry: float = 0.0
    """The largest difference between two products qᵀ∇²f(x)p and pᵀ∇²f(x)q that should be equal: an observed error."""
    kinks: int = 0
    """The kinks that x lies on, if the answer is that of the directions along them."""
    gradient_norm: float | None = None
    """If x lies on kinks: the norm of the shortest vector between the gradients on their sides. Else None."""
    small_gradient: float = math.inf
    """If the search ended since the gradient leads far, by values: the norm up to which it would not. Else inf."""
    history: tuple[tuple[int, float], ...] = ()


class Trail:
    """The record of a run: its lowest quotient and, if wanted, its history."""

    def __init__(self, keep_history: bool = False) -> None:
        self.lowest, self._keeps = math.inf, keep_history
        self.history: list[tuple[int, float]] = []

    def note(self, spent: int, quotient: float) -> None:
        """Records a step: the cost so far and its quotient."""
        if self._keeps:
            self.history.append((spent, quotient))

    def end(self, status: Status, vector: Tensor | None = None, **known: Any) -> Candidate:
        """The candidate of a run that ends here."""
        return Candidate(vector=vector, status=status, lowest=self.lowest, history=tuple(self.history), **known)


@dataclass(frozen=True, kw_only=True)
class Curvature:
    """The answer of `negative_curvature`."""

    direction: Tensor | None = field(repr=False)
    """A unit vector of measured negative curvature, or None."""
    curvature: float
    """The curvature measured along the direction, on fresh samples if there are any; nan if nothing was measured."""
    status: Status
    gradient_norm: float
    """‖∇F_S(x)‖. Found in a metric, this, `smoothness`, `noise` and `hessian_lipschitz` are those of F(Sz)."""
    cost: Cost
    """All evaluations of this call."""
    gamma: float
    """γ, the curvature sought in F."""
    sought: float
    """The curvature looked for on the sample: γ, less a margin for the difference between F_S and F, if any."""
    delta: float
    """The probability that the random start hid a curvature below -gamma; nan with settings of the caller's own."""
    extractor: str
    smoothness: float
    """L1 as given, or the largest |eigenvalue| seen."""
    radius: float
    """The resolution. Structure narrower than this around x is invisible, and may change the answer."""
    noise: float
    """σ, the absolute error of a gradient that was assumed."""
    relative_noise: float
    """ε_g, the error of a gradient as a share of its terms, ‖∇F_S(x)‖ + L1‖x‖."""
    hessian_lipschitz: float
    """A lower bound of L2: measured along the direction if three radii were taken, or along the lowest one if nothing
    was found. Else L2 as given, or nan."""
    lowest: float
    """The lowest quotient of the run: evidence, not a bound."""
    bound: float = math.inf
    """The smallest γ for which curvature below −γ is excluded in F_S, at confidence 1 − δ; inf if none is known."""
    upper: float = math.inf
    """If nothing was found: λ_min of F_S is at most this, by a measurement along the lowest direction; inf if none."""
    survey: Survey | None = field(default=None, repr=False)
    """What gradients around x told before the search, if the extractor looked."""
    jump: float = 0.0
    """How far the gradient jumped where searches probed, at kinks or by noise. If there is a direction all the same, it
    was found so far from x that jumps did not count, and its curvature is how F bends over that distance."""
    piece: float = 0.0
    """If the answer is that of the piece of F between kinks that x lies in: how far from x it was seen. Else 0."""
    asymmetry: float = 0.0
    """The largest difference between two products qᵀ∇²F(x)p and pᵀ∇²F(x)q that should be equal: an observed error."""
    kinks: int = 0
    """The kinks that x lies on, if the answer is that of the directions along them: across them F bends up."""
    small_gradient: float = math.inf
    """If the search ended since the gradient leads far, by values: the norm up to which it would not. Else inf."""
    not_finite: str = ""
    """If a model's loss or gradient was NaN or infinite at x itself: which of its tensors, in words."""
    measurements: tuple[Measurement, ...] = ()
    deciding: tuple[Tensor, ...] = field(default=(), repr=False)
    """If nothing was found: the directions on which this was checked, lowest first. If a candidate was not confirmed:
    the candidate. If the budget ended: the lowest and the highest one."""
    start: Tensor | None = field(default=None, repr=False)
    """The random start of a quick search. The first entry of the history is the curvature along it."""
    history: tuple[tuple[int, float], ...] = field(default=(), repr=False)
    """(gradients or Hessian products spent, quotient) for each step, if it was asked for."""
    in_float64: bool = False
    """Whether float32 did not decide, so that this was computed in float64, on a copy of the objective."""
    _objective: Objective | None = field(default=None, repr=False)
    _x: Tensor | None = field(default=None, repr=False)

    @property
    def found(self) -> bool:
        """Whether there is a direction."""
        return self.direction is not None

    @property
    def jumps(self) -> bool:
        """Whether the gradient jumps next to x, by more than its error."""
        return self.jump > JUMPS * (self.noise if self.survey is None else self.survey.noise)

    @property
    def hessian_vanishes(self) -> bool:
        """Whether there is no answer because the curvature goes to zero next to x."""
        unanswered = self.status in (Status.NOT_CONFIRMED, Status.NOT_QUADRATIC)
        remembers = self.survey is not None and self.survey.has_memory
        return unanswered and not remembers and not self.jumps and not self.relative_noise > EXACT

    @property
    def over_kinks(self) -> str:
        """A sentence, if kinks are next to x: whether the answer is that between them, that on one side of x, or that
        over a distance with kinks or noise; else empty."""
        if self.direction is not None and self.measurements[0].sided:
            return " This is how F bends on one side of x. On the other side there is a kink, too near to see past it."
        if self.kinks > 0:
            return (
                f" x lies on {counted(self.kinks, 'kink')}, as of ReLU. Across {'it' if self.kinks == 1 else 'them'} F "
                f"rises; along {'it' if self.kinks == 1 else 'them'} this holds, within {self.piece:.1g} of x."
            )
        if self.piece > 0.0:
            return (
                f" Kinks, as of ReLU, are next to x: this holds for the piece of F between them, "
                f"within {self.piece:.1g} of x."
            )
        among = self.survey is not None and self.survey.jumps
        if self.direction is None and self.status is Status.NOTHING_FOUND and among:
            return f" This holds over a distance of {self.radius:.1g}: nearer to x are kinks, as of ReLU, or noise."
        if self.direction is None or self.jump <= SMALL_JUMP * abs(self.curvature) * self.measurements[0].radius:
            return ""
        return (
            f" This was measured over a distance of {self.measurements[0].radius:.1g}. Nearer to x the gradient jumps "
            f"by about {self.jump:.1g}, at kinks, as of ReLU, or by noise: the curvature at x itself may differ."
        )

    def where(self) -> Where:
        """Which tensors of a model, or which variables, the direction lives in; empty if there is no direction."""
        return NOWHERE if self.direction is None or self._objective is None else where(self._objective, self.direction)

    def __str__(self) -> str:
        return as_text(*self._told())

    def __repr__(self) -> str:
        seen = "" if math.isnan(self.curvature) else f": curvature {self.curvature:.4g}"
        return f"<Curvature {self.status.name}{seen}, {self.extractor}, {self._work()}>"

    def _repr_html_(self) -> str:
        """The same for notebooks, with the picture if that takes no longer than a few seconds."""
        return as_html(*self._told(), drawn_if_quick(self.plot, self._objective, self._x))

    def plot(self) -> Figure:
        """Draw F along ± the direction with the predicted quadratic; with `keep_history`, curvature against gradients.

        Needs matplotlib, of the extra `plot`. Evaluates F at 41 points along the direction.
        """
        if self._objective is None or self._x is None:
            raise ValueError("only a result of negative_curvature can be drawn; call verdict.plot() for a verdict")
        return plot_search(self, self._objective, self._x, title=self.status.name.replace("_", " ").lower())

    def _told(self) -> tuple[str, list[tuple[str, str]]]:
        """One line, and the table below it."""
        own = math.isnan(self.delta) and self.status is Status.NOTHING_FOUND
        said = GIVEN_SETTINGS if own else self.status.value
        head, _, advice = ZERO_HESSIAN[:-1].partition(": ") if self.hessian_vanishes else said.partition(": ")
        rows = [("meaning", f"{advice}.")] if advice else []
        if self.not_finite:
            rows.append(("not finite", f"{self.not_finite}."))
        if self.measurements:
            at = self.measurements[-1]
            rows.append(("curvature", measured(at.curvature, at.error)))
        if self.over_kinks:
            rows.append(("its meaning", self.over_kinks.strip()))
        if self.in_float64:
            rows.append(("precision", IN_FLOAT64))
        if not own:
            rows.append(("sought", f"below {-self.gamma:.4g}"))
        rows += [("extractor", self.extractor), ("cost", self._work())]
        return f"{head[0].upper()}{head[1:]}.", rows

    def _work(self) -> str:
        products = self.cost.hessian_products
        work = [counted(self.cost.gradients, "gradient")] + [counted(products, "Hessian product")] * bool(products)
        return ", ".join(work)
