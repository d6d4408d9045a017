"""The sections of `unsaddle complexity`: fitted exponents beside the paper's, and what they do and do not show."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from unsaddle.experiments.fits import Exponent
from unsaddle.experiments.rows import Row
from unsaddle.experiments.table_one import OF_THE_PAPER, TABLE_ONE, name_of
from unsaddle.report.blocks import Cell, Section, Table
from unsaddle.report.complexity_curves import (
    LONG_VECTORS,
    Curves,
    arrival,
    count,
    ends,
    fit,
    median,
    ratio,
    step_time,
    sweeps,
)
from unsaddle.report.complexity_figures import figures
from unsaddle.report.complexity_statements import statements_of
from unsaddle.theory import rates


def sections(rows: Sequence[Row]) -> list[Section]:
    """The sections of the page."""
    slope, one, gamma, dimension = sweeps(rows)
    return [
        Section(
            title="Table 1, measured",
            paragraphs=[
                "Samples to an (ε, γ)-second-order stationary point on functions whose constants are known: L1 = V = "
                "1, L2 ≤ 1. A run goes on until it knows: its own last extraction, which says “nothing”, is paid for. "
                "Arrival is judged outside of it, and stands beside. Noisy SGD and SGLD never know, and are counted to "
                "arrival. Methods are told L1 and choose everything else themselves. Exponents are slopes of straight "
                "lines through logarithms, one line through all seeds, with 95 % intervals; “missing” runs never knew, "
                "and the points they belong to are left out of the fit.",
                "Each row is named for what ran. NEON rows have NEON⁺ (Algorithm 2), NEON (Algorithm 1) or krylov "
                "inside; krylov is what “auto” takes, and no part of the paper, so no bound stands beside it. Bounds "
                "are derived from what each method takes (theory/rates.py). The last rows, Algorithm 4 around "
                "Natasha1.5 and around SVRG, are ours.",
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
    """The median of component gradients, or a word if most runs never knew."""
    middle = median(runs)
    return round(middle) if math.isfinite(middle) else "never"


def _counted_to(curve: Mapping[float, Sequence[Row]]) -> str:
    return str(next(row["counted_to"] for runs in curve.values() for row in runs))


def table_one(slope: Curves, one: Curves) -> Table:
    """Exponents of 1/ε, measured and derived."""
    lines: list[list[Cell]] = []
    for row in TABLE_ONE:
        curve = slope.get((row.method, row.power, row.extractor))
        if curve is None:
            continue
        gradients, products = fit(curve, count("gradients")), fit(curve, count("products"))
        simple = fit(one.get((row.method, None, row.extractor)), count("gradients"))
        bound = (row.name, f"ε^{row.power:.3g}", row.bound, None if row.gradients is None else round(row.gradients, 2))
        isos = _cells(products) if row.products is not None else [None] * 3
        arrived = _rounded(fit(curve, arrival).value, 2)
        ending = (_counted_to(curve), gradients.missing)
        lines.append([*bound, *_cells(gradients), arrived, row.products, *isos, *_cells(simple), *ending])
    exponents = ("IFO, bound", "IFO, slope", "from", "to", "to arrival", "ISO, bound", "ISO, slope", "from", "to")
    return Table(
        caption="Exponents of 1/ε: of the bound, on the slope, and on one function",
        heads=("row", "γ ~", "bound", *exponents, "IFO, one function", "from", "to", "counted to", "missing"),
        rows=lines,
    )


def by_gamma(gamma: Curves) -> Table:
    """Exponents of 1/γ at one saddle."""
    lines: list[list[Cell]] = []
    for (method, _, extractor), curve in gamma.items():
        gradients, products = fit(curve, count("gradients")), fit(curve, count("products"))
        paper = float(rates.extraction_in_gamma(extractor)) if extractor in OF_THE_PAPER else None
        arrived = _rounded(fit(curve, arrival).value, 2)
        start = (name_of(method, extractor), paper, *_cells(gradients), arrived)
        lines.append([*start, *_cells(products), _counted_to(curve), gradients.missing])
    exponents = ("IFO", "from", "to", "to arrival", "ISO", "from", "to")
    return Table(
        caption="Exponents of 1/γ: one saddle of curvature −2γ, ε = 0.1, d = 100",
        heads=("row", "IFO of an extraction, paper", *exponents, "counted to", "missing"),
        rows=lines,
    )


def by_dimension(dimension: Curves) -> Table:
    """What grows with d."""
    lines: list[list[Cell]] = []
    for (method, _, extractor), curve in dimension.items():
        steps, times = fit(curve, count("calls")), step_time(curve)
        samples = (_median(curve[min(curve)]), _median(curve[max(curve)]), _rounded(ratio(curve, count("calls")), 2))
        whole = _rounded(ratio(curve, count("seconds")), 1)
        lines.append([name_of(method, extractor), *samples, *_cells(steps), *_cells(times), whole, _counted_to(curve)])
    least, most = ends(dimension)
    medians = (f"IFO at d = {least}", f"IFO at d = {most}", "ratio of calls")
    exponents = ("calls ~ d^", "from", "to", "time of a call ~ d^", "from", "to")
    return Table(
        caption=f"d from {least} to {most}: samples, exponents of d in oracle calls, and, from d = {LONG_VECTORS} on, "
        "in the time of a call",
        heads=("row", *medians, *exponents, "ratio of whole times", "counted to"),
        rows=lines,
    )
