"""Pictures of a spectrum, with matplotlib."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from unsaddle.pictures import BLUE, GREY, MEASURED, THRESHOLD, count_along_x, journal, legend_under

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from unsaddle.spectrum.layers import Layers
    from unsaddle.spectrum.result import Density, Eigenpairs

FLOOR = 0.1
"""A density is drawn down to this share of one eigenvalue under its Gaussian."""


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


@journal()
def plot_eigenpairs(found: Eigenpairs) -> Figure:
    """Draw the values of both ends with their errors, and the bound on all others."""
    figure = _figure(7.0, 2.8)
    ends = [(slice(0, found.lowest), "lowest", found.bound[0]), (slice(found.lowest, None), "highest", found.bound[1])]
    ends = [end for end in ends if len(found.values[end[0]])]
    for axes, (which, title, bound) in zip(figure.subplots(1, max(1, len(ends)), squeeze=False)[0], ends, strict=True):
        values, errors = found.values[which], found.errors[which]
        axes.errorbar(range(1, len(values) + 1), values, yerr=errors, fmt="o", color=MEASURED, markersize=3.5)
        if math.isfinite(bound):
            side = "above" if title == "lowest" else "below"
            axes.axhline(bound, color=THRESHOLD, linestyle=":", label=f"all others are {side} this")
            legend_under(axes)
        axes.set_title(f"{title} eigenvalues")
        axes.set_xlabel("number, in ascending order")
        count_along_x(axes)
    return figure


@journal()
def plot_density(found: Density) -> Figure:
    """Draw the density on a logarithmic scale, with its spread."""
    figure = _figure(5.2, 2.8)
    _draw_density(figure.subplots(), found)
    return figure


def _draw_density(axes: Axes, found: Density, label: str | None = None) -> None:
    lowest = FLOOR / (found.dimension * found.width * math.sqrt(2.0 * math.pi))
    spread = np.nan_to_num(found.spread)
    axes.fill_between(
        found.grid,
        np.maximum(found.density - 2.0 * spread, lowest),
        np.maximum(found.density + 2.0 * spread, lowest),
        color=BLUE,
        alpha=0.3,
        linewidth=0.0,
    )
    axes.plot(found.grid, np.maximum(found.density, lowest), color=BLUE, linewidth=1.0, label=label)
    axes.set_yscale("log")
    axes.set_xlabel("eigenvalue")
    axes.set_ylabel("density")


@journal()
def plot_layers(found: Layers) -> Figure:
    """Draw the extremes of all layers, and the density of each."""
    names = [layer.name for layer in found.layers]
    dense = [layer for layer in found.layers if layer.density is not None and layer.density.grid.size]
    height = 0.8 + 0.9 * max(2, len(names))
    figure = _figure(8.0, height)
    left: Any = figure
    right: Any = None
    if dense:
        halves: Any = figure.subfigures(1, 2, width_ratios=(1.0, 1.3))
        left, right = halves
    axes = left.subplots()
    for i, layer in enumerate(found.layers):
        values = layer.pairs.values
        axes.plot(values, [i] * len(values), "k|", markersize=12)
        if len(values):
            axes.hlines(i, values[0], values[-1], color=BLUE, linewidth=3.0, alpha=0.4)
    axes.axvline(0.0, color=GREY, linewidth=0.6)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlabel("extreme eigenvalues of the block")
    if right is not None:
        for one, layer in zip(right.subplots(len(dense), 1, squeeze=False)[:, 0], dense, strict=True):
            assert layer.density is not None
            _draw_density(one, layer.density)
            one.set_ylabel("")
            one.set_title(layer.name, fontsize=8, loc="left")
            if layer is not dense[-1]:
                one.set_xlabel("")
    return figure
