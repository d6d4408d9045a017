"""`where`: which tensors of a model, or which variables, a direction lives in; and which of them are not finite."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from unsaddle import checks, vectors
from unsaddle.objective import Objective, as_objective
from unsaddle.pictures import BLUE, MEASURED, drawn, legend_under
from unsaddle.ranks import together
from unsaddle.told import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TOLD, MOST_TOLD = 0.9, 4
"""A sentence names tensors until they hold this share together, but at most so many."""

TOLD_REST = 0.005
"""A smaller share would be told as 0%, so that it is left out."""

DRAWN = 20
"""Bars of a chart; and variables that are told apart where there is no model."""


@dataclass(frozen=True, kw_only=True)
class Where:
    """The answer of `where`: shares of a direction's squared length, largest first."""

    names: tuple[str, ...]
    shares: tuple[float, ...]
    """They sum to 1."""
    sizes: tuple[float, ...]
    """The share of all entries that each tensor has: what a random direction would have in it."""

    def __bool__(self) -> bool:
        """Whether there is a direction."""
        return bool(self.names)

    def __str__(self) -> str:
        if not self:
            return "There is no direction of negative curvature."
        told, held = list[str](), 0.0
        for name, share in zip(self.names, self.shares, strict=True):
            if held >= TOLD or len(told) == MOST_TOLD:
                break
            told.append(f"{share:.0%} in {name}")
            held += share
        others, rest = len(self.names) - len(told), 1.0 - held
        said = f"; {rest:.0%} in {counted(others, 'other')}" if others and rest >= TOLD_REST else ""
        return f"{', '.join(told)}{said}."

    def plot(self) -> Figure:
        """Draw the shares as bars, with those of a random direction. Needs matplotlib, of the extra `plot`."""
        if not self:
            raise ValueError("there is no direction of negative curvature to draw; look at bool(where) first")
        names = self.names[:DRAWN][::-1]
        with drawn(7.0, 1.3 + 0.2 * len(names)) as figure:
            axes = figure.subplots()
            axes.barh(names, self.shares[:DRAWN][::-1], color=BLUE, label="direction")
            axes.plot(self.sizes[:DRAWN][::-1], names, "|", color=MEASURED, markersize=9, label="a random direction")
            axes.set_xlabel("share of the squared length")
            legend_under(axes)
        return figure


NOWHERE = Where(names=(), shares=(), sizes=())
"""Where no direction lives."""


def where(objective: Objective, direction: Tensor) -> Where:
    """Tell which tensors of a model a direction lives in. Without a model: which variables.

    Args:
        objective: F, such as a `ModelObjective`.
        direction: a vector like F's point, such as `verdict.direction`; on several ranks, this rank's part of it.

    >>> from unsaddle import Function
    >>> print(where(Function(lambda x: x.sum()), torch.tensor([0.0, 3.0, 4.0])))
    64% in x[2], 36% in x[1].
    """
    whole = as_objective(objective)
    with together(whole.ranks):
        v = checks.point(whole.as_vector(direction), "direction")
        return _shares(v, whole.parameters)


def not_finite(objective: Objective, x: Tensor, value: float, grad: Tensor) -> str:
    """Tell what of a model is NaN or infinite at x, in words. Empty if nothing is, or without a model.

    Args:
        objective: F.
        x: the point; on several ranks, this rank's part of it.
        value: F(x).
        grad: ∇F(x), as x.
    """
    parameters: Any = as_objective(objective).parameters
    if not hasattr(parameters, "pieces") or grad.shape != (parameters.dimension,):
        return ""
    count = len(parameters.names)
    if bad := _not_finite_in(parameters, x):
        return _listed("parameter", "", bad, count)
    told = [] if math.isfinite(value) else ["the loss"]
    if bad := _not_finite_in(parameters, grad):
        told.append(_listed("gradient", "of ", bad, count))
    return " and ".join(told)


def _not_finite_in(parameters: Any, v: Tensor) -> list[str]:
    counts = vectors.total([[part.isfinite().logical_not().sum() for _, part in parameters.pieces(v)]])
    return [name for name, count in zip(parameters.names, counts, strict=True) if count > 0.0]


def _listed(what: str, of: str, names: list[str], count: int) -> str:
    """`names` of `count` tensors in words, as in "the gradients of 0.weight, 0.bias"."""
    if len(names) == count > 1:
        return f"all {what}s"
    told = ", ".join(names[:MOST_TOLD])
    rest = f" and {len(names) - MOST_TOLD} more" if len(names) > MOST_TOLD else ""
    return f"the {what}{'s' if len(names) > 1 else ''} {of}{told}{rest}"


def _shares(v: Tensor, parameters: Any) -> Where:
    length = vectors.norm(v)
    if not 0.0 < length < math.inf:
        raise ValueError(f"direction must have a finite length above 0, got {length}")
    unit = v / length
    if parameters is None:
        return _by_variable(unit)
    if unit.shape != (parameters.dimension,):
        raise ValueError(f"direction must have one entry a parameter, ({parameters.dimension},), got {tuple(v.shape)}")
    squares, counts = [], []
    for _, part in parameters.pieces(unit):
        squares.append(part.double().square().sum())
        counts.append(torch.ones_like(part, dtype=torch.float64).sum())
    held = vectors.total([[*squares, *counts]])
    sizes, d = held[len(squares) :], vectors.dimension(v)
    return by_share(list(parameters.names), held[: len(squares)], [size / d for size in sizes])


def _by_variable(unit: Tensor) -> Where:
    """The variables with the largest shares, and all others together."""
    shares = unit.double().square().tolist()
    order = sorted(range(len(shares)), key=lambda i: -shares[i])[: DRAWN - 1]
    names, held = [f"x[{i}]" for i in order], [shares[i] for i in order]
    sizes, others = [1.0 / len(shares)] * len(order), len(shares) - len(order)
    if others:
        names, held = [*names, f"{others} other variables"], [*held, max(0.0, 1.0 - sum(held))]
        sizes = [*sizes, others / len(shares)]
    return by_share(names, held, sizes)


def by_share(names: list[str], shares: list[float], sizes: list[float]) -> Where:
    """The parts of a direction, largest share first. The shares need not sum to 1."""
    order, total = sorted(range(len(names)), key=lambda i: -shares[i]), sum(shares)
    return Where(
        names=tuple(names[i] for i in order),
        shares=tuple(shares[i] / total for i in order),
        sizes=tuple(sizes[i] for i in order),
    )
