"""The rows of `unsaddle reproduce` as the paper's figures, and its observations as a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from unsaddle.experiments import observations
from unsaddle.experiments.observations import (
    ENOUGH,
    FIRST,
    GOOD,
    NEARLY,
    OVERLAP,
    Observation,
    cannot_be_judged,
    first_at,
    lowest,
    parting,
    seven,
    seven_is_asked,
)
from unsaddle.experiments.rows import Row, identity
from unsaddle.pictures import BLACK
from unsaddle.report.blocks import Cell, Figure, Section, Table
from unsaddle.report.style import TWO_COLUMNS, drawn_as, legend_below, new_figure

FULL = ("power", "neon", "neon+", "lanczos", "krylov")
"""The curves of Figure 1 (a), and krylov."""
SAMPLED = ("neon-st", "neon+-st")
"""The curves that Figure 1 (b) adds."""
SHORT = ("power", "neon-short", "neon+-short", "lanczos")
SEEN = 0.01
"""A distance that can be seen in a figure, as a share of |λ_min|."""

NCFIND = r"NCFind ends NEON⁺: $y_\tau - u_\tau$, as $\mathcal{F} = \infty$"
NCFIND_ITERATE = r"NCFind ends NEON⁺: $y_\tau$"

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
                "step size and noise radius 0.01, momentum 0.9, sub-samples of 100.",
                *_how_judged(targets),
            ),
            tables=(_observations(judged, len(targets)), _by_target(judged), _levels(targets), _partings(targets)),
        ),
        Section(
            title=f"Figure 1 and the supplement's pairs ({name})",
            paragraphs=(
                "Curvature uᵀHu/‖u‖² along each method's iterate, H being the Hessian of the full data. (a) against "
                "iterations, each of them one full gradient or Hessian product; (b) against IFO calls, gradients or "
                "Hessian products of single samples. Curves are not ended by a trust radius, since the paper gives "
                "none: where an iterate has grown beyond the region in which the function is quadratic, its curve "
                "turns back up.",
                "A star shows where NCFind, with γ = 1 and its test as printed, would have ended NEON⁺ or NEON⁺st, and "
                "the curvature of the direction that it returns. It is drawn with 𝓕 = ∞, since the paper gives no 𝓕: "
                "NCFind then returns y_τ − u_τ. With a smaller 𝓕 it returns an iterate y_j, j ≤ τ. The ring beside the "
                "star is the curvature of y_τ.",
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


def _how_judged(targets: dict[int, Curves]) -> tuple[str, str]:
    count = len(targets)
    asked = [curves for curves in targets.values() if seven_is_asked(curves["lanczos"], lowest(curves))]
    return (
        f"Judged over {count} targets: a statement is true if it holds at each of them where it is asked."
        if count >= ENOUGH
        else f"The paper's observations {cannot_be_judged(count)}: it takes {ENOUGH}, as many as the paper shows. The "
        "tables say at how many targets each statement holds.",
        "Curves overlap where they differ by at most 5 % of |λ_min|, until the power method is at 90 % of λ_min, or "
        f"over the first {FIRST} iterations. A direction is good at half of λ_min, or by the paper's (7), "
        "vᵀHv ≤ −cγ, with γ = 1, which ζ = 1 − √(ηγ) implies, and c = 1/2, as the paper has it for the power method "
        f"and Lanczos. (7) is asked where λ_min ≤ −γ, at {len(asked)} of {count} targets: elsewhere the paper promises "
        "no direction. Competitive is at most twice Lanczos's calls. The paper has no observation (iii).",
    )


# ---- tables


def _observations(judged: Sequence[Observation], count: int) -> Table:
    measured = ("measured: median (smallest to largest)", "what was measured")
    return Table(
        caption=f"Observations, judged over {count} targets" if count >= ENOUGH else "Observations, not judged",
        heads=("item", "statement", *measured, "targets at which it holds", "verdict"),
        rows=[(o.item, o.statement, o.spread, o.quantity, o.count, _verdict(o)) for o in judged],
    )


def _verdict(observation: Observation) -> bool | str:
    few = cannot_be_judged(len(observation.measured))
    return few if observation.verdict is None else observation.verdict


def _by_target(judged: Sequence[Observation]) -> Table:
    return Table(
        caption="The same, target by target",
        heads=("item", "statement", "target", "measured", "within its limit at this target"),
        rows=[
            (o.item, o.statement, target, value, _word(o.holds.get(target)))
            for o in judged
            for target, value in o.measured.items()
        ],
    )


def _word(holds: bool | None) -> str | None:
    """Not a verdict: that is about all targets."""
    return None if holds is None else "yes" if holds else "no"


def _levels(targets: dict[int, Curves]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for target, curves in targets.items():
        bottom = lowest(curves)
        for method, row in curves.items():
            levels = (GOOD * bottom, NEARLY * bottom, seven(row))
            reached = [_reached(row, axis, level) for level in levels for axis in ("iterations", "samples")]
            end = row["ncfind"] or {}
            ended = [end.get(key) for key in ("iterations", "quotient", "iterate_quotient")]
            rows.append((target, drawn_as(method).label, bottom, min(row["quotient"]), *reached, *ended))
    calls = [f"{axis} to {level}" for level in ("50 %", "90 %", "(7)") for axis in ("iterations", "calls")]
    ncfind = ("NCFind at τ", "curvature of y_τ − u_τ, which it returns as 𝓕 = ∞", "curvature of y_τ")
    return Table(
        caption="Iterations and calls (IFO, or ISO for Hessian products) to half and 90 % of λ_min, and to −cγ of (7)",
        heads=("target", "method", "λ_min", "lowest curvature", *calls, *ncfind),
        rows=rows,
    )


def _partings(targets: dict[int, Curves]) -> Table:
    """Where NEON leaves the power method."""
    rows: list[tuple[Cell, ...]] = []
    for target, curves in targets.items():
        bottom, power = lowest(curves), curves.get("power")
        for method in ("neon", "neon-short"):
            if power is None or method not in curves:
                continue
            row = curves[method]
            end = _reached(power, "iterations", NEARLY * bottom)
            length = dict(zip(row["iterations"], row["norm"], strict=True)).get(end)
            parts = [parting(row, power, bottom, tolerance) for tolerance in (SEEN, OVERLAP)]
            rows.append((target, drawn_as(method).label, *parts, end, length))
    apart = [f"iteration at which they are {tolerance:.0%} of |λ_min| apart" for tolerance in (SEEN, OVERLAP)]
    return Table(
        caption=(
            "Where NEON and the power method part: the first point of the curves at which they are farther apart. "
            "There is a point at each of the first 60 iterations, then one each time the iteration has grown by 3 %"
        ),
        heads=("target", "method", *apart, "Power is at 90 % of λ_min", "‖u‖ of NEON there"),
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
    legend_below(figure, right, left, columns=4)
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
            point: dict[str, Any] = {"color": style.color, "linestyle": "", "zorder": 5}
            star = {"marker": "*", "markersize": 9, "markeredgecolor": BLACK, "markeredgewidth": 0.6}
            ring = {"marker": "o", "markersize": 6, "markerfacecolor": "none", "markeredgewidth": 1.2}
            axes.plot([end[axis]], [end["quotient"]], label=NCFIND, **point, **star)
            axes.plot([end[axis]], [end["iterate_quotient"]], label=NCFIND_ITERATE, **point, **ring)
            marks += [end["quotient"], end["iterate_quotient"]]
    axes.set_xscale("log")
    top = max([0.3, *marks])
    axes.set_ylim(bottom - 0.06 * (top - bottom), top + 0.06 * (top - bottom))
