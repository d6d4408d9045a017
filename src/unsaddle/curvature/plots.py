"""The picture of a search: the function along a direction, and the lowest curvature seen, with matplotlib."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.objective import Objective, SampledFunction, as_objective
from unsaddle.pictures import MARK, MEASURED, PREDICTED, THRESHOLD, count_along_x, drawn, legend_under

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from unsaddle.curvature.result import Curvature

POINTS = 41
"""Evaluations of the loss along the direction."""

QUICK = 3.0
"""Seconds that a picture may take unasked, in a notebook."""

BEYOND = 1.25
"""A slice goes so many times as far as the lowest point along the direction."""


def plot_search(found: Curvature, objective: Objective, x: Tensor, length: float = math.nan, title: str = "") -> Figure:
    """Draw the loss along ± the direction beside the predicted quadratic, and the curvature against gradients.

    The second panel is drawn if the history was kept. The slice ends a little beyond `length`, the distance at which F
    is lowest. Without it: where the predicted change is a tenth of the loss, or at a tenth of ‖x‖ if that is nearer.
    """
    panels = 2 if found.history else 1
    with drawn(3.6 * panels, 3.0) as figure:
        axes = figure.subplots(1, panels, squeeze=False)[0]
        _draw_slice(axes[0], found, objective, x, length, title)
        if found.history:
            _draw_history(axes[1], found)
    return figure


def drawn_if_quick(plot: Callable[[], Figure], objective: Objective | None, x: Tensor | None) -> Figure | None:
    """The picture for a notebook; None if it would take more than a few seconds, or cannot be drawn."""
    if objective is None or x is None or find_spec("matplotlib") is None:
        return None
    begun = time.perf_counter()
    _all_of(objective).value(x)
    return plot() if (time.perf_counter() - begun) * POINTS < QUICK else None


def _all_of(objective: Objective) -> SampledFunction:
    """F, or 256 samples of an endless one."""
    return objective.sample(None if objective.num_samples is not None else 256, torch.Generator().manual_seed(0))


def _draw_slice(axes: Axes, found: Curvature, objective: Objective, x: Tensor, length: float, title: str) -> None:
    told = found.direction
    v = next(iter(found.deciding), None) if told is None else as_objective(objective).as_vector(told)
    axes.set_xlabel("distance along the direction")
    axes.set_ylabel("change of F")
    if v is None:
        axes.set_title("no direction to draw", loc="left")
        return
    f = _all_of(objective)
    value, grad = f.value(x), f.grad(x)  # A value that comes with a gradient may be left out by its oracle.
    curvature = found.curvature if math.isfinite(found.curvature) else found.lowest
    slope = vectors.dots((grad, v))[0]
    reach = _reach(x, float(value), curvature, length)
    distances = torch.linspace(-reach, reach, POINTS, dtype=x.dtype)
    changes = [float(f.value(torch.add(x, v, alpha=float(t))) - value) for t in distances]
    quadratic = [slope * float(t) + 0.5 * curvature * float(t) ** 2 for t in distances]
    axes.plot(distances.tolist(), changes, color=MEASURED, label="F, evaluated")
    label = f"predicted by curvature {curvature:.3g}"
    axes.plot(distances.tolist(), quadratic, color=PREDICTED, linestyle="--", label=label)
    axes.plot([0.0], [0.0], "o", color=MARK, markersize=6, label="x")
    if math.isfinite(length):
        lower = float(f.value(torch.add(x, v, alpha=length)) - value)
        axes.plot([length], [lower], "v", color=MARK, markersize=6, label=f"{lower:.3g}, at distance {length:.2g}")
    low, high = min(*changes, 0.0), max(*changes, 0.0)
    if math.isfinite(low) and high > low:
        axes.set_ylim(low - 0.1 * (high - low), high + 0.1 * (high - low))
    axes.set_title(title, loc="left")
    legend_under(axes)


def _reach(x: Tensor, value: float, curvature: float, length: float) -> float:
    if math.isfinite(length) and length > 0.0:
        return BEYOND * length
    reach = 0.1 * max(1.0, vectors.norm(x))
    if curvature != 0.0 and math.isfinite(curvature):
        reach = min(reach, math.sqrt(0.2 * max(abs(value), 1e-3) / abs(curvature)))
    return reach


def _draw_history(axes: Axes, found: Curvature) -> None:
    axes.set_xlabel("Hessian products" if found.cost.hessian_products else "gradients")
    axes.set_ylabel("lowest curvature seen")
    spent, quotients = zip(*found.history, strict=True)
    axes.plot(spent, quotients, color=MEASURED, marker="o", label="by the search")
    if math.isfinite(found.gamma):
        axes.axhline(-found.gamma, color=THRESHOLD, linestyle=":", label=f"−γ = {-found.gamma:.3g}")
    if found.measurements:
        at = found.measurements[-1]
        axes.errorbar([spent[-1]], [at.curvature], [at.error], fmt="s", color=MARK, capsize=3, label="measured again")
    count_along_x(axes)
    legend_under(axes)
