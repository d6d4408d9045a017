"""The picture of a verdict, with matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unsaddle.curvature.plots import plot_search

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from unsaddle.judgement.verdict import Verdict


def plot_verdict(verdict: Verdict) -> Figure:
    """Draw the loss along ± the deciding direction with the predicted quadratic, and curvature against gradients."""
    title = f"{verdict.kind}, curvature {verdict.curvature:.3g}"
    return plot_search(verdict.evidence, verdict._objective, verdict._x, verdict.length, title)
