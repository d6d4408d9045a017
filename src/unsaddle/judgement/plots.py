"""The picture of a verdict, with matplotlib."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from unsaddle import vectors

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from unsaddle.judgement.verdict import Verdict

POINTS = 41
"""Evaluations of the loss along the direction."""


def plot_verdict(verdict: Verdict) -> Figure:
    """Draw the loss along ± the deciding direction with the predicted quadratic, and curvature against gradients.

    The slice ends where the predicted change is a tenth of the loss, or at a tenth of ‖x‖ if that is nearer.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("plot() needs matplotlib; install it with pip install 'unsaddle[plot]'") from error

    figure = Figure(figsize=(9.0, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    _draw_slice(left, verdict)
    _draw_history(right, verdict)
    return figure


def _draw_slice(axes: Axes, verdict: Verdict) -> None:
    found, x = verdict.evidence, verdict._x
    v = found.direction if found.direction is not None else next(iter(found.deciding), None)
    axes.set_xlabel("distance along the direction")
    axes.set_ylabel("change of the loss")
    if v is None:
        axes.set_title("no direction to draw")
        return
    size = None if verdict._objective.num_samples is not None else 256
    f = verdict._objective.sample(size, torch.Generator().manual_seed(0))
    value, grad = f.value(x), f.grad(x)  # A value that comes with a gradient may be left out by its oracle.
    curvature, slope = verdict.curvature, vectors.dots((grad, v))[0]
    reach = 0.1 * max(1.0, vectors.norm(x))
    if curvature != 0.0 and math.isfinite(curvature):
        reach = min(reach, math.sqrt(0.2 * max(abs(float(value)), 1e-3) / abs(curvature)))
    distances = torch.linspace(-reach, reach, POINTS, dtype=x.dtype)
    losses = [float(f.value(torch.add(x, v, alpha=float(t))) - value) for t in distances]
    quadratic = [slope * float(t) + 0.5 * curvature * float(t) ** 2 for t in distances]
    axes.plot(distances.tolist(), losses, color="black", label="loss")
    label = f"predicted, curvature {curvature:.3g}"
    axes.plot(distances.tolist(), quadratic, color="tab:red", linestyle="--", label=label)
    axes.set_title(verdict.kind)
    axes.legend(frameon=False)


def _draw_history(axes: Axes, verdict: Verdict) -> None:
    history = verdict.evidence.history
    axes.set_xlabel("gradients")
    axes.set_ylabel("lowest curvature seen")
    axes.plot([g for g, _ in history], [q for _, q in history], color="black", marker=".")
    if math.isfinite(verdict.gamma):
        axes.axhline(-verdict.gamma, color="tab:red", linestyle=":", label="−γ")
        axes.legend(frameon=False)
