"""The picture of a run, with matplotlib."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from unsaddle.pictures import MARK, MEASURED, THRESHOLD, count_along_x, drawn, legend_under

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Points = Sequence[tuple[int, float]]
"""(component gradients so far, what was measured)."""


def plot_run(values: Points, norms: Points, escapes: Sequence[int], eps: float, title: str) -> Figure:
    """Draw F and the norm of its gradient against component gradients, with the escapes marked.

    `escapes` are the component gradients at which a saddle was left. What is not finite is not drawn.
    """
    with drawn(7.2, 3.0) as figure:
        left, right = figure.subplots(1, 2)
        for axes, points, label in ((left, values, "F"), (right, norms, "‖∇F‖")):
            seen = [(spent, y) for spent, y in points if math.isfinite(y)]
            axes.plot([spent for spent, _ in seen], [y for _, y in seen], color=MEASURED, marker="o", label=label)
            for i, spent in enumerate(escapes):
                axes.axvline(spent, color=MARK, linestyle="--", label="left a saddle" if i == 0 else None)
            axes.set_xlabel("component gradients")
            axes.set_ylabel(label)
            count_along_x(axes)
        if any(math.isfinite(y) and y > 0.0 for _, y in norms):
            right.set_yscale("log")
        if math.isfinite(eps):
            right.axhline(eps, color=THRESHOLD, linestyle=":", label=f"ε = {eps:.2g}")
        left.set_title(title, loc="left")
        legend_under(left)
        legend_under(right)
    return figure
