"""The observations that the paper makes on its Figure 1, as statements that the rows make true or false.

"(i) NEON performs similarly to the Power method (the two curves overlap in the figure); (ii) NEON⁺ has a faster
convergence than NEON; (iv) the stochastic versions of NEON and NEON⁺ can quickly find a good NC directions than their
full versions in terms of IFO complexity and are even competitive with the Lanczos method." There is no (iii) (E30).

How they are made measurable is ours: curves overlap where they differ by at most 5 % of |λ_min| until the power method
has reached 90 % of λ_min; a direction is good at half of λ_min; competitive is at most twice as many calls as Lanczos.
A statement is true if it is true at every target.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from unsaddle.experiments.rows import Row

OVERLAP, NEARLY, GOOD, COMPETITIVE = 0.05, 0.9, 0.5, 2.0


@dataclass(frozen=True, kw_only=True)
class Observation:
    """A statement, and what was measured at each target."""

    item: str
    """The paper's number of it."""
    statement: str
    quantity: str
    """What is measured, and what it must be."""
    measured: dict[int, float]
    """By target."""
    limit: float

    @property
    def holds(self) -> dict[int, bool]:
        """Target by target: the measured number is below the limit."""
        return {target: value <= self.limit for target, value in self.measured.items()}

    @property
    def true(self) -> bool:
        """Whether it holds at every target."""
        return all(self.holds.values())

    @property
    def count(self) -> str:
        """At how many targets it holds."""
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

    def observe(item: str, statement: str, quantity: str, limit: float, measure: Callable[[Curves], float]) -> None:
        measured = {target: measure(curves) for target, curves in targets.items() if needed <= curves.keys()}
        if measured:
            observations.append(
                Observation(item=item, statement=statement, quantity=quantity, measured=measured, limit=limit)
            )

    observations: list[Observation] = []
    needed = {"neon", "power", "lanczos"}
    gap = (
        f"largest distance of the curves, as a share of |λ_min|, until Power is at {NEARLY:.0%}; at most {OVERLAP:.0%}"
    )
    observe("(i)", "NEON overlaps the power method", gap, OVERLAP, lambda c: distance(c["neon"], c["power"], lowest(c)))
    needed = {"neon-short", "power", "lanczos"}
    observe(
        "(i)",
        "NEON overlaps the power method if its noise is 100 times shorter",
        gap,
        OVERLAP,
        lambda c: distance(c["neon-short"], c["power"], lowest(c)),
    )
    needed = {"neon", "neon+", "lanczos"}
    observe(
        "(ii)",
        "NEON⁺ converges faster than NEON",
        "iterations to half of λ_min over NEON's; below 1",
        BELOW_ONE,
        lambda c: ratio(c["neon+"], c["neon"], "iterations", GOOD, lowest(c)),
    )
    needed = {"neon-short", "neon+-short", "lanczos"}
    observe(
        "(ii)",
        "NEON⁺ converges faster than NEON if the noise is 100 times shorter",
        "iterations to 90 % of λ_min over NEON's; below 1",
        BELOW_ONE,
        lambda c: ratio(c["neon+-short"], c["neon-short"], "iterations", NEARLY, lowest(c)),
    )
    for stochastic, full, name in (("neon-st", "neon", "NEON"), ("neon+-st", "neon+", "NEON⁺")):
        needed = {stochastic, full, "lanczos"}
        for item, statement, other, limit in (
            ("(iv)", f"{name}st finds a good direction with fewer IFO calls than {name}", full, BELOW_ONE),
            ("(iv)", f"{name}st competes with Lanczos", "lanczos", COMPETITIVE),
        ):
            wanted = "below 1" if limit == BELOW_ONE else f"at most {COMPETITIVE:g}"
            observe(
                item,
                statement,
                f"calls to half of λ_min over {'its' if other == full else 'Lanczos’s'}; {wanted}",
                limit,
                lambda c, stochastic=stochastic, other=other: ratio(  # type: ignore[misc]
                    c[stochastic], c[other], "samples", GOOD, lowest(c)
                ),
            )
    return observations


BELOW_ONE = math.nextafter(1.0, 0.0)


def lowest(curves: Curves) -> float:
    """λ_min, from the Lanczos run that nothing stops early."""
    return float(curves["lanczos"]["lowest"])


def first_at(row: Row, axis: str, level: float) -> float:
    """Where a curve is first at or below `level`, in iterations or samples; inf if it never is."""
    for place, quotient in zip(row[axis], row["quotient"], strict=True):
        if quotient <= level:
            return float(place)
    return math.inf


def ratio(row: Row, other: Row, axis: str, share: float, lowest: float) -> float:
    """How many times the other's iterations or samples a curve takes to `share` of λ_min; inf if it never arrives."""
    own, others = (first_at(r, axis, share * lowest) for r in (row, other))
    return math.inf if math.isinf(own) else 0.0 if math.isinf(others) else own / max(others, 1.0)


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
