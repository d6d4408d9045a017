"""The paper's observations on its Figure 1, as statements that the rows make true or false.

"(i) NEON performs similarly to the Power method (the two curves overlap in the figure); (ii) NEON⁺ has a faster
convergence than NEON; (iv) the stochastic versions of NEON and NEON⁺ can quickly find a good NC directions than their
full versions in terms of IFO complexity and are even competitive with the Lanczos method." There is no (iii) (E30). And
of the figure: "NEON⁺st in Figure 1 (b) terminates earlier due to that NCFind is executed".

We chose how to measure them. Curves overlap if they differ by at most 5 % of |λ_min| until the power method has reached
90 % of λ_min. A direction is good at half of λ_min. The speed of a method is measured at 90 % of its own lowest
curvature. It is competitive if it takes at most twice as many calls as Lanczos to the same curvature. A statement is
true if it is true at every target.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from unsaddle.experiments.rows import Row

OVERLAP, NEARLY, GOOD, COMPETITIVE = 0.05, 0.9, 0.5, 2.0


@dataclass(frozen=True, kw_only=True)
class Observation:
    """A statement, and what was measured at each target."""

    item: str
    """The paper's number, such as (i)."""
    statement: str
    quantity: str
    """The measured quantity and its limit, in words."""
    measured: dict[int, float]
    """The measured number at each target."""
    at_most: float = math.inf
    at_least: float = -math.inf

    @property
    def holds(self) -> dict[int, bool]:
        """At each target, whether the measured number is within its limits."""
        return {target: self.at_least <= value <= self.at_most for target, value in self.measured.items()}

    @property
    def true(self) -> bool:
        """Whether the statement holds at every target."""
        return all(self.holds.values())

    @property
    def count(self) -> str:
        """The number of targets at which the statement holds, in words."""
        return f"{sum(self.holds.values())} of {len(self.holds)}"

    @property
    def spread(self) -> str:
        """Median, smallest and largest."""
        values = sorted(self.measured.values())
        low, high = (_number(value) for value in (values[0], values[-1]))
        middle = _number(float(np.median(values)))
        return middle if len(values) == 1 else f"{middle} ({low} to {high})"

    def __str__(self) -> str:
        verdict = "true " if self.true else "FALSE"
        return f"  {verdict} {self.item:>4} {self.statement}: {self.quantity}: {self.spread}, at {self.count} targets"


def _number(value: float) -> str:
    return "never" if math.isinf(value) else f"{value:.2g}"


Curves = dict[str, Row]


def judged(rows: Sequence[Row]) -> list[Observation]:
    """Every statement on the targets of `rows`, which are all of one data set."""
    targets: dict[int, Curves] = {}
    for row in rows:
        targets.setdefault(row["settings"]["target"], {})[row["settings"]["method"]] = row
    observations: list[Observation] = []

    def observe(
        item: str, statement: str, quantity: str, methods: Sequence[str], measure: Measure, **limits: float
    ) -> None:
        """`measure` is given the curves of `methods` and λ_min."""
        measured = {
            target: measure(*(curves[method] for method in methods), lowest(curves))
            for target, curves in targets.items()
            if {*methods, "lanczos"} <= curves.keys()
        }
        if measured:
            observations.append(
                Observation(item=item, statement=statement, quantity=quantity, measured=measured, **limits)
            )

    overlaps, faster = "NEON overlaps the power method", "NEON⁺ converges faster than NEON"
    short = "if the noise is 100 times shorter"
    gap = f"largest distance as a share of |λ_min|, until Power is at {NEARLY:.0%} of λ_min; at most {OVERLAP:g}"
    observe("(i)", overlaps, gap, ("neon", "power"), distance, at_most=OVERLAP)
    observe("(i)", f"{overlaps} {short}", gap, ("neon-short", "power"), distance, at_most=OVERLAP)
    for suffix, addition in (("", ""), ("-short", f" {short}")):
        observe(
            "(ii)",
            faster + addition,
            f"iterations to {NEARLY:.0%} of its lowest curvature over those of NEON; below 1",
            (f"neon+{suffix}", f"neon{suffix}"),
            functools.partial(quickness, axis="iterations"),
            at_most=BELOW_ONE,
        )
    for full, name in (("neon", "NEON"), ("neon+", "NEON⁺")):
        own = f"{full}-st"
        observe(
            "(iv)",
            f"{name}st finds a good direction",
            f"lowest curvature as a share of λ_min; at least {GOOD:g}",
            (own,),
            lambda row, lowest: min(row["quotient"]) / lowest,
            at_least=GOOD,
        )
        for statement, whose, other, limit in (
            (f"{name}st is quicker than {name}", f"those of {name}", full, BELOW_ONE),
            (f"{name}st competes with Lanczos", "those of Lanczos", "lanczos", COMPETITIVE),
        ):
            wanted = "below 1" if limit < 1.0 else f"at most {limit:g}"
            quantity = f"calls to {NEARLY:.0%} of its lowest curvature over {whose}; {wanted}"
            observe("(iv)", statement, quantity, (own, other), quickness, at_most=limit)
    observe(
        "Fig.",
        "NEON⁺st terminates earlier since NCFind is executed",
        "the iteration at which it is; at all",
        ("neon+-st",),
        lambda row, lowest: math.inf if row["ncfind"] is None else float(row["ncfind"]["iterations"]),
        at_most=sys.float_info.max,
    )
    return observations


Measure = Callable[..., float]
BELOW_ONE = math.nextafter(1.0, 0.0)


def lowest(curves: Curves) -> float:
    """λ_min, from the Lanczos run, which never stops early."""
    return float(curves["lanczos"]["lowest"])


def first_at(row: Row, axis: str, level: float) -> float:
    """The first iteration or sample at which a curve is at or below `level`; inf if it never is."""
    pairs = zip(row[axis], row["quotient"], strict=True)
    return next((float(place) for place, quotient in pairs if quotient <= level), math.inf)


def ratio(row: Row, other: Row, axis: str, level: float) -> float:
    """A curve's iterations or samples to `level`, divided by the other's; inf if the curve never arrives."""
    own, others = (first_at(r, axis, level) for r in (row, other))
    return math.inf if math.isinf(own) else 0.0 if math.isinf(others) else own / max(others, 1.0)


def quickness(row: Row, other: Row, lowest: float, axis: str = "samples") -> float:
    """`ratio` at 90 % of the lowest curvature that a curve reaches; inf if that is not negative."""
    reached = min(row["quotient"])
    return ratio(row, other, axis, NEARLY * reached) if reached < 0.0 else math.inf


def distance(row: Row, reference: Row, lowest: float) -> float:
    """The largest distance of two curves that have the same iterations, until the reference is at 90 % of λ_min."""
    end = first_at(reference, "iterations", NEARLY * lowest)
    theirs = dict(zip(reference["iterations"], reference["quotient"], strict=True))
    gaps = [
        abs(quotient - theirs[place])
        for place, quotient in zip(row["iterations"], row["quotient"], strict=True)
        if place <= end and place in theirs
    ]
    return max(gaps, default=math.inf) / abs(lowest)
