"""Statements of the paper that the rows of `unsaddle complexity` make true or false."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from unsaddle.experiments.fits import Exponent
from unsaddle.experiments.rows import Row
from unsaddle.experiments.table_one import OF_THE_PAPER, TABLE_ONE, name_of
from unsaddle.report.blocks import Cell, Table
from unsaddle.report.complexity_curves import (
    LONG_VECTORS,
    Curves,
    Key,
    count,
    ends,
    fit,
    median,
    ratio,
    step_time,
    sweeps,
)
from unsaddle.theory import rates

NOISY_SGD: Key = ("noisy-sgd", 0.25, None)
SGLD: Key = ("sgld", 0.5, None)
NEON_SGD: Key = ("neon-sgd", 0.5, "neon+")
NEON_SCSG: Key = ("neon-scsg", 0.5, "neon+")
NEON_SVRG: Key = ("svrg-hessian", 0.5, "neon+")


def statements_of(rows: Sequence[Row]) -> Table:
    """The table of statements, each judged by the rows."""
    slope, one, gamma, dimension = sweeps(rows)
    lines = [*_about_dimension(dimension), *_about_eps(slope, one), *_about_gamma(gamma), *_about_claims(rows)]
    return Table(caption="Statements, judged by the rows", heads=("statement", "holds", "measured"), rows=lines)


def exponents_of(rows: Sequence[Row]) -> list[str]:
    """A line for each curve: what ran, and the exponent of its component gradients (of d: of its calls) with 95 %."""
    bounds: dict[Key, float | None] = {(row.method, row.power, row.extractor): row.gradients for row in TABLE_ONE}
    lines: list[str] = []
    of = {"1/ε, slope": "gradients", "1/ε, one function": "gradients", "1/γ": "gradients", "d": "calls"}
    for sweep, found in zip(of, sweeps(rows), strict=True):
        for key, curve in found.items():
            bound, power = bounds.get(key), "" if key[1] is None else f", γ ~ ε^{key[1]:.3g}"
            beside = "" if bound is None else f", bound {bound:.3g}"
            lines.append(f"exponent of {sweep}: {fit(curve, count(of[sweep]))}{beside}  {_name(key)}{power}")
    return lines


def _about_eps(slope: Curves, one: Curves) -> list[list[Cell]]:
    lines: list[list[Cell]] = []
    first = "On the slope no row's component gradients grow faster than its bound (interval not wholly above it)"
    for what, claim in (("gradients", first), ("products", "The same of component Hessian products")):
        bounded = [(row, bound) for row in TABLE_ONE if (bound := getattr(row, what))]
        fitted = [(row, b, fit(slope.get((row.method, row.power, row.extractor)), count(what))) for row, b in bounded]
        above = [f"{row.name} ({f})" for row, bound, f in fitted if f.known and f.low > bound]
        known = sum(f.known for _, _, f in fitted)
        if known:
            beyond = f"; above: {', '.join(above)}" if above else ""
            lines.append([claim, not above, f"{known - len(above)} of {known} rows{beyond}"])
    fits = {key: fit(slope.get(key), count("gradients")) for key in (NOISY_SGD, SGLD, NEON_SGD, NEON_SCSG, NEON_SVRG)}
    lines += _slower(fits, NEON_SCSG, NEON_SGD)
    lines += _slower(fits, NEON_SCSG, NOISY_SGD)
    lines += _slower(fits, NEON_SVRG, NEON_SCSG)
    for key in (NOISY_SGD, SGLD, NEON_SGD):
        if fits[key].known:
            claim = f"On the slope {_name(key)} shows its ε⁻⁴: the exponent is within 0.5"
            lines.append([claim, abs(fits[key].value - 4.0) <= 0.5, str(fits[key])])
    simple = {key: fit(curve, count("gradients")) for key, curve in one.items()}
    bound_of: dict[Key, float | None] = {
        (row.method, None, row.extractor): row.gradients for row in reversed(TABLE_ONE)
    }
    bounds = {key: bound for key in simple if (bound := bound_of[key]) is not None and bound > 2.0}
    seen = [key for key, bound in bounds.items() if simple[key].known and simple[key].high >= bound]
    if bounds:
        worst = max((simple[key].value for key in bounds if simple[key].known), default=math.nan)
        claim = "On one function the bounds are visible (some interval reaches its bound)"
        reached = f"; reached by {'; '.join(_name(key) for key in seen)}" if seen else ""
        lines.append([claim, bool(seen), f"largest exponent {worst:.2f}{reached}"])
    return lines


def _name(key: Key) -> str:
    return name_of(key[0], key[2])


def _slower(fits: Mapping[Key, Exponent], left: Key, right: Key) -> list[list[Cell]]:
    a, b = fits[left], fits[right]
    if not (a.known and b.known):
        return []
    claim = f"On the slope {_name(left)}, grows more slowly than {_name(right)} (intervals apart)"
    return [[claim, a.high < b.low, f"{a} against {b}"]]


def _about_gamma(gamma: Curves) -> list[list[Cell]]:
    lines: list[list[Cell]] = []
    for key, curve in gamma.items():
        extractor = key[2]
        if extractor not in OF_THE_PAPER:
            continue
        fitted, bound = fit(curve, count("gradients")), float(rates.extraction_in_gamma(extractor))
        if fitted.known:
            claim = f"{_name(key)}: leaving one saddle takes at most γ^−{bound:g} samples (interval not wholly above)"
            lines.append([claim, fitted.low <= bound, str(fitted)])
    return lines


def _about_dimension(dimension: Curves) -> list[list[Cell]]:
    lines: list[list[Cell]] = []
    least, most = ends(dimension)
    logarithm = math.log(most) / math.log(least) if least > 1 else math.nan
    for key, curve in dimension.items():
        growth = ratio(curve, count("calls"))
        claim = f"{_name(key)}: steps grow at most as ln d does, {logarithm:.2f} times from d = {least} to {most}"
        known = math.isfinite(growth)
        lines.append([claim, known and growth <= logarithm, f"{growth:.2f} times" if known else "some never knew"])
    for key, curve in dimension.items():
        times = step_time(curve)
        if key[2] in OF_THE_PAPER and times.known:
            claim = f"{_name(key)}: a step takes time that grows no faster than d from {LONG_VECTORS} on (not above 1)"
            lines.append([claim, times.low <= 1.0, str(times)])
    for key in (("noisy-sgd", None, None), ("sgld", None, None)):
        theirs = dimension.get(key)
        samples = fit(theirs, count("gradients"))
        if samples.known:
            claim = f"The d^p, p ≥ 4, of {_name(key)} is visible (interval reaches 4)"
            lines.append([claim, samples.high >= 4.0, f"p = {samples}"])
        for extractor in OF_THE_PAPER:
            ours = dimension.get(("neon-scsg", None, extractor))
            if theirs and ours:
                fewer = [d for d in theirs if d in ours and median(ours[d]) < median(theirs[d])]
                name = name_of("neon-scsg", extractor)
                claim = f"{name}, knows on fewer component gradients than {_name(key)} arrives on, at every d"
                lines.append([claim, len(fewer) == len(theirs), f"{len(fewer)} of {len(theirs)} dimensions"])
    return lines


def _about_claims(rows: Sequence[Row]) -> list[list[Cell]]:
    told = [row for row in rows if row["counted_to"] == "knowledge"]
    wrong, silent = sum(row["false_claim"] for row in told), sum(not row["counted"] for row in told)
    claim = "Every run that can know ended by itself, at a second-order stationary point"
    return [[claim, not silent, f"{len(told) - silent} of {len(told)} runs; {wrong} wrong claims"]] if told else []
