"""The verdict on a point within bounds, and the step away from it if it is no minimum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unsaddle import vectors
from unsaddle.cost import Ledger
from unsaddle.curvature.result import Status
from unsaddle.interop.scipy.free import FreeFunction, doubtful_variables, free_variables
from unsaddle.interop.scipy.gradient_check import SECOND, check_beside, contradicting_curvature
from unsaddle.interop.scipy.inside import by_descent, by_lines, down, inwards_from
from unsaddle.interop.scipy.look import look, nothing_free
from unsaddle.interop.scipy.problem import Array, Problem
from unsaddle.judgement import Kind, Verdict


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What is known about a point."""

    verdict: Verdict
    f: FreeFunction
    """The function that it is about."""
    moved: Array | None = None
    """A lower point, where the verdict took looking for one."""
    line: tuple[Tensor, float] | None = None
    """A unit vector of the free variables and the curvature along it by gradients, where the verdict rests on one."""

    def step(self) -> Array | None:
        """All variables after a step down, or None if values do not fall."""
        if self.moved is not None:
            return self.moved
        assert self.verdict.direction is not None
        return down(self.f, self.verdict.direction, abs(self.verdict.curvature), self.verdict.resolution)


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
    function went on as a quadratic outside; if that is a minimum, so is x. If not, the way down may lead out. Values
    inside decide whether there is one; where they do not fall, a single such variable leaves the look at the free ones,
    and several leave it undecided.

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

    def function(of: NDArray[np.bool_]) -> FreeFunction:
        return FreeFunction(problem, x, value, grad, of, product, start)

    def among_the_free() -> Judgement:
        f = function(free)
        if not free.any():
            return Judgement(verdict=nothing_free(f, delta), f=f)
        seen = look(f, gamma, delta, seed)
        line = None if seen.along is None else (seen.along, seen.curvature)
        return Judgement(verdict=seen.verdict, f=f, line=line)

    if doubtful.any():
        f = function(free | doubtful)
        inwards = inwards_from(problem, x, doubtful)[free | doubtful]
        judgement = _in_doubt(problem, f, value, look(f, gamma, delta, seed).verdict, inwards, among_the_free, seed)
    else:
        judgement = among_the_free()
    if by_values and free.any() and judgement.verdict.kind == "minimum":
        verdict = _borne_out(problem, function(free), x, value, judgement.verdict, judgement.line, seed)
        judgement = replace(judgement, verdict=verdict)
    if product is not None:  # What the look took for gradients.
        cost = judgement.verdict.cost
        cost = replace(cost, gradients=0, samples=0, hessian_products=cost.gradients, hessian_samples=cost.samples)
        judgement = replace(judgement, verdict=replace(judgement.verdict, cost=cost))
    return judgement


def _in_doubt(
    problem: Problem,
    f: FreeFunction,
    value: float,
    verdict: Verdict,
    inwards: Array,
    among_the_free: Callable[[], Judgement],
    seed: int,
) -> Judgement:
    """What the look at all variables that a bound alone holds, or none, comes to, whose verdict this is."""
    if verdict.kind == "minimum":
        return Judgement(verdict=verdict, f=f)
    moved = by_lines(problem, f, verdict, value, inwards)
    if moved is not None:
        return Judgement(verdict=_falls(verdict), f=f, moved=moved)
    rest = among_the_free()
    cost = verdict.cost + rest.verdict.cost
    if rest.verdict.kind != "minimum":
        return replace(rest, verdict=replace(rest.verdict, cost=cost))
    number = int(np.count_nonzero(inwards))
    if number > 1 or (verdict.direction is None and len(inwards) > 1):
        ledger = Ledger()
        moved = by_descent(problem, f, verdict, value, inwards, seed, ledger)
        cost = cost + ledger.cost
        if moved is not None:
            return Judgement(verdict=replace(_falls(verdict), cost=cost), f=f, moved=moved)
    if number > 1 or verdict.evidence.status is Status.NOT_FINITE:
        return Judgement(verdict=replace(_may_fall(verdict, number), cost=cost), f=f)
    seen_so_far = rest.verdict.reason if len(inwards) > number else "Every variable is at a bound."
    return replace(rest, verdict=replace(rest.verdict, cost=cost, reason=f"{seen_so_far} {NOT_LOWER}"))


def _borne_out(
    problem: Problem,
    f: FreeFunction,
    x: Array,
    value: float,
    verdict: Verdict,
    line: tuple[Tensor, float] | None,
    seed: int,
) -> Verdict:
    """The minimum by gradients, undecided where values of fun along a line within the bounds contradict them.

    Where the look was at more than the free variables, whose function this is, its line may lead out: another is drawn,
    and its curvature takes a gradient.

    Raises ValueError where jac proves to be wrong beside x.
    """
    if line is None:
        ledger, radius = Ledger(), verdict.evidence.radius
        v = vectors.random_direction(f.point, torch.Generator().manual_seed(seed))
        change = f.sample(ledger=ledger).grad_at_sum(f.point, v, radius) - f.sample().grad(f.point)
        line = v, vectors.dots((change, v))[0] / radius
        verdict = replace(verdict, cost=verdict.cost + ledger.cost)
    along, curvature = f.embedded(line[0]), line[1]
    by_values = contradicting_curvature(problem, x, value, along, curvature, verdict.evidence.smoothness, f.size)
    if by_values is None:
        return verdict
    check_beside(problem, x, along, f.size, seed)
    return replace(
        verdict,
        kind=Kind.UNDECIDED,
        interval=(np.nan, np.nan),
        reason=(
            f"The curvature along a line is {curvature:.6g} by {f.source} but {by_values:.6g} by differences of fun: "
            f"{f.source} is not that of fun, or fun is rough at a distance of {f.size * SECOND:.0e}."
        ),
    )


NOT_LOWER = (
    "One variable is at its bound with a derivative of zero: values do not fall inwards along what was tried; no more "
    "is known."
)


def _falls(verdict: Verdict) -> Verdict:
    if verdict.kind == "saddle":
        return verdict
    return replace(
        verdict, kind=Kind.SADDLE, reason="The function falls from a bound inwards, where its derivative is 0."
    )


def _may_fall(verdict: Verdict, number: int) -> Verdict:
    """Undecided, since no lower value was found inside and that does not mean that there is none."""
    variables = "One variable is at its bound" if number == 1 else f"{number} variables are at their bounds"
    why = verdict.reason
    if verdict.kind == "saddle":
        why = (
            f"There is a curvature of {verdict.curvature:.3g} along a direction that may lead out of the bounds, and "
            "inside values do not fall along what was tried. Whether they do elsewhere is not known, since it is not "
            "known whether the Hessian is copositive: start inside of the bounds to see where that leads."
        )
    return replace(
        verdict,
        kind=Kind.UNDECIDED,
        interval=(np.nan, np.nan),
        direction=None,
        reason=f"{variables} with a derivative of zero. {why}",
    )
