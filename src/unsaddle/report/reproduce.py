"""The rows of `unsaddle reproduce` as the paper's figures, and its observations as a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from unsaddle.experiments import observations
from unsaddle.experiments.observations import GOOD, NEARLY, Observation, first_at, lowest
from unsaddle.experiments.rows import Row, identity
from unsaddle.report.blocks import Cell, Figure, Section, Table
from unsaddle.report.style import BLACK, TWO_COLUMNS, drawn_as, legend_below, new_figure

FULL = ("power", "neon", "neon+", "lanczos", "krylov")
"""The curves of Figure 1 (a), and krylov."""
SAMPLED = ("neon-st", "neon+-st")
"""The curves that Figure 1 (b) adds."""
SHORT = ("power", "neon-short", "neon+-short", "lanczos")

NCFIND = "NCFind ends NEON⁺"

Curves = dict[str, Row]


def sections(rows: Sequence[Row]) -> list[Section]:
    """Observations and figures, data set by data set."""
    sets: dict[str, dict[int, Curves]] = {}
    for row in rows:
        settings = row["settings"]
        targets = sets.setdefault(identity("", settings["data"]), {})
        targets.setdefault(settings["target"], {})[settings["method"]] = row
    written = []
    for number, targets in enumerate(sets.values()):
        whole = {target: curves for target, curves in targets.items() if "lanczos" in curves}
        if whole:
            written += _of_one_set(whole, "" if number == 0 else f"-{number + 1}")
    return written


def _of_one_set(targets: dict[int, Curves], suffix: str) -> list[Section]:
    any_row = next(iter(targets.values()))["lanczos"]
    name, n, d = any_row["data_name"], any_row["num_samples"], any_row["dimension"]
    data = f"{name}, n = {n}, d = {d}"
    judged = observations.judged([row for curves in targets.values() for row in curves.values()])
    pairs = [
        Figure(
            caption=f"{'Figure 1' if i == 0 else f'Supplement, pair {i}'}: target {target} on {data}.",
            name=f"reproduce-target-{target}{suffix}",
            figure=_pair(curves),
        )
        for i, (target, curves) in enumerate(targets.items())
    ]
    short = f"NEON and NEON⁺ with noise radius 0.0001, at each target on {data}."
    return [
        Section(
            title=f"The paper's observations ({name})",
            paragraphs=(
                f"Non-linear least squares with a non-convex regulariser on {data}, λ = 3, at targets x ~ N(0, I); "
                "step size and noise radius 0.01, momentum 0.9, sub-samples of 100. A statement is true if it is true "
                "at every target. Curves overlap where they differ by at most 5 % of |λ_min|; a direction is good at "
                "half of λ_min; competitive is at most twice Lanczos's calls. The paper has no observation (iii).",
            ),
            tables=(_observations(judged), _by_target(judged), _levels(targets)),
        ),
        Section(
            title=f"Figure 1 and the supplement's pairs ({name})",
            paragraphs=(
                "Curvature uᵀHu/‖u‖² along each method's iterate, H being the Hessian of the full data. (a) against "
                "iterations, each of them one full gradient or Hessian product; (b) against IFO calls, gradients or "
                "Hessian products of single samples. A star shows where NCFind, with γ = 1 and its test as printed, "
                "would have ended NEON⁺ or NEON⁺st, and the curvature of the direction that it returns. Curves are not "
                "ended by a trust radius, since the paper gives none: where an iterate has grown beyond the region in "
                "which the function is quadratic, its curve turns back up.",
            ),
            figures=pairs,
        ),
        Section(
            title=f"With noise a hundred times shorter ({name})",
            paragraphs=(
                "The same as (a), but with noise radius 0.0001. NEON then stays where the function is quadratic until "
                "it has converged, and falls together with the power method.",
            ),
            figures=[Figure(caption=short, name=f"reproduce-short-noise{suffix}", figure=_short_noise(targets))],
        ),
    ]


# ---- tables


def _observations(judged: Sequence[Observation]) -> Table:
    measured = ("measured: median (smallest to largest)", "what was measured")
    return Table(
        caption="Observations, judged over all targets",
        heads=("item", "statement", *measured, "targets", "verdict"),
        rows=[(o.item, o.statement, o.spread, o.quantity, o.count, o.true) for o in judged],
    )


def _by_target(judged: Sequence[Observation]) -> Table:
    return Table(
        caption="The same, target by target",
        heads=("item", "statement", "target", "measured", "holds"),
        rows=[
            (o.item, o.statement, target, value, o.holds[target])
            for o in judged
            for target, value in o.measured.items()
        ],
    )


def _levels(targets: dict[int, Curves]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for target, curves in targets.items():
        bottom = lowest(curves)
        for method, row in curves.items():
            reached = [
                _reached(row, axis, share * bottom) for share in (GOOD, NEARLY) for axis in ("iterations", "samples")
            ]
            end = (None, None) if row["ncfind"] is None else (row["ncfind"]["iterations"], row["ncfind"]["quotient"])
            rows.append((target, drawn_as(method).label, bottom, min(row["quotient"]), *reached, *end))
    calls = ("iterations to 50 %", "calls to 50 %", "iterations to 90 %", "calls to 90 %")
    ncfind = ("NCFind at iteration", "NCFind's curvature")
    return Table(
        caption="Iterations and calls (IFO, or ISO for Hessian products) to half and to 90 % of λ_min",
        heads=("target", "method", "λ_min", "lowest curvature", *calls, *ncfind),
        rows=rows,
    )


def _reached(row: Row, axis: str, level: float) -> float | None:
    place = first_at(row, axis, level)
    return None if math.isinf(place) else place


# ---- figures


def _pair(curves: Curves) -> Any:
    figure, (left, right) = new_figure(1, 2, width=TWO_COLUMNS, height=3.1, sharey=True)
    _draw(left, curves, FULL, "iterations")
    _draw(right, curves, FULL + SAMPLED, "samples")
    left.set(
        title="(a) on full data",
        xlabel="iterations (one full gradient or Hessian product each)",
        ylabel="curvature uᵀHu / ‖u‖²",
    )
    right.set(title="(b) on sub-sampled data", xlabel="IFO calls (of Hessian products: ISO calls)")
    legend_below(figure, right, left, columns=5)
    return figure


def _short_noise(targets: dict[int, Curves]) -> Any:
    columns = min(3, len(targets))
    rows = math.ceil(len(targets) / columns)
    figure, grid = new_figure(rows, columns, width=TWO_COLUMNS, height=0.7 + 1.8 * rows, squeeze=False)
    for axes, (target, curves) in zip(grid.flat, targets.items(), strict=False):
        _draw(axes, curves, SHORT, "iterations")
        axes.set(title=f"target {target}", xlabel="iterations")
    for axes in grid.flat[len(targets) :]:
        axes.remove()
    for axes in grid[:, 0]:
        axes.set_ylabel("curvature uᵀHu / ‖u‖²")
    legend_below(figure, grid.flat[0], columns=5)
    return figure


def _draw(axes: Any, curves: Curves, methods: Sequence[str], axis: str) -> None:
    bottom = lowest(curves)
    axes.axhline(bottom, color=BLACK, linewidth=0.6, label=r"$\lambda_{\min}$")
    marks: list[float] = []
    for method in methods:
        if method not in curves:
            continue
        row, style = curves[method], drawn_as(method)
        # On a logarithmic axis there is no zero.
        points = [(p, q) for p, q in zip(row[axis], row["quotient"], strict=True) if p > 0 and math.isfinite(q)]
        places, quotients = zip(*points, strict=True) if points else ((), ())
        wide = {"linewidth": 2.6} if method == "power" else {}
        axes.plot(places, quotients, **style.plot(), markevery=0.12, **wide)
        marks += quotients[:1]
        end = row["ncfind"]
        if end is not None and (method in SAMPLED or axis == "iterations"):
            marks.append(end["quotient"])
            star = {"marker": "*", "markersize": 9, "markeredgecolor": BLACK, "markeredgewidth": 0.6}
            axes.plot([end[axis]], [end["quotient"]], color=style.color, linestyle="", label=NCFIND, zorder=5, **star)
    axes.set_xscale("log")
    top = max([0.3, *marks])
    axes.set_ylim(bottom - 0.06 * (top - bottom), top + 0.06 * (top - bottom))
