"""The paper's observations on its Figure 1, as statements that the rows make true or false.

"(i) NEON performs similarly to the Power method (the two curves overlap in the figure); (ii) NEON⁺ has a faster
convergence than NEON; (iv) the stochastic versions of NEON and NEON⁺ can quickly find a good NC directions than their
full versions in terms of IFO complexity and are even competitive with the Lanczos method." There is no (iii) (E30). And
of the figure: "NEON⁺st in Figure 1 (b) terminates earlier due to that NCFind is executed".

We chose how to measure them, and some of them in two ways. Curves overlap if they differ by at most 5 % of |λ_min|,
until the power method has reached 90 % of λ_min, or over the first 300 iterations. A direction is good at half of
λ_min, or by the paper's definition (7), vᵀHv ≤ −cγ, with the γ = 1 that ζ = 1 − √(ηγ) implies (E30) and the c = 1/2
that the paper has for the power method and Lanczos, after (10). A method is as quick as its calls to 90 % of its own
lowest curvature, or to −cγ. It is competitive if it takes at most twice as many calls as Lanczos to the same curvature.

A statement is true if it holds at every target where it is asked. (7) is asked where λ_min ≤ −γ, as in (6): elsewhere
the paper promises no direction. Fewer targets than the paper shows judge nothing.
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
C = 0.5
"""c of (7)."""
FIRST = 300
"""(i) is judged over so many iterations, too."""
ENOUGH = 5
"""A statement is judged over as many targets as the paper shows, or more: Figure 1 and four pairs in the supplement."""


@dataclass(frozen=True, kw_only=True)
class Observation:
    """A statement, and what was measured at each target."""

    item: str
    """The paper's number, such as (i)."""
    statement: str
    quantity: str
    """The measured quantity and its limit, in words."""
    measured: dict[int, float | None]
    """The measured number at each target; None where the statement is not asked."""
    at_most: float = math.inf
    at_least: float = -math.inf

    @property
    def asked(self) -> dict[int, float]:
        """The measured number at each target where the statement is asked."""
        return {target: value for target, value in self.measured.items() if value is not None}

    @property
    def holds(self) -> dict[int, bool]:
        """At each target where it is asked, whether the measured number is within its limits."""
        return {target: self.at_least <= value <= self.at_most for target, value in self.asked.items()}

    @property
    def everywhere(self) -> bool:
        """Whether the statement holds at every target where it is asked."""
        return all(self.holds.values())

    @property
    def verdict(self) -> bool | None:
        """The same, or None if there are too few targets to judge by."""
        return self.everywhere if len(self.measured) >= ENOUGH else None

    @property
    def count(self) -> str:
        """The number of targets at which the statement holds, in words."""
        unasked = len(self.measured) - len(self.asked)
        return f"{sum(self.holds.values())} of {len(self.holds)}" + (f", not asked at {unasked}" if unasked else "")

    @property
    def spread(self) -> str:
        """Median, smallest and largest."""
        values = sorted(self.asked.values())
        low, high = (_number(value) for value in (values[0], values[-1]))
        middle = _number(float(np.median(values)))
        return middle if len(values) == 1 else f"{middle} ({low} to {high})"

    def __str__(self) -> str:
        word = {True: "true ", False: "FALSE", None: "open "}[self.verdict]
        return f"  {word} {self.item:>4} {self.statement}: {self.quantity}: {self.spread}, targets: {self.count}"


def cannot_be_judged(targets: int) -> str:
    """What is said in place of a verdict.

    >>> cannot_be_judged(1)
    'cannot be judged by one target'
    """
    return f"cannot be judged by {'one target' if targets == 1 else f'{targets} targets'}"


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
        observation = Observation(item=item, statement=statement, quantity=quantity, measured=measured, **limits)
        if observation.asked:
            observations.append(observation)

    for suffix, addition in (("", ""), ("-short", " if the noise is 100 times shorter")):
        overlaps, gap = f"NEON overlaps the power method{addition}", "largest distance as a share of |λ_min|"
        both = (f"neon{suffix}", "power")
        for statement, during, measure in (
            (overlaps, f"until Power is at {NEARLY:.0%} of λ_min", distance),
            (f"{overlaps}, over the first {FIRST} iterations", f"up to iteration {FIRST}", distance_at_first),
        ):
            observe("(i)", statement, f"{gap}, {during}; at most {OVERLAP:g}", both, measure, at_most=OVERLAP)
    for suffix, addition in (("", ""), ("-short", " if the noise is 100 times shorter")):
        observe(
            "(ii)",
            f"NEON⁺ converges faster than NEON{addition}",
            f"iterations to {NEARLY:.0%} of its lowest curvature over those of NEON; below 1",
            (f"neon+{suffix}", f"neon{suffix}"),
            functools.partial(quickness, axis="iterations"),
            at_most=BELOW_ONE,
        )
    for full, name in (("neon", "NEON"), ("neon+", "NEON⁺")):
        own = f"{full}-st"
        good = f"{name}st finds a good direction"
        wanted = f"lowest curvature as a share of λ_min; at least {GOOD:g}"
        observe("(iv)", good, wanted, (own,), share_of_lowest, at_least=GOOD)
        wanted = f"lowest curvature as a share of −γ; at least c = {C:g}"
        observe("(iv)", f"{good} by (7)", wanted, (own,), share_of_gamma, at_least=C)
        for by, level, quick in (
            ("", f"{NEARLY:.0%} of its lowest curvature", quickness),
            (" by (7)", "curvature −cγ", quickness_to_seven),
        ):
            for statement, whose, other, limit in (
                (f"{name}st is quicker than {name}", f"those of {name}; below 1", full, BELOW_ONE),
                (f"{name}st competes with Lanczos", f"Lanczos's; at most {COMPETITIVE:g}", "lanczos", COMPETITIVE),
            ):
                observe("(iv)", statement + by, f"calls to {level} over {whose}", (own, other), quick, at_most=limit)
    observe(
        "Fig.",
        "NEON⁺st terminates earlier since NCFind is executed",
        "the iteration at which it is; at all",
        ("neon+-st",),
        lambda row, lowest: math.inf if row["ncfind"] is None else float(row["ncfind"]["iterations"]),
        at_most=sys.float_info.max,
    )
    return observations


Measure = Callable[..., float | None]
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


def share_of_lowest(row: Row, lowest: float) -> float:
    """The lowest curvature that a curve reaches, as a share of λ_min."""
    return float(min(row["quotient"]) / lowest)


def seven(row: Row) -> float:
    """−cγ of (7)."""
    return float(-C * row["settings"]["gamma"])


def seven_is_asked(row: Row, lowest: float) -> bool:
    """λ_min ≤ −γ, as in (6)."""
    return bool(lowest <= -row["settings"]["gamma"])


def share_of_gamma(row: Row, lowest: float) -> float | None:
    """The lowest curvature that a curve reaches, as a share of −γ; None where (7) is not asked."""
    return min(row["quotient"]) / -row["settings"]["gamma"] if seven_is_asked(row, lowest) else None


def quickness_to_seven(row: Row, other: Row, lowest: float) -> float | None:
    """`ratio` of calls at the −cγ of (7); None where (7) is not asked."""
    return ratio(row, other, "samples", seven(row)) if seven_is_asked(row, lowest) else None


def distances(row: Row, reference: Row, lowest: float) -> dict[int, float]:
    """The distance of two curves, as a share of |λ_min|, at each iteration where both have a point."""
    theirs = dict(zip(reference["iterations"], reference["quotient"], strict=True))
    return {
        place: abs((quotient - theirs[place]) / lowest)
        for place, quotient in zip(row["iterations"], row["quotient"], strict=True)
        if place in theirs
    }


def distance(row: Row, reference: Row, lowest: float, end: float | None = None) -> float:
    """The largest of `distances` up to iteration `end`, by default until the reference is at 90 % of λ_min."""
    end = first_at(reference, "iterations", NEARLY * lowest) if end is None else end
    return max((gap for place, gap in distances(row, reference, lowest).items() if place <= end), default=math.inf)


def distance_at_first(row: Row, reference: Row, lowest: float) -> float | None:
    """The largest of `distances` over the first 300 iterations; None if the run has fewer."""
    return distance(row, reference, lowest, FIRST) if row["settings"]["iterations"] >= FIRST else None


def parting(row: Row, reference: Row, lowest: float, tolerance: float) -> int | None:
    """The first of `distances` that is above `tolerance`: its iteration; None if none is."""
    gaps = distances(row, reference, lowest)
    return next((place for place, gap in gaps.items() if gap > tolerance), None)
