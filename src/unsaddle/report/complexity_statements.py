"""Statements of the paper that the rows of `unsaddle complexity` make true or false."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from unsaddle.experiments.fits import Exponent
from unsaddle.experiments.rows import Row
from unsaddle.experiments.table_one import TABLE_ONE
from unsaddle.report.blocks import Cell, Table
from unsaddle.report.complexity_curves import LONG_VECTORS, Curves, count, ends, fit, median, ratio, step_time, sweeps
from unsaddle.report.style import drawn_as

BY_GAMMA = {"neon": 3.0, "neon+": 2.5, "auto": 2.5}
"""Exponents of 1/γ in T_n, the paper's samples of one extraction: 1/γ² samples times 1/γ steps of NEON, or 1/√γ of
NEON⁺. `auto` is `krylov`, which should do no worse than NEON⁺."""


def statements_of(rows: Sequence[Row]) -> Table:
    """The table of statements, each judged by the rows."""
    slope, one, gamma, dimension = sweeps(rows)
    lines = [*_about_dimension(dimension), *_about_eps(slope, one), *_about_gamma(gamma)]
    return Table(caption="Statements, judged by the rows", heads=("statement", "holds", "measured"), rows=lines)


def _about_eps(slope: Curves, one: Curves) -> list[list[Cell]]:
    lines: list[list[Cell]] = []
    first = "On the slope no row's component gradients grow faster than its bound (interval not wholly above it)"
    for what, claim in (("gradients", first), ("products", "The same of component Hessian products")):
        bounded = [(row, bound) for row in TABLE_ONE if (bound := getattr(row, what))]
        fitted = [(row, b, fit(slope.get((row.method, row.power, "auto")), count(what))) for row, b in bounded]
        above = [f"{row.name} ({f})" for row, bound, f in fitted if f.known and f.low > bound]
        known = sum(f.known for _, _, f in fitted)
        if known:
            beyond = f"; above: {', '.join(above)}" if above else ""
            lines.append([claim, not above, f"{known - len(above)} of {known} rows{beyond}"])
    keys = [(row.method, row.power) for row in TABLE_ONE]
    fits = {key: fit(slope.get((*key, "auto")), count("gradients")) for key in keys}
    lines += _slower(fits, ("neon-scsg", 0.5), ("neon-sgd", 0.5))
    lines += _slower(fits, ("neon-scsg", 0.5), ("noisy-sgd", 0.25))
    lines += _slower(fits, ("neon-svrg", 0.5), ("neon-scsg", 0.5))
    for name, key in (("noisy SGD", ("noisy-sgd", 0.25)), ("SGLD", ("sgld", 0.5)), ("NEON-SGD", ("neon-sgd", 0.5))):
        if fits[key].known:
            claim = f"On the slope {name} shows its ε⁻⁴: the exponent is within 0.5"
            lines.append([claim, abs(fits[key].value - 4.0) <= 0.5, str(fits[key])])
    simple = {key[0]: fit(curve, count("gradients")) for key, curve in one.items()}
    bounds = {row.method: row.gradients for row in TABLE_ONE if row.method in simple and row.gradients > 2.0}
    seen = [m for m, bound in bounds.items() if simple[m].known and simple[m].high >= bound]
    if bounds:
        worst = max((f.value for m, f in simple.items() if m in bounds and f.known), default=math.nan)
        claim = "On one function the bounds are visible (some interval reaches its bound)"
        reached = f"; reached by {', '.join(drawn_as(m).label for m in seen)}" if seen else ""
        lines.append([claim, bool(seen), f"largest exponent {worst:.2f}{reached}"])
    return lines


def _slower(
    fits: Mapping[tuple[str, float], Exponent], left: tuple[str, float], right: tuple[str, float]
) -> list[list[Cell]]:
    a, b = fits[left], fits[right]
    if not (a.known and b.known):
        return []
    ours, theirs = drawn_as(left[0]).label, drawn_as(right[0]).label
    claim = f"On the slope {ours} grows more slowly than {theirs} (intervals apart)"
    return [[claim, a.high < b.low, f"{a} against {b}"]]


def _about_gamma(gamma: Curves) -> list[list[Cell]]:
    lines: list[list[Cell]] = []
    for (method, _, extractor), curve in gamma.items():
        if method != "neon-scsg":
            continue
        fitted, bound = fit(curve, count("gradients")), BY_GAMMA[extractor]
        name = "krylov" if extractor == "auto" else extractor
        if fitted.known:
            claim = f"Leaving one saddle with {name} takes at most γ^−{bound:g} samples (interval not wholly above it)"
            lines.append([claim, fitted.low <= bound, str(fitted)])
    return lines


def _about_dimension(dimension: Curves) -> list[list[Cell]]:
    lines: list[list[Cell]] = []
    least, most = ends(dimension)
    logarithm = math.log(most) / math.log(least) if least > 1 else math.nan
    for (method, _, _), curve in dimension.items():
        growth, label = ratio(curve, count("calls")), drawn_as(method).label
        claim = f"The steps of {label} grow at most as ln d does, {logarithm:.2f} times from d = {least} to {most}"
        known = math.isfinite(growth)
        lines.append([claim, known and growth <= logarithm, f"{growth:.2f} times" if known else "some never arrived"])
    for method in ("neon-scsg", "neon-sgd"):
        times = step_time(dimension.get((method, None, "auto"), {}))
        if times.known:
            name = drawn_as(method).label
            claim = f"The time of a step of {name} is linear in d from {LONG_VECTORS} on: exponent 1 ± 0.25"
            lines.append([claim, abs(times.value - 1.0) <= 0.25, str(times)])
    for method in ("noisy-sgd", "sgld"):
        theirs = dimension.get((method, None, "auto"))
        samples = fit(theirs, count("gradients"))
        if samples.known:
            claim = f"The d^p, p ≥ 4, of {drawn_as(method).label} is visible (interval reaches 4)"
            lines.append([claim, samples.high >= 4.0, f"p = {samples}"])
        ours = dimension.get(("neon-scsg", None, "auto"))
        if theirs and ours:
            fewer = [d for d in theirs if d in ours and median(ours[d]) < median(theirs[d])]
            claim = f"NEON-SCSG needs fewer component gradients than {drawn_as(method).label} at every d"
            lines.append([claim, len(fewer) == len(theirs), f"{len(fewer)} of {len(theirs)} dimensions"])
    return lines
