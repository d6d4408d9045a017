"""The sections of `unsaddle complexity`: fitted exponents beside the paper's, and what they do and do not show."""

from __future__ import annotations

import math
from collections.abc import Sequence

from unsaddle.experiments.fits import Exponent
from unsaddle.experiments.rows import Row
from unsaddle.experiments.table_one import TABLE_ONE
from unsaddle.report.blocks import Cell, Section, Table
from unsaddle.report.complexity_curves import LONG_VECTORS, Curves, count, ends, fit, median, ratio, step_time, sweeps
from unsaddle.report.complexity_figures import figures
from unsaddle.report.complexity_statements import BY_GAMMA, statements_of
from unsaddle.report.style import drawn_as


def sections(rows: Sequence[Row]) -> list[Section]:
    """The sections of the page."""
    slope, one, gamma, dimension = sweeps(rows)
    return [
        Section(
            title="Table 1, measured",
            paragraphs=[
                "Samples to an (ε, γ)-second-order stationary point on functions whose constants are known: L1 = V = "
                "1, L2 ≤ 1. A run is stopped when it arrives, which is judged outside of it. Methods are told L1 and "
                "choose everything else themselves. Exponents are slopes of straight lines through logarithms, one "
                "line through all seeds, with 95 % intervals; “missing” runs never arrived, and the points they belong "
                "to are left out of the fit.",
                "A bound is about the worst function for each ε. The slope is such a family for first-order steps: a "
                "way down with ‖∇F‖ just above ε for as long as F(x0) − min F = 1 allows, on the ridge of a saddle "
                "that has to be left at its end. “One function” is the same function for every ε.",
                "An exponent below the paper's is no contradiction: bounds are from above, and rest on settings that "
                "nobody could run. These are the practical settings, in which SNCG, for one, looks for negative "
                "curvature every ten steps rather than when it must.",
            ],
            tables=[statements_of(rows), table_one(slope, one), by_gamma(gamma), by_dimension(dimension)],
            figures=figures(slope, one, gamma, dimension),
        )
    ]


def _cells(fitted: Exponent) -> list[Cell]:
    return [_rounded(v, 2) for v in (fitted.value, fitted.low, fitted.high)]


def _rounded(number: float, digits: int) -> Cell:
    return round(number, digits) if math.isfinite(number) else None


def _median(runs: Sequence[Row]) -> Cell:
    """The median of component gradients, or a word if most runs never arrived."""
    middle = median(runs)
    return round(middle) if math.isfinite(middle) else "never"


def table_one(slope: Curves, one: Curves) -> Table:
    """Exponents of 1/ε, measured and the paper's."""
    lines: list[list[Cell]] = []
    for row in TABLE_ONE:
        curve = slope.get((row.method, row.power, "auto"))
        if curve is None:
            continue
        gradients, products = fit(curve, count("gradients")), fit(curve, count("products"))
        simple = fit(one.get((row.method, None, "auto")), count("gradients"))
        paper = (row.name, f"ε^{row.power:.3g}", row.bound, round(row.gradients, 2))
        isos = _cells(products) if row.products is not None else [None] * 3
        lines.append([*paper, *_cells(gradients), row.products, *isos, *_cells(simple), gradients.missing])
    exponents = ("IFO, paper", "IFO, slope", "from", "to", "ISO, paper", "ISO, slope", "from", "to")
    return Table(
        caption="Exponents of 1/ε: the paper's, on the slope, and on one function",
        heads=("row", "γ ~", "the paper's bound", *exponents, "IFO, one function", "from", "to", "missing"),
        rows=lines,
    )


def by_gamma(gamma: Curves) -> Table:
    """Exponents of 1/γ at one saddle."""
    lines: list[list[Cell]] = []
    for (method, _, extractor), curve in gamma.items():
        gradients, products = fit(curve, count("gradients")), fit(curve, count("products"))
        name = drawn_as(method).label + ("" if extractor == "auto" else f", extractor {extractor}")
        paper = BY_GAMMA[extractor] if method.startswith("neon-") else None
        lines.append([name, paper, *_cells(gradients), *_cells(products), gradients.missing])
    return Table(
        caption="Exponents of 1/γ: one saddle of curvature −2γ, ε = 0.1, d = 100",
        heads=("method", "IFO of an extraction, paper", "IFO", "from", "to", "ISO", "from", "to", "missing"),
        rows=lines,
    )


def by_dimension(dimension: Curves) -> Table:
    """What grows with d."""
    lines: list[list[Cell]] = []
    for (method, _, _), curve in dimension.items():
        steps, times = fit(curve, count("calls")), step_time(curve)
        samples = (
            _median(curve[min(curve)]),
            _median(curve[max(curve)]),
            _rounded(ratio(curve, count("gradients")), 2),
        )
        whole = _rounded(ratio(curve, count("seconds")), 1)
        lines.append([drawn_as(method).label, *samples, *_cells(steps), *_cells(times), whole])
    least, most = ends(dimension)
    medians = (f"IFO at d = {least}", f"IFO at d = {most}", "ratio")
    exponents = ("calls ~ d^", "from", "to", "time of a call ~ d^", "from", "to")
    return Table(
        caption=f"d from {least} to {most}: samples, exponents of d in oracle calls, and, from d = {LONG_VECTORS} on, "
        "in the time of a call",
        heads=("method", *medians, *exponents, "ratio of whole times"),
        rows=lines,
    )
