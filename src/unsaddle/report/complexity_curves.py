"""Rows of `unsaddle complexity` as curves, and their exponents."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence

from unsaddle.experiments.fits import Exponent, exponent
from unsaddle.experiments.rows import Row

SWEEPS = ("slope", "one function", "gamma", "dimension")

LONG_VECTORS = 10_000
"""From this d on, a step's time is that of its vectors rather than of the interpreter."""

Curve = dict[float, list[Row]]
"""Runs by ε⁻¹, γ⁻¹ or d."""

Key = tuple[str, float | None, str]
"""Method, power of ε that γ is, extractor."""


def curves(rows: Sequence[Row], sweep: str) -> dict[Key, Curve]:
    """The runs of a sweep, by what varies between curves and by what varies along them."""
    found: dict[Key, Curve] = {}
    for row in rows:
        s = row["settings"]
        if s["sweep"] != sweep:
            continue
        x = s["dimension"] if sweep == "dimension" else 1.0 / s["gamma"] if sweep == "gamma" else 1.0 / s["eps"]
        found.setdefault((s["method"], s["power"], s["extractor"]), {}).setdefault(x, []).append(row)
    return {key: dict(sorted(curve.items())) for key, curve in found.items()}


def count(what: str) -> Callable[[Row], float]:
    """Of a run: what it had spent at arrival, infinite where there was none."""
    return lambda row: float(row[what]) if row["arrived"] else math.inf


def step_time(row: Row) -> float:
    """Seconds an oracle call, with all that the method does around it."""
    return float(row["seconds"] / row["calls"])


def fit(curve: Mapping[float, Sequence[Row]] | None, of: Callable[[Row], float]) -> Exponent:
    """The exponent of a curve; unknown where there is none."""
    return exponent({x: [of(row) for row in runs] for x, runs in (curve or {}).items()})


def ratio(curve: Curve, of: Callable[[Row], float]) -> float:
    """The median at the last point over that at the first."""
    first, last = (statistics.median(of(row) for row in curve[x]) for x in (min(curve), max(curve)))
    return last / first if math.isfinite(first) and first > 0.0 else math.nan


def long_vectors(curve: Curve) -> Curve:
    """The part at which a time is that of vectors."""
    return {d: runs for d, runs in curve.items() if d >= LONG_VECTORS}


def ends(dimension: Mapping[Key, Curve]) -> tuple[int, int]:
    """The least and the largest d."""
    every = [int(d) for curve in dimension.values() for d in curve] or [0]
    return min(every), max(every)
