"""A question as it is put to a search: in the user's own variables, or in a metric; and the answer, brought back.

With x = Sz and unit vectors w and v = Sw/‖Sw‖,

    vᵀ∇²F(x)v = wᵀ(S∇²F(x)S)w / ‖Sw‖²,     σ ≤ ‖Sw‖,   σ the smallest singular value of S.

So the signs are the same. If S∇²F(x)S has no eigenvalue below −b, then ∇²F(x) has none below −b/σ². And curvature below
−γ in x is below −γσ² in z: that is what is looked for. γ, `bound` and every curvature that comes back are therefore in
the user's own variables, and mean what they mean without a metric.

A γ that was not given is a hundredth of L1, in x. A lower bound on L1 is the curvature along the variable whose size is
smallest. It is measured only if nothing was found (`extract.answer_posed`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.cost import Ledger
from unsaddle.curvature.question import Question
from unsaddle.curvature.result import Curvature
from unsaddle.measure import direction
from unsaddle.measure.direction import Measurement, Scale
from unsaddle.metric.given import as_map
from unsaddle.metric.maps import Map
from unsaddle.metric.objective import MetricObjective
from unsaddle.objective import Objective

ACCURACY = 0.2
"""A Ritz pair is returned when its residual is at most this share of its value, which is then mostly within a tenth.
The lowest direction in the metric is not the lowest in x, so more steps would not make it better there."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Posed:
    """What is searched, where, for what; and how its answer is brought back."""

    objective: Objective
    x: Tensor
    question: Question
    own_objective: Objective
    """F in the user's own variables; and its point and question there."""
    own_x: Tensor
    own_question: Question
    scaling: Map | None = None
    """S; None if the search is in the user's own variables."""

    def through(self, scaling: Map) -> Posed:
        """The question as the user put it, seen through a map."""
        inside, question = MetricObjective(self.own_objective, scaling, self.own_x), self.own_question
        gamma = None if question.gamma is None else question.gamma * scaling.smallest**2
        question = replace(question, gamma=gamma, accuracy=ACCURACY)
        return replace(self, objective=inside, x=inside.point, question=question, scaling=scaling)

    def without_metric(self) -> Posed:
        """The question as the user put it."""
        objective, x, question = self.own_objective, self.own_x, self.own_question
        return replace(self, objective=objective, x=x, question=question, scaling=None)

    def after(self, gradients: int, gamma: float | None = None) -> Posed:
        """The question with what is left of its budget after so many gradients; for another γ if that is given."""

        def less(question: Question) -> Question:
            budget = question.max_gradients
            return question if budget is None else replace(question, max_gradients=max(1, budget - gradients))

        question = self.question if gamma is None else replace(self.question, gamma=gamma)
        return replace(self, question=less(question), own_question=less(self.own_question))

    @property
    def smallest(self) -> float:
        """σ, the smallest singular value of S."""
        return 1.0 if self.scaling is None else self.scaling.smallest

    def stretch(self, found: Curvature) -> float:
        """‖Sw‖ for the direction of `found`, or the lowest that it knows."""
        w = found.direction if found.direction is not None else next(iter(found.deciding), None)
        return 1.0 if self.scaling is None or w is None else vectors.norm(self.scaling.apply(w))

    def own(self, found: Curvature) -> Curvature:
        """The answer in the user's own variables. No gradient is needed: it was measured at the points x ± tSw there.

        L1, L2, σ and the gradient's norm stay those of F(Sz). The history is that of the search, in the unit of the
        direction that it ended with.
        """
        return found if self.scaling is None else replace(found, **self._known(found))

    def along(self, found: Curvature) -> Curvature:
        """The answer in the user's own variables, with γ and the radius along its direction, not at their worst.

        A curvature below −γ in the metric is then below −γ here. For callers that measure it again themselves.
        """
        if self.scaling is None:
            return found
        n = self.stretch(found)
        return replace(self.own(found), gamma=found.gamma / n**2, radius=found.radius * n)

    def _known(self, found: Curvature) -> dict[str, Any]:
        """What the map changes. ‖Sw‖ is n for the direction w."""
        assert self.scaling is not None
        n, squared = self.stretch(found), self.smallest**2
        return {
            "direction": None if found.direction is None else self._unit(found.direction),
            "gamma": found.gamma / squared,
            "sought": found.sought / squared,
            "bound": found.bound / squared,
            "lowest": found.lowest / n**2,
            "upper": found.upper / n**2,
            "curvature": found.curvature / n**2,
            "radius": found.radius * self.scaling.largest,
            "deciding": tuple(self._unit(w) for w in found.deciding),
            "measurements": tuple(_stretched(m, n) for m in found.measurements),
            "history": tuple((spent, quotient / n**2) for spent, quotient in found.history),
            "start": None,
            "_objective": self.own_objective,
        }

    def _unit(self, w: Tensor) -> Tensor:
        assert self.scaling is not None
        v = self.scaling.apply(w)
        return v.div_(vectors.norm(v))


def _stretched(measured: Measurement, n: float) -> Measurement:
    """A measurement along w, as one along Sw/‖Sw‖ with ‖Sw‖ = n: the gradients were taken at the same points."""
    return replace(
        measured,
        curvature=measured.curvature / n**2,
        error=measured.error / n**2,
        radius=measured.radius * n,
        deviation=measured.deviation / n**2,
        jump=measured.jump / n,
    )


def posed(objective: Objective, x: Tensor, question: Question, metric: Any) -> Posed:
    """The question in a metric, or as it is if `metric` is None. Without γ, that of F(Sz) is asked for first."""
    plain = Posed(objective=objective, x=x, question=question, own_objective=objective, own_x=x, own_question=question)
    return plain if metric is None else plain.through(as_map(metric, objective, x))


def least_smoothness(asked: Posed, found: Curvature, ledger: Ledger) -> float:
    """A lower bound on the largest |eigenvalue| of ∇²F(x), times σ²: what the search would see of it in the metric.

    It is the curvature along the w with the smallest ‖Sw‖, less its error; 0 if none is seen. Six gradients or more.
    """
    assert asked.scaling is not None
    generator = torch.Generator().manual_seed(asked.question.seed)
    f = asked.objective.sample(asked.question.sample_size(asked.objective), generator, ledger=ledger)
    scale = Scale(gamma=found.gamma, smoothness=found.smoothness, noise=found.noise, radius=found.radius)
    seen = direction.on_same_sample(f, asked.x, asked.scaling.stiffest(asked.x), scale)
    return max(0.0, abs(seen.curvature) - seen.error) if seen.is_finite else 0.0
