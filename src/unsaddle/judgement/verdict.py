"""The verdict: minimum, saddle, not stationary or undecided, with its confidence and reason."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torch import Tensor

from unsaddle.cost import Cost
from unsaddle.curvature.plots import drawn_if_quick
from unsaddle.curvature.result import Curvature, Status
from unsaddle.judgement.drop import NO_DIRECTION, Drop
from unsaddle.judgement.judge import Judgement, Kind
from unsaddle.judgement.sampling_error import NOTHING_SAMPLED, HessianError
from unsaddle.measure.where import NOWHERE, Where, where
from unsaddle.objective import Objective, as_objective
from unsaddle.told import as_html, as_text, counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The answer of `is_minimum`."""

    kind: Kind
    gradient_norm: float
    """‖∇F(x)‖, from fresh samples if F is sampled. With a metric and without `eps`: ‖S∇F(x)‖, as `eps` then is."""
    gradient_error: float
    """How far `gradient_norm` may be off: the ± beside it in the table, if it is above a hundredth of the norm and of
    `eps`. It is the sampling error at the confidence stated, 0 on all samples, and three times the rounding of a
    gradient, as measured."""
    eps: float
    """Gradients up to this norm count as zero; nan if a solver decided, as SciPy's."""
    curvature: float
    """If there is a direction: the curvature measured along it. Else the lowest one seen, which is not a bound."""
    interval: tuple[float, float]
    """If there is a direction: where the curvature along it lies. Of a minimum: where λ_min lies. Else (nan, nan)."""
    direction: Tensor | None = field(repr=False)
    """A unit vector of measured negative curvature, of a saddle and, if one was seen, of a point that is not
    stationary; else None. F falls along it; see `both_ways`."""
    drop: float
    """How far F falls along the direction, by values; nan if there is none. On samples: on fresh ones. In an
    event of `Neon`, `decrease` is the same for the one step that it tried, on batches of training."""
    drop_interval: tuple[float, float]
    """Where that lies, at the confidence stated."""
    length: float
    """The distance along the direction at which F is lower by `drop`; nan if there is no direction."""
    both_ways: bool
    """Whether F falls along the opposite direction, too. At a kink it may not."""
    bound: float
    """Curvature below −bound is excluded, at the confidence stated; inf if nothing is. More gradients lower it."""
    gamma: float
    """γ: curvature below −γ was sought; nan if there was none to seek."""
    confidence: float
    """1 − δ, over the random start and the samples. It does not cover structure narrower than the resolution."""
    resolution: float
    """The probe radius. Structure around x that is narrower is invisible."""
    gradient_variance: float
    """V, the variance of one sample's gradient; 0 if nothing was sampled."""
    hessian_deviation: float
    """The standard deviation of one sample's curvature along the deciding direction; 0 if it was measured on
    everything."""
    cost: Cost
    reason: str
    """The reason in a sentence. If undecided, it says what would decide."""
    evidence: Curvature = field(repr=False)
    """The search for negative curvature, with all that it measured."""
    model_mode: str = ""
    """In which mode a model with dropout or batch norm was probed; empty if there is none of these."""
    _objective: Objective = field(repr=False)
    _x: Tensor = field(repr=False)

    def __bool__(self) -> bool:
        """Whether x is a minimum, as in `if is_minimum(f, x):`."""
        return self.kind is Kind.MINIMUM

    def __str__(self) -> str:
        return as_text(self._head(), self._rows())

    def __repr__(self) -> str:
        seen = "" if math.isnan(self.curvature) else f": curvature {self.curvature:.4g}"
        return f"<{type(self).__name__} {self.kind}{seen}, {self._work()}>"

    def _repr_html_(self) -> str:
        """The same for notebooks, with the picture if that takes no longer than a few seconds."""
        return as_html(self._head(), self._rows(), drawn_if_quick(self.plot, self._objective, self._x))

    def _head(self) -> str:
        """The verdict in one short line."""
        if self.kind is Kind.SADDLE:
            ways = "" if self.both_ways else ", but not along its opposite"
            fall = f" F falls by {self.drop:.3g} along the direction{ways}." if math.isfinite(self.drop) else ""
            return f"A saddle.{fall}"
        if self.kind is Kind.MINIMUM:
            how_far = ", to first order" if math.isnan(self.gamma) else f": no curvature below {-self.gamma:.3g}"
            return f"A minimum{how_far}."
        too = " There is negative curvature, too." if self.direction is not None else ""
        return f"{self.kind.capitalize()}.{too}"

    def _rows(self) -> list[tuple[str, str]]:
        """The table below that line."""
        rows = [("why", self.reason)]
        if math.isfinite(self.length) and self.length != 0.0:
            rows.append(("way down", f"x + {self.length:.3g}·direction, where F is lower by {self.drop:.3g}"))
        seen = self.gradient_error > 0.01 * max(self.gradient_norm, self.eps)
        error = f" ± {self.gradient_error:.2g}" if seen else ""
        counts = "" if math.isnan(self.eps) else f" (up to {self.eps:.3g} counts as zero)"
        rows.append(("gradient", f"{self.gradient_norm:.3g}{error}{counts}"))
        if not math.isnan(self.gamma):
            known = self.kind is Kind.UNDECIDED and math.isfinite(self.bound)
            excluded = f"; below {-self.bound:.3g} there is none" if known else ""
            sought = f"curvature below {-self.gamma:.3g}, at resolution {self.resolution:.2g}"
            rows.append(("looked for", f"{sought}{excluded}"))
        if self.kind is not Kind.NOT_STATIONARY and self.kind is not Kind.UNDECIDED:
            rows.append(("confidence", f"{self.confidence:.3g}"))
        rows += [("mode", self.model_mode)] if self.model_mode else []
        rows.append(("cost", self._work()))
        return rows

    def _work(self) -> str:
        gradients, products = self.cost.gradients, self.cost.hessian_products
        sampled = f" ({counted(self.cost.samples, 'sample')})" if self.cost.samples != gradients else ""
        work = [f"{counted(gradients, 'gradient')}{sampled}"] if gradients or not products else []
        work += [counted(products, "Hessian product")] if products else []
        return " and ".join(work)

    def where(self) -> Where:
        """Which tensors of a model, or which variables, the direction lives in; empty if there is no direction."""
        return NOWHERE if self.direction is None else where(self._objective, self.direction)

    def plot(self) -> Figure:
        """Draw F along ± the deciding direction with the predicted quadratic, and curvature against gradients.

        Needs matplotlib, of the extra `plot`. Evaluates F at 41 points along the direction.
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
    drop: Drop = NO_DIRECTION,
    cost: Cost | None = None,
) -> Verdict:
    """Make the verdict from a judgement and its evidence."""
    kind, reason = judgement
    interval, curvature = (math.nan, math.nan), found.lowest
    # Where gradients contradict each other, nothing is excluded; nor on a sample on which something was found.
    nothing_excluded = kind is Kind.UNDECIDED and found.status is not Status.BUDGET_SPENT
    nothing_excluded |= found.found and found.measurements[-1].fresh
    told = found.direction if kind in (Kind.SADDLE, Kind.NOT_STATIONARY) else None
    if told is not None:
        at = found.measurements[-1]
        interval, curvature = (at.curvature - at.error, at.curvature + at.error), at.curvature
    elif kind is Kind.MINIMUM:
        # Without a measurement: a Ritz value is above λ_min up to the error of products, which the checks bound so.
        upper = found.upper if math.isfinite(found.upper) else found.lowest + found.sought / 2.0
        interval = (-min(found.gamma, found.bound), max(upper, found.lowest + hessian.slack))
    return Verdict(
        kind=kind,
        gradient_norm=gradient_norm,
        gradient_error=gradient_error,
        eps=eps,
        curvature=curvature,
        interval=interval,
        direction=told,
        drop=drop.value,
        drop_interval=drop.interval,
        length=drop.length,
        both_ways=drop.both_ways,
        bound=math.inf if nothing_excluded else found.bound,
        gamma=found.gamma,
        confidence=1.0 - delta,
        resolution=found.radius,
        gradient_variance=gradient_variance,
        hessian_deviation=hessian.deviation,
        cost=found.cost if cost is None else cost,
        reason=reason,
        evidence=found,
        model_mode=as_objective(objective).model_mode,
        _objective=objective,
        _x=x,
    )
