"""What the paper says that `unsaddle complexity` can see, each true or false as its rows have it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from unsaddle.experiments.fits import Exponent
from unsaddle.experiments.rows import Row
from unsaddle.experiments.table_one import TABLE_ONE
from unsaddle.report.blocks import Cell, Table
from unsaddle.report.complexity_curves import (
    LONG_VECTORS,
    SWEEPS,
    Curve,
    Key,
    count,
    curves,
    ends,
    fit,
    long_vectors,
    ratio,
    step_time,
)
from unsaddle.report.style import drawn_as

BY_GAMMA = {"neon": 3.0, "neon+": 2.5, "auto": 2.5}
"""T_n, the paper's samples of one extraction: 1/γ² samples times 1/γ steps of NEON or 1/√γ of NEON⁺; `krylov`, which
`auto` is, should do no worse than the latter."""


def statements_of(rows: Sequence[Row]) -> Table:
    """What the paper says that can be seen here, true or false as computed from the rows."""
    slope, one, gamma, dimension = (curves(rows, name) for name in SWEEPS)
    lines = [*_about_dimension(dimension), *_about_eps(slope, one), *_about_gamma(gamma)]
    return Table(caption="Statements, judged by the rows", heads=("statement", "holds", "measured"), rows=lines)


def _about_eps(slope: Mapping[Key, Curve], one: Mapping[Key, Curve]) -> list[list[Cell]]:
    lines: list[list[Cell]] = []
    fits = {
        (row.method, row.power): fit(slope.get((row.method, row.power, "auto")), count("gradients"))
        for row in TABLE_ONE
    }
    known = [(row, fits[row.method, row.power]) for row in TABLE_ONE if fits[row.method, row.power].known]
    if known:
        above = [f"{row.name} ({f})" for row, f in known if f.low > row.gradients]
        lines.append(
            [
                "On the slope no row's component gradients grow faster than its bound (interval not wholly above it)",
                not above,
                f"{len(known) - len(above)} of {len(known)} rows" + (f"; above: {', '.join(above)}" if above else ""),
            ]
        )
    isos = [
        (row, fit(slope.get((row.method, row.power, "auto")), count("products"))) for row in TABLE_ONE if row.products
    ]
    isos = [(row, f) for row, f in isos if f.known]
    if isos:
        above = [f"{row.name} ({f})" for row, f in isos if row.products is not None and f.low > row.products]
        lines.append(
            [
                "The same of component Hessian products",
                not above,
                f"{len(isos) - len(above)} of {len(isos)} rows" + (f"; above: {', '.join(above)}" if above else ""),
            ]
        )
    lines += _slower(fits, ("neon-scsg", 0.5), ("neon-sgd", 0.5))
    lines += _slower(fits, ("neon-scsg", 0.5), ("noisy-sgd", 0.25))
    lines += _slower(fits, ("neon-svrg", 0.5), ("neon-scsg", 0.5))
    for name, key in (("noisy SGD", ("noisy-sgd", 0.25)), ("SGLD", ("sgld", 0.5)), ("NEON-SGD", ("neon-sgd", 0.5))):
        if fits[key].known:
            lines.append(
                [
                    f"On the slope {name} shows its ε⁻⁴: the exponent is within 0.5",
                    abs(fits[key].value - 4.0) <= 0.5,
                    str(fits[key]),
                ]
            )
    simple = {key[0]: fit(curve, count("gradients")) for key, curve in one.items()}
    bounds = {row.method: row.gradients for row in TABLE_ONE if row.method in simple and row.gradients > 2.0}
    seen = [m for m, bound in bounds.items() if simple[m].known and simple[m].high >= bound]
    if bounds:
        worst = max((f.value for m, f in simple.items() if m in bounds and f.known), default=math.nan)
        lines.append(
            [
                "On one function the bounds are visible (some interval reaches its bound)",
                bool(seen),
                f"largest exponent {worst:.2f}"
                + (f"; reached by {', '.join(drawn_as(m).label for m in seen)}" if seen else ""),
            ]
        )
    return lines


def _slower(
    fits: Mapping[tuple[str, float], Exponent], left: tuple[str, float], right: tuple[str, float]
) -> list[list[Cell]]:
    a, b = fits[left], fits[right]
    if not (a.known and b.known):
        return []
    claim = (
        f"On the slope {drawn_as(left[0]).label} grows more slowly than {drawn_as(right[0]).label} (intervals apart)"
    )
    return [[claim, a.high < b.low, f"{a} against {b}"]]


def _about_gamma(gamma: Mapping[Key, Curve]) -> list[list[Cell]]:
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


def _about_dimension(dimension: Mapping[Key, Curve]) -> list[list[Cell]]:
    lines: list[list[Cell]] = []
    least, most = ends(dimension)
    logarithm = math.log(most) / math.log(least) if least > 1 else math.nan
    for (method, _, _), curve in dimension.items():
        growth, label = ratio(curve, count("calls")), drawn_as(method).label
        claim = f"The steps of {label} grow at most as ln d does, {logarithm:.2f} times from d = {least} to {most}"
        known = math.isfinite(growth)
        lines.append([claim, known and growth <= logarithm, f"{growth:.2f} times" if known else "some never arrived"])
    for method in ("neon-scsg", "neon-sgd"):
        times = fit(long_vectors(dimension.get((method, None, "auto"), {})), step_time)
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
            fewer = [d for d in theirs if d in ours and _median(ours[d]) < _median(theirs[d])]
            claim = f"NEON-SCSG needs fewer component gradients than {drawn_as(method).label} at every d"
            lines.append([claim, len(fewer) == len(theirs), f"{len(fewer)} of {len(theirs)} dimensions"])
    return lines


def _median(runs: Sequence[Row]) -> float:
    return statistics.median(count("gradients")(row) for row in runs)
