"""The figures of `unsaddle complexity`."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from unsaddle.experiments.rows import Row
from unsaddle.experiments.table_one import EXTRACTORS, name_of
from unsaddle.pictures import journal
from unsaddle.report.blocks import Figure
from unsaddle.report.complexity_curves import Curve, Curves, count
from unsaddle.report.style import TWO_COLUMNS, drawn_as, legend_below, new_figure

Drawn = tuple[str, str | None]
"""A method and the extractor inside it."""

HEADLINE: tuple[Drawn, ...] = (
    ("neon-scsg", "neon+"),
    ("neon-sgd", "neon+"),
    ("neon-scsg", "neon"),
    ("noisy-sgd", None),
    ("sgld", None),
)
DRAWN: tuple[Drawn, ...] = (
    ("noisy-sgd", None),
    ("sgld", None),
    ("sncg", None),
    ("neon-sgd", "neon+"),
    ("neon-scsg", "neon+"),
    ("natasha2", "neon+"),
    ("svrg-hessian", "neon+"),
)
"""What is drawn against ε, one of each kind."""

STYLE_OF: dict[Drawn, str] = {
    ("natasha2", "neon+"): "neon-natasha",
    ("svrg-hessian", "neon+"): "neon-svrg",
    ("neon-scsg", "neon"): "neon",
}
"""Whose line style is taken, where it is not the method's own."""


def _style(drawn: Drawn) -> dict[str, Any]:
    return drawn_as(STYLE_OF.get(drawn, drawn[0])).plot() | {"label": name_of(*drawn)}


def figures(slope: Curves, one: Curves, gamma: Curves, dimension: Curves) -> list[Figure]:
    """The figures whose runs exist."""
    drawn = [_dimension(dimension)] if dimension else []
    drawn += [_eps(slope, one)] if slope or one else []
    return drawn + ([_gamma(gamma)] if gamma else [])


def _draw(
    axis: Any, curve: Curve, of: Callable[[Row], float], style: Mapping[str, Any]
) -> tuple[list[float], list[float]]:
    """Draw medians over seeds, with bars from the least to the most. Leave a point out if its median is infinite."""
    x, middle, low, high = [], [], [], []
    for at, runs in curve.items():
        values = [of(row) if row["counted"] else math.inf for row in runs]
        median = statistics.median(values)
        if math.isfinite(median) and median > 0.0:
            x.append(at)
            middle.append(median)
            low.append(median - min(values))
            high.append(max(v for v in values if math.isfinite(v)) - median)
    axis.errorbar(x, middle, yerr=[low, high], elinewidth=0.7, capsize=1.5, **style)
    return x, middle


def _ticks(axis: Any, values: Sequence[float]) -> None:
    """Mark the values themselves on the horizontal axis: matplotlib sets no ticks in less than a decade."""
    axis.set_xticks(values, [f"{v:.3g}" for v in values])
    axis.minorticks_off()


def _guide(axis: Any, x: Sequence[float], at: float, power: float, label: str) -> None:
    """A thin line of known slope that ends at (x[-1], at), with its power written there."""
    ends = [x[0], x[-1]]
    axis.plot(ends, [at * (e / x[-1]) ** power for e in ends], color="0.55", lw=0.7, ls=(0, (2, 2)))
    axis.annotate(label, (ends[-1], at), xytext=(2, 1), textcoords="offset points", fontsize=6.5, color="0.35")


def _dimension(dimension: Curves) -> Figure:
    """Almost linear time in d."""
    own = {(k[0], k[2]): curve for k, curve in dimension.items() if (k[0], k[2]) in HEADLINE}
    with journal():
        figure, (time, steps, whole) = new_figure(1, 3, width=TWO_COLUMNS, height=2.7)
        for drawn, curve in own.items():
            style = _style(drawn)
            _draw(time, curve, lambda row: 1e3 * row["seconds"] / row["calls"], style)
            _draw(steps, curve, lambda row: row["calls"], style)
            _draw(whole, curve, lambda row: row["seconds"], style)
        x = sorted({d for curve in own.values() for d in curve})
        for axis in (time, whole):
            highest = max((y for line in axis.get_lines() for y in line.get_ydata()), default=1.0)
            _guide(axis, [d for d in x if d >= 1000] or x, 1.6 * highest, 1.0, "∝ d")
        time.set(xscale="log", yscale="log", xlabel="dimension d", ylabel="time of a step, ms")
        steps.set(xscale="log", xlabel="dimension d", ylabel="steps until it is known", ylim=(0, None))
        whole.set(xscale="log", yscale="log", xlabel="dimension d", ylabel="time until it is known, s")
        legend_below(figure, steps, columns=3)
    return Figure(
        caption="Time against dimension. Left: a step, one oracle call with all that the method does around it. "
        "Middle: how many steps; only the axis of d is logarithmic, so that a straight line is logarithmic growth. "
        "Right: the two together. Dotted: proportional to d. The noise of the samples, and that which noisy SGD and "
        "SGLD add, has the same norm at every d. These two never know, and are counted to arrival. Processor time; "
        "medians and ranges over seeds.",
        name="complexity-dimension",
        figure=figure,
    )


def _eps(slope: Curves, one: Curves) -> Figure:
    """Samples against 1/ε, on the slope and on one function."""
    with journal():
        figure, axes = new_figure(1, 2, width=TWO_COLUMNS, height=3.1)
        titles = ("slope: for each ε a function of its own", "one function")
        for axis, curves, title in zip(axes, (slope, one), titles, strict=True):
            tops: list[tuple[list[float], list[float]]] = []
            for method, inside in DRAWN:
                powers = (None, 0.25 if method == "noisy-sgd" else 0.5)
                for key in [k for k in curves if (k[0], k[2]) == (method, inside) and k[1] in powers]:
                    tops.append(_draw(axis, curves[key], lambda row: row["gradients"], _style((method, inside))))
            tops = [t for t in tops if t[0]]
            if tops:
                x, middle = max(tops, key=lambda t: t[1][-1])
                low = min(tops, key=lambda t: t[1][-1])[1][-1]
                guides = [(4.0, "ε⁻⁴", 2.0 * middle[-1]), (2.0, "ε⁻²", 0.5 * low)]
                for power, label, at in guides if curves is slope else [(2.0, "ε⁻²", 2.0 * middle[-1])]:
                    _guide(axis, x, at, power, label)
            axis.set(xscale="log", yscale="log", xlabel="1/ε", ylabel="component gradients (IFO)", title=title)
            _ticks(axis, sorted({at for curve in curves.values() for at in curve}))
        legend_below(figure, *axes, columns=3)
    return Figure(
        caption="Component gradients until an (ε, γ)-point is known (noisy SGD, SGLD: reached) against 1/ε. Left, for "
        "each ε a function on which first-order steps make the least progress, with L1, L2, V and F(x0) − min F the "
        "same for all. Right, one function for all ε. Dotted: ε⁻⁴ and ε⁻². Medians and ranges over seeds.",
        name="complexity-eps",
        figure=figure,
    )


def _gamma(gamma: Curves) -> Figure:
    """Samples against 1/γ at one saddle."""
    with journal():
        figure, (left, right) = new_figure(1, 2, width=TWO_COLUMNS, height=3.1)
        x: list[float] = []
        for extractor in EXTRACTORS:
            key = ("neon-scsg", None, extractor)
            if key in gamma:
                style = drawn_as("krylov" if extractor == "auto" else extractor).plot()
                style |= {"label": name_of("neon-scsg", extractor)}
                x = _draw(left, gamma[key], lambda row: row["gradients"], style)[0]
        first_order = [(left, method, count("gradients")) for method in ("noisy-sgd", "sgld")]
        second_order = [(right, method, count("products")) for method in ("natasha2", "sncg", "svrg-hessian")]
        for axis, method, of in [*first_order, *second_order]:
            if (method, None, None) in gamma:
                _draw(axis, gamma[method, None, None], of, _style((method, None)))
        if x:
            top = max((y for line in left.get_lines() for y in line.get_ydata()), default=1.0)
            _guide(left, x, 2.0 * top, 3.0, "γ⁻³")
        left.set(xscale="log", yscale="log", xlabel="1/γ", ylabel="component gradients (IFO)")
        right.set(xscale="log", yscale="log", xlabel="1/γ", ylabel="component Hessian products (ISO)")
        for axis in (left, right):
            _ticks(axis, sorted({at for curve in gamma.values() for at in curve}))
        legend_below(figure, left, right, columns=3)
    return Figure(
        caption="Leaving one saddle of curvature −2γ, equally wide for all γ (ε = 0.1, d = 100): component gradients "
        "of NEON-SCSG with three extractors until it knows, of noisy SGD and SGLD to arrival, and component Hessian "
        "products of the methods that use them. Batches grow fourfold until they decide, hence the stairs. Dotted: "
        "γ⁻³. Medians and ranges over seeds.",
        name="complexity-gamma",
        figure=figure,
    )
