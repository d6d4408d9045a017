"""The verdict on a point within bounds, and the step away from it if it is not a minimum."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch

from unsaddle import vectors
from unsaddle.cost import Cost, Ledger
from unsaddle.curvature.extract import answer
from unsaddle.curvature.question import Question
from unsaddle.curvature.result import Curvature, Status
from unsaddle.interop.scipy.free_function import SHORT, EndPoint, FreeFunction, Mask
from unsaddle.interop.scipy.gradient_check import SECOND, check_beside, contradicting_curvature
from unsaddle.interop.scipy.left_behind import look_in_metric
from unsaddle.interop.scipy.way_down import along_direction, along_flat_line, along_lines, by_descent
from unsaddle.judgement.flat_direction import flat_fall
from unsaddle.judgement.judge import Judgement, Kind, judge
from unsaddle.judgement.verdict import Verdict, assembled
from unsaddle.measure.noise import GRADIENT_ROUNDINGS
from unsaddle.objectives.differences import CENTRAL, EPS, Array

FEW_VARIABLES, SURE = 10, 1e-9
"""With fewer variables δ is lowered to `SURE`, and the search goes on to the last variable. On a plane, one start in
twenty would hide far more than −γ."""

SOME_VARIABLES, MANY_VARIABLES = 50, 200
"""Among so many variables at most, a look goes on, at a gradient for each variable, until soft curvature is excluded,
too. The second number is for suspicious points."""

SHARE = 1.0 / 8.0
"""A look may take this share of the gradients of SciPy's run to see softer curvature than −γ. Promotion is to cost at
most 15 % at the median, the checks included (`benchmarks.cutest`)."""

FARTHER = (Status.NOT_CONFIRMED, Status.NOT_QUADRATIC, Status.FLAT)
"""Statuses after which longer probes may decide."""

PLATEAU = (
    "The largest curvature seen, {:.2g}, changes fun by less than its rounding over the size of x. This is a plateau, "
    "and nothing can be said: start elsewhere, or take a large constant out of fun."
)

NOTHING_FREE = (
    "Every variable is at a bound: the function rises inwards, or there is no room. No curvature was measured."
)

NOT_LOWER = "One variable is at its bound with a derivative of zero. Along the lines tried, values do not fall inwards."

COPOSITIVE = (
    "There is a curvature of {:.3g} along a direction that may lead out of the bounds. Along the lines tried, values "
    "inside do not fall; other lines may lead down. Start inside of the bounds."
)


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A verdict, and the step to a lower point."""

    verdict: Verdict
    f: FreeFunction
    """The function of the verdict."""
    moved: Array | None
    """A lower point, if one was found on the way to the verdict."""

    @property
    def falls_though_flat(self) -> bool:
        """Whether fun is flat to second order along a direction, and falls along it by terms of higher order."""
        return self.verdict.kind is Kind.UNDECIDED and self.moved is not None

    def step(self) -> Array | None:
        """All variables after a step down; None if values do not fall."""
        v = self.verdict
        if self.moved is not None or v.direction is None:
            return self.moved
        shortest = min(v.resolution, SHORT * self.f.size)  # The resolution of exact products says nothing about fun.
        return along_direction(self.f, v.direction, v.curvature, shortest)


class _Seen(NamedTuple):
    """The evidence on some of the variables, and the judgement."""

    f: FreeFunction
    found: Curvature
    judgement: Judgement
    moved: Array | None = None


def verdict_at(at: EndPoint, *, gamma: float | None, delta: float, seed: int, by_values: bool) -> Judged:
    """Whether SciPy has converged at a minimum. The gradient there counts as zero, whatever its norm.

    With `by_values`, values of fun have to confirm a minimum, and jac is checked where nothing is decided. Raises
    ValueError if values show that jac is wrong.
    """
    ledger = at.ledger()
    question = Question(
        gamma=gamma,
        seen_counts=gamma is None,
        survey_first=True,
        delta=delta,
        extractor="krylov",
        seed=seed,
        keep_history=True,
    )
    seen = _weighed(at, question, ledger)
    if by_values and seen.judgement.kind is Kind.MINIMUM and at.free.any():
        seen = seen._replace(judgement=_borne_out(at, seen, seed, ledger))
    elif by_values and seen.judgement.kind is Kind.UNDECIDED and seen.moved is None and len(seen.f.point):
        _check_jac(at, seen.f, seed)
    f, found, judgement, moved = seen
    norm, error = found.gradient_norm, _gradient_error(found)
    known: dict[str, Any] = {"gradient_norm": norm, "gradient_error": error, "delta": delta, "cost": ledger.cost}
    verdict = assembled(f, f.point, found, judgement, eps=math.nan, **known)  # SciPy decided that it is stationary.
    return Judged(verdict=verdict, f=f, moved=moved)


def _weighed(at: EndPoint, question: Question, ledger: Ledger) -> _Seen:
    """Combines the search among free and doubtful variables with the search among the free ones.

    A doubtful variable is at a bound, with a derivative of zero. The first search takes the function to go on as a
    quadratic outside. If it finds a minimum, x is one. If not, the way down may lead outside, so values inside decide.
    If they do not fall, one doubtful variable leaves the verdict to the free ones; several leave x undecided.
    """
    free, doubtful = at.free, at.doubtful
    if not doubtful.any():
        return _searched(at, free, question, ledger)
    f, found, (kind, reason), moved = seen = _searched(at, free | doubtful, question, ledger)
    if kind is Kind.MINIMUM or moved is not None:
        return seen
    falls = Judgement(Kind.SADDLE, "The function falls from a bound inwards, where its derivative is 0.")
    falls = seen.judgement if kind is Kind.SADDLE else falls
    inwards, number = torch.from_numpy(at.inwards[free | doubtful]), int(doubtful.sum())
    moved = along_lines(f, found, inwards)
    if moved is not None:
        return _Seen(f, found, falls, moved)
    rest = _searched(at, free, question, ledger)
    if rest.judgement.kind is not Kind.MINIMUM:
        return rest
    if number > 1 or (not found.found and free.any()):
        moved = by_descent(f, found, inwards, question.seed, ledger)
        if moved is not None:
            return _Seen(f, found, falls, moved)
    if number > 1 or found.status is Status.NOT_FINITE:
        variables = "One variable is at its bound" if number == 1 else f"{number} variables are at their bounds"
        why = COPOSITIVE.format(found.curvature) if kind is Kind.SADDLE else reason
        return _Seen(f, found, Judgement(Kind.UNDECIDED, f"{variables} with a derivative of zero. {why}"))
    so_far = rest.judgement.reason if free.any() else "Every variable is at a bound."
    return _Seen(rest.f, rest.found, Judgement(Kind.MINIMUM, f"{so_far} {NOT_LOWER}"))


def _searched(at: EndPoint, variables: Mask, question: Question, ledger: Ledger) -> _Seen:
    """Searches for negative curvature among some of the variables, and judges.

    Some functions compute with terms much larger than x, as cos does near zero. Their gradients change in steps that a
    shift by a few roundings of x does not show. They then seem exact, and probes are too short. Probes that do not
    decide are repeated from the cube root of the precision, times max(1, ‖z‖).
    """
    f = FreeFunction(at, variables)
    x = f.point
    if not len(x):
        return _Seen(f, _nothing_sought(question.delta), Judgement(Kind.MINIMUM, NOTHING_FREE))
    start_delta = question.delta if len(x) >= FEW_VARIABLES else min(question.delta, SURE)
    basis = len(x) if FEW_VARIABLES < len(x) <= MANY_VARIABLES else None  # None lets memory decide.
    spare = _steps_to_spare(at, len(x)) if question.seen_counts else 0
    question = replace(question, delta=start_delta, probe_radius=f.first_radius, basis=basis, farther=spare)
    found = look_in_metric(f, question, ledger) or answer(f, x, question, ledger)
    farther = CENTRAL * max(1.0, vectors.norm(x))
    if found.status in FARTHER:
        again = answer(f, x, replace(question, probe_radius=None, smallest_radius=farther), ledger)
        found = again if again.status in (Status.FOUND, Status.NOTHING_FOUND) else found
    kind, reason = judge(found, gradient_norm=found.gradient_norm, gradient_error=_gradient_error(found))
    if kind is not Kind.UNDECIDED and found.smoothness * max(1.0, f.size) ** 2 < EPS * abs(at.value):
        kind, reason = Kind.UNDECIDED, PLATEAU.format(found.smoothness)
    elif kind is Kind.UNDECIDED and f.by_differences:
        off = f"Gradients are differences of fun here, off by up to {_gradient_error(found):.2g}"
        reason = f"{reason} {off}: give jac, or take a large constant out of fun."
    elif kind is Kind.MINIMUM and question.seen_counts:
        sampled = f.sample(ledger=ledger)
        falls = flat_fall(sampled, x, found, by_descent=False)
        if falls is not None:
            moved = along_flat_line(f, falls)
            return _Seen(f, found, Judgement(Kind.UNDECIDED, falls.reason), moved)
    return _Seen(f, found, Judgement(kind, reason))


def _steps_to_spare(at: EndPoint, dimension: int) -> int:
    """Steps that a search may take though nothing is below −γ. Products with a matrix cost nothing."""
    if at.function.has_matrix or dimension <= (MANY_VARIABLES if at.suspicious else SOME_VARIABLES):
        return dimension
    return int(SHARE * at.spent)


def _borne_out(at: EndPoint, seen: _Seen, seed: int, ledger: Ledger) -> Judgement:
    """The judgement by gradients; undecided if values of fun along a line within the bounds contradict them.

    If doubtful variables were searched, too, the line of the search may lead outside. Then another line is drawn, at
    the cost of a gradient. Raises ValueError if jac is wrong beside x.
    """
    f, found = FreeFunction(at, at.free), seen.found
    if len(seen.f.point) > len(f.point):
        v = vectors.random_direction(f.point, torch.Generator().manual_seed(seed))
        change = f.sample(ledger=ledger).grad_at_sum(f.point, v, found.radius) - f.sample().grad(f.point)
        curvature = vectors.dots((change, v))[0] / found.radius
    elif found.start is not None:
        v, curvature = found.start, found.history[0][1]
    else:
        v, curvature = found.deciding[0], found.lowest
    along = f.embedded(v)
    by_values = contradicting_curvature(
        at.function, at.x, at.value, along, curvature=curvature, largest=found.smoothness, size=f.size
    )
    if by_values is None:
        return seen.judgement
    check_beside(at.function, at.x, along, f.size, seed)
    return Judgement(
        Kind.UNDECIDED,
        f"The curvature along a line is {curvature:.6g} by {f.source} but {by_values:.6g} by differences of fun: "
        f"{f.source} is not that of fun, or fun is rough at a distance of {f.size * SECOND:.0e}.",
    )


def _check_jac(at: EndPoint, f: FreeFunction, seed: int) -> None:
    """Raises ValueError if jac is wrong beside x: with a wrong jac, fun looks rough or constant. One gradient."""
    along = f.embedded(vectors.random_direction(f.point, torch.Generator().manual_seed(seed)))
    check_beside(at.function, at.x, np.where(at.inwards == 0.0, along, at.inwards * np.abs(along)), f.size, seed)


def _gradient_error(found: Curvature) -> float:
    return GRADIENT_ROUNDINGS * found.noise if math.isfinite(found.noise) else 0.0


def _nothing_sought(delta: float) -> Curvature:
    """The result where no variable may move."""
    names = ("gamma", "sought", "curvature", "lowest", "smoothness", "radius", "relative_noise", "hessian_lipschitz")
    rest: dict[str, Any] = dict.fromkeys(names, math.nan) | {"direction": None, "gradient_norm": 0.0, "noise": 0.0}
    return Curvature(status=Status.NOTHING_FOUND, cost=Cost(), delta=delta, extractor="krylov", **rest)
