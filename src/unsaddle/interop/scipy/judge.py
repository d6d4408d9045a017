"""The verdict on a point within bounds, and the step away from it if it is no minimum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.escape import by_line_search
from unsaddle.interop.scipy.free import FreeFunction, doubtful_variables, free_variables
from unsaddle.interop.scipy.gradient_check import check_beside, contradicting_curvature
from unsaddle.interop.scipy.look import Look, look, nothing_free
from unsaddle.interop.scipy.problem import EPS, Array, Problem
from unsaddle.verdict import Verdict

LONG = 1e-3
"""The first length of a step, times max(1, ‖x‖)."""

TRIED = (1.0, 30.0, 1.0 / 30.0, 1e-3)
"""Lengths, in units of that, at which a way from a bound is tried."""


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What is known about a point."""

    verdict: Verdict
    f: FreeFunction
    """The function that it is about."""
    moved: Array | None = None
    """A lower point, where the verdict took looking for one."""

    def step(self) -> Array | None:
        """All variables after a step down, or None if values do not fall."""
        if self.moved is not None:
            return self.moved
        assert self.verdict.direction is not None
        return _down(self.f, self.verdict.direction, abs(self.verdict.curvature), self.verdict.resolution)


def judge(
    problem: Problem,
    x: Array,
    value: float,
    start: Array,
    product: Callable[[Array], Any] | None,
    *,
    gamma: float | None,
    delta: float,
    seed: int,
    by_values: bool,
) -> Judgement:
    """Look at x within the variables that are not held at a bound.

    A variable at its bound with a derivative of zero is held by nothing but the bound. It is looked at, too, as if the
    function went on as a quadratic outside; if that is a minimum, so is x. If not, the way down may lead out, and
    values inside decide whether it is one. Where they do not fall, what is left is the look at the free variables.

    Args:
        problem: the function and its bounds.
        x: where SciPy has converged.
        value: f(x).
        start: where it began.
        product: p ↦ ∇²f(x)p, or None.
        gamma, delta, seed: of the look.
        by_values: whether values of fun have to bear a minimum out.
    """
    grad = problem.probe_gradient(x)
    free = free_variables(x, grad, problem.lower, problem.upper)
    doubtful = doubtful_variables(x, grad, problem.lower, problem.upper)
    if doubtful.any():
        f = FreeFunction(problem, x, value, grad, free | doubtful, product, start)
        verdict = look(f, gamma, delta, seed).verdict
        if verdict.kind == "minimum":
            return Judgement(verdict=verdict, f=f)
        inwards = torch.from_numpy(_inwards(problem, x, doubtful)[free | doubtful])
        lower_point = _inside(problem, f, verdict, value, inwards)
        if lower_point is not None:
            return Judgement(verdict=_falls(verdict), f=f, moved=lower_point)
    f = FreeFunction(problem, x, value, grad, free, product, start)
    if free.any():
        seen = look(f, gamma, delta, seed)
        verdict = _borne_out(problem, f, x, value, seen, seed) if by_values else seen.verdict
    else:
        verdict = nothing_free(f, delta)
    if doubtful.any() and verdict.kind == "minimum":
        seen_so_far = verdict.reason if free.any() else "Every variable is at a bound."
        verdict = replace(verdict, reason=f"{seen_so_far} {_not_lower(int(doubtful.sum()))}")
    return Judgement(verdict=verdict, f=f)


def _borne_out(problem: Problem, f: FreeFunction, x: Array, value: float, seen: Look, seed: int) -> Verdict:
    """The verdict, undecided where it is a minimum by gradients and values of fun contradict them.

    Raises ValueError where jac proves to be wrong beside x.
    """
    verdict = seen.verdict
    if verdict.kind != "minimum" or seen.along is None:
        return verdict
    along, largest = f.embedded(seen.along), verdict.evidence.smoothness
    by_values = contradicting_curvature(problem, x, value, along, seen.curvature, largest, f.size)
    if by_values is None:
        return verdict
    check_beside(problem, x, along, f.size, seed)
    return replace(
        verdict,
        kind="undecided",
        interval=(np.nan, np.nan),
        reason=(
            f"The curvature along a line is {seen.curvature:.6g} by {f.source} but {by_values:.6g} by differences of "
            f"fun: {f.source} is not that of fun, or fun is rough at a distance of {f.size * 1e-4:.0e}."
        ),
    )


def _inside(problem: Problem, f: FreeFunction, verdict: Verdict, value: float, inwards: Tensor) -> Array | None:
    """A lower point within the bounds: along ± the direction, where there is one, or along all that is in doubt.

    Mostly there is none, so that a few lengths have to do before a line search is begun.
    """
    v = verdict.direction
    rounding = 16.0 * EPS * abs(value)
    for direction in (inwards,) if v is None else (v, -v, inwards):
        for share in TRIED:
            length = share * LONG * max(1.0, vectors.norm(f.point))
            if problem.probe_value(f.full(f.point + length * direction)) < value - rounding:
                return _down(f, direction, 1.0 if v is None else abs(verdict.curvature), length)
    return None


def _inwards(problem: Problem, x: Array, doubtful: Any) -> Array:
    direction = np.where(x - problem.lower <= problem.upper - x, 1.0, -1.0) * doubtful
    inwards: Array = direction / np.linalg.norm(direction)
    return inwards


def _down(f: FreeFunction, direction: Tensor, curvature: float, shortest: float) -> Array | None:
    """The line search along the direction: from a thousandth of ‖x‖ on, or from the shortest if that does not fall.

    From the shortest it would take some thirty values of fun to come to where it matters. Points outside of the bounds
    are put back to them.
    """
    far = LONG * max(1.0, vectors.norm(f.point))
    for first_length in (far, shortest):
        moved = by_line_search(f.sample(), f.point, direction, curvature=curvature, first_length=first_length)
        if moved is not None:
            return f.full(moved)
    return None


def _falls(verdict: Verdict) -> Verdict:
    if verdict.kind == "saddle":
        return verdict
    return replace(verdict, kind="saddle", reason="The function falls from a bound inwards, where its derivative is 0.")


def _not_lower(number: int) -> str:
    variables = "One variable is at its bound" if number == 1 else f"{number} variables are at their bounds"
    return f"{variables} with a derivative of zero: values do not fall inwards along what was tried; no more is known."
