"""Rows of `unsaddle complexity` as curves, and their exponents."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence

from unsaddle.experiments.fits import Exponent, exponent
from unsaddle.experiments.rows import Row

LONG_VECTORS = 10_000
"""From this d on, vectors take most of a step's time, and the interpreter little of it."""

Curve = dict[float, list[Row]]
"""Runs by ε⁻¹, γ⁻¹ or d."""

Key = tuple[str, float | None, str | None]
"""The method, the power q of γ ~ ε^q, and the extractor; None for a method with its own, or with none."""

Curves = Mapping[Key, Curve]


def sweeps(rows: Sequence[Row]) -> list[dict[Key, Curve]]:
    """The curves over ε on the slope, over ε on one function, over γ, and over d."""
    return [curves(rows, name) for name in ("slope", "one function", "gamma", "dimension")]


def curves(rows: Sequence[Row], sweep: str) -> dict[Key, Curve]:
    """The curves of a sweep: its runs, sorted by ε⁻¹, γ⁻¹ or d."""
    found: dict[Key, Curve] = {}
    for row in rows:
        s = row["settings"]
        if s["sweep"] != sweep:
            continue
        x = s["dimension"] if sweep == "dimension" else 1.0 / s["gamma"] if sweep == "gamma" else 1.0 / s["eps"]
        found.setdefault((s["method"], s["power"], s["extractor"]), {}).setdefault(x, []).append(row)
    return {key: dict(sorted(curve.items())) for key, curve in found.items()}


def count(what: str) -> Callable[[Row], float]:
    """A function of a row: what the run had spent when it knew, or infinity if it never did.

    Of noisy SGD and SGLD, which never know: when it arrived.
    """
    return lambda row: float(row[what]) if row["counted"] else math.inf


def arrival(row: Row) -> float:
    """Component gradients at arrival, or infinity if the run never arrived."""
    return math.inf if row["arrival"] is None else float(row["arrival"])


def median(runs: Sequence[Row]) -> float:
    """The median of component gradients until it was known."""
    return statistics.median(count("gradients")(row) for row in runs)


def fit(curve: Mapping[float, Sequence[Row]] | None, of: Callable[[Row], float]) -> Exponent:
    """The exponent of a curve; unknown if there is no curve."""
    return exponent({x: [of(row) for row in runs] for x, runs in (curve or {}).items()})


def ratio(curve: Curve, of: Callable[[Row], float]) -> float:
    """The median at the last point over that at the first."""
    first, last = (statistics.median(of(row) for row in curve[x]) for x in (min(curve), max(curve)))
    return last / first if math.isfinite(first) and first > 0.0 else math.nan


def step_time(curve: Curve) -> Exponent:
    """The exponent of d in the time of an oracle call, the method's own work included, from `LONG_VECTORS` on."""
    long = {d: runs for d, runs in curve.items() if d >= LONG_VECTORS}
    return fit(long, lambda row: float(row["seconds"] / row["calls"]))


def ends(dimension: Curves) -> tuple[int, int]:
    """The least and the largest d."""
    every = [int(d) for curve in dimension.values() for d in curve] or [0]
    return min(every), max(every)
