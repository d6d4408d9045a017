"""The sections of `unsaddle compare`: a table of samples to arrival, curves, and a performance profile."""

from __future__ import annotations

import itertools
import math
import re
import statistics
from collections.abc import Sequence
from typing import Any

from unsaddle.experiments.compare import NOT_APPLICABLE
from unsaddle.experiments.profile import profile, ratios
from unsaddle.experiments.rows import Row
from unsaddle.experiments.watch import BLIND
from unsaddle.pictures import journal
from unsaddle.report.blocks import Cell, Figure, Section, Table
from unsaddle.report.style import TWO_COLUMNS, drawn_as, legend_below, new_figure

FLOOR = 1e-5
"""The least gap of the objective that is drawn, relative to the first gap."""

GRADIENT_FLOOR = 0.03
"""The least gradient norm that is drawn, relative to ε. At an exact saddle the norm is 0."""

SHOWN = 1000.0
"""Samples and times are drawn from 1/1000 of the longest run on."""

PAIRS = (
    ("neon-scsg", "neon-sgd"),
    ("neon-svrg", "neon-sgd"),
    ("neon-scsg", "scsg"),
    ("neon-scsg", "noisy-sgd"),
    ("neon-scsg", "sgld"),
    ("neon-scsg", "natasha2"),
)
"""Pairs of methods that get a statement if both ran."""

Runs = dict[str, dict[str, list[Row]]]
"""Rows by problem and method, in the order of the file."""


def sections(rows: Sequence[Row]) -> list[Section]:
    """The sections of the page."""
    runs = by_problem(rows)
    figures = [_curves(problem, methods) for problem, methods in runs.items()]
    return [
        Section(
            title="Methods compared",
            paragraphs=[
                "A run has arrived at the first point at which it evaluated a gradient where ‖∇F‖ ≤ ε and λ_min ≥ −γ. "
                "That is judged outside of the run with the exact gradient and Hessian, which are not counted, nor is "
                "their time. IFO counts component gradients, ISO component Hessian products. Medians are over all "
                "seeds, a run that never arrives being infinite. “Told” is how many runs ended knowing that they had "
                "arrived, and “false” how many of these had not; noisy SGD and SGLD never look where they are, and "
                "were stopped from outside. All methods ran at their defaults.",
                *(_question(problem, methods) for problem, methods in runs.items()),
            ],
            tables=[arrivals(runs), *([statements(runs)] if statements(runs).rows else [])],
            figures=[*([profiles(runs)] if len(_methods(runs)) > 1 else []), *figures],
        )
    ]


def by_problem(rows: Sequence[Row]) -> Runs:
    """Group the rows. A method that cannot take a problem has no run there."""
    runs: Runs = {}
    for row in rows:
        if row["status"] != NOT_APPLICABLE:
            settings = row["settings"]
            runs.setdefault(settings["problem"], {}).setdefault(settings["method"], []).append(row)
    return runs


def _methods(runs: Runs) -> list[str]:
    return list(dict.fromkeys(method for methods in runs.values() for method in methods))


def _question(problem: str, methods: dict[str, list[Row]]) -> str:
    row = next(iter(methods.values()))[0]
    n = "∞" if row["num_samples"] is None else row["num_samples"]
    return (
        f"{problem}: d = {row['dimension']}, n = {n}, ε = {row['eps']:g}, γ = {row['gamma']:g}, at most "
        f"{row['max_samples']} samples a run."
    )


def spent(row: Row, what: str = "gradients") -> float:
    """What the run had spent at arrival, or infinity if it never arrived."""
    return float(row["arrived"][what]) if row["arrived"] else math.inf


def _both(row: Row) -> float:
    """IFO and ISO together."""
    return spent(row) + spent(row, "products")


def median(rows: Sequence[Row], what: str = "gradients") -> float:
    """The median over all seeds. A run that never arrives counts as infinity."""
    return statistics.median(spent(row, what) for row in rows)


# --- Tables ---------------------------------------------------------------------------------------------------------


def arrivals(runs: Runs) -> Table:
    """Samples to an (ε, γ)-point."""
    samples = ("arrived", "runs", "IFO, median", "least", "most", "ISO, median", "values, median")
    return Table(
        caption="Samples to an (ε, γ)-second-order stationary point",
        heads=("problem", "method", *samples, "told", "IFO when told", "false", "seconds to arrival, median"),
        rows=[_arrivals(problem, method, of) for problem, methods in runs.items() for method, of in methods.items()],
    )


def _arrivals(problem: str, method: str, rows: Sequence[Row]) -> list[Cell]:
    arrived = [row for row in rows if row["arrived"]]
    counts = [int(spent(row)) for row in arrived]
    told = None if method in BLIND else sum(row["claimed"] for row in rows)
    when = statistics.median(row["gradients"] if row["claimed"] else math.inf for row in rows)
    gradients, products, values = (_count(median(rows, what)) for what in ("gradients", "products", "values"))
    samples = (len(arrived), len(rows), gradients, min(counts, default=None), max(counts, default=None))
    false = None if told is None else sum(row["false_claim"] for row in rows)
    seconds = round(median(rows, "seconds"), 2) if math.isfinite(median(rows)) else None
    label, when_told = drawn_as(method).label, _count(when) if told else None
    return [problem, label, *samples, products, values, told, when_told, false, seconds]


def _count(number: float) -> Cell:
    """A rounded number. Infinity becomes a word, so that a failure does not look like a gap in the table."""
    return round(number) if math.isfinite(number) else "never"


def summary(runs: Runs) -> list[str]:
    """The table for a terminal: one line for each problem, fewest samples first."""
    lines = ["Median component gradients (+ Hessian products) to an (ε, γ)-point:"]
    for problem, methods in runs.items():
        ordered = sorted(methods.items(), key=lambda item: median(item[1]))
        lines.append(f"  {problem}: " + ", ".join(f"{method} {_spent(rows)}" for method, rows in ordered))
    return lines


def _spent(rows: Sequence[Row]) -> str:
    if not math.isfinite(median(rows)):
        return "never"
    products = median(rows, "products")
    return f"{median(rows):.0f}" + (f" + {products:.0f}" if products else "")


def statements(runs: Runs) -> Table:
    """Which method of a pair needs fewer samples, problem by problem."""
    lines: list[list[Cell]] = []
    for left, right in PAIRS:
        for problem, methods in runs.items():
            if left in methods and right in methods:
                a, b = (statistics.median(_both(row) for row in methods[m]) for m in (left, right))
                ratio = round(a / b, 3) if math.isfinite(a) and math.isfinite(b) else None
                fewer = None if math.isinf(a) and math.isinf(b) else a < b
                claim = f"{drawn_as(left).label} needs fewer samples than {drawn_as(right).label}"
                lines.append([claim, problem, fewer, _count(a), _count(b), ratio])
    return Table(
        caption="Pairs: is the median of IFO and ISO together lower?",
        heads=("statement", "problem", "holds", "first", "second", "ratio"),
        rows=lines,
    )


# --- Figures --------------------------------------------------------------------------------------------------------


def profiles(runs: Runs) -> Figure:
    """ρ(τ): the share of runs that take at most τ times the samples of the best method."""
    methods = _methods(runs)
    costs: dict[str, list[float]] = {method: [] for method in methods}
    for of_problem in runs.values():
        seeds = sorted({row["settings"]["seed"] for rows in of_problem.values() for row in rows})
        for seed, method in itertools.product(seeds, methods):
            own = [row for row in of_problem.get(method, []) if row["settings"]["seed"] == seed]
            costs[method].append(_both(own[0]) if own else math.inf)
    within = {method: profile(of_method) for method, of_method in ratios(costs).items()}
    farthest = max((factors[-1] for factors, _ in within.values()), default=1.0)
    with journal():
        figure, axis = new_figure(width=TWO_COLUMNS, height=3.4)
        for method, (factors, shares) in within.items():
            style = drawn_as(method).plot() | {"markevery": 1}
            axis.step([*factors, 2.0 * farthest], [*shares, shares[-1]], where="post", **style)
        axis.set(
            xscale="log",
            xlim=(0.95, 2.0 * farthest),
            ylim=(-0.02, 1.02),
            xlabel="factor τ over the fewest samples (IFO + ISO) of any method",
            ylabel="share of runs that arrive within τ",
        )
        legend_below(figure, axis, columns=5)
    count = len(next(iter(costs.values())))
    return Figure(
        caption=f"Performance profile over {count} runs (problems × seeds). Higher is better; at the left the share of "
        "runs that a method is the best of, at the right the share that it gets there at all. A method that cannot "
        "take a problem has not solved it.",
        name="compare-profile",
        figure=figure,
    )


def _middle(rows: Sequence[Row]) -> Row:
    """The run with the median arrival. If the median never arrives, runs are ordered by length."""
    ordered = sorted(rows, key=lambda row: (spent(row), row["gradients"]))
    return ordered[len(ordered) // 2]


def _curves(problem: str, methods: dict[str, list[Row]]) -> Figure:
    """F, ‖∇F‖ and λ_min against samples and time."""
    runs = {method: _middle(rows) for method, rows in methods.items()}
    values = [v for row in runs.values() for v in row["path"]["value"] if math.isfinite(v)]
    lowest, first = min(values), max(row["path"]["value"][0] for row in runs.values())
    floor = max(FLOOR * (first - lowest), 1e-300)
    any_run, longest = next(iter(runs.values())), [0.0, 0.0]
    with journal():
        figure, axes = new_figure(2, 3, width=TWO_COLUMNS, height=4.6, sharey="col")
        for method, row in runs.items():
            path = row["path"]
            samples = [max(1.0, g + h) for g, h in zip(path["gradients"], path["products"], strict=True)]
            gaps = itertools.accumulate((max(v - lowest, floor) for v in path["value"]), min)
            norms = [max(g, GRADIENT_FLOOR * row["eps"]) for g in path["gradient_norm"]]
            columns = [list(gaps), norms, path["lowest_curvature"]]
            longest = [max(old, new[-1]) for old, new in zip(longest, (samples, path["seconds"]), strict=True)]
            for across, line in zip((samples, path["seconds"]), axes, strict=True):
                for axis, y in zip(line, columns, strict=True):
                    # Some marks along a line tell it apart in grey; the large one at its end is arrival.
                    style: dict[str, Any] = drawn_as(method).plot() | {"lw": 1.0, "ms": 2.5, "markevery": 0.15}
                    axis.plot(across, y, **style)
                    if row["arrived"]:
                        mark, color = drawn_as(method).marker or "o", drawn_as(method).color
                        axis.plot(across[-1], y[-1], mark, color=color, ms=5, mew=1.3)
        for line, label, last in zip(axes, ("samples (IFO + ISO)", "processor time, s"), longest, strict=True):
            for axis in line:
                axis.set(xscale="log", xlabel=label, xlim=(last / SHOWN, 1.5 * last))
            line[0].set(yscale="log", ylabel="lowest F so far − lowest of all")
            line[1].set(yscale="log", ylabel="‖∇F‖")
            line[2].set(ylabel="λ_min(∇²F)")
            line[1].axhline(any_run["eps"], color="0.3", lw=0.7, ls=":")
            line[2].axhline(-any_run["gamma"], color="0.3", lw=0.7, ls=":")
        legend_below(figure, axes[0][0], columns=5)
    return Figure(
        caption=f"{problem}: the run of each method with the median arrival. The large mark at the end is arrival, at "
        "‖∇F‖ ≤ ε and λ_min ≥ −γ (dotted); a line without one ends where the run did. Gradients below "
        f"{GRADIENT_FLOOR:g}·ε are drawn there. What judging takes is not in the time.",
        name=f"compare-{slug(problem)}",
        figure=figure,
    )


def slug(problem: str) -> str:
    """A problem's name as part of a file's.

    >>> slug("u∘v, digits")
    'uv-digits'
    """
    return re.sub(r"[^a-z0-9]+", "-", problem.lower().replace("∘", "")).strip("-")
