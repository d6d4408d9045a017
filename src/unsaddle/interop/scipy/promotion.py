"""NEON-A with a method of SciPy as its first-order method: run, search, leave the saddle, run again."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult
from scipy.optimize import minimize as scipy_minimize

from unsaddle import checks
from unsaddle.interop.scipy import gradient_check
from unsaddle.interop.scipy.arguments import (
    budgets_of,
    check_others,
    checked_bounds,
    checked_method,
    checked_start,
    limits,
    of_known_options,
    scipys_options,
)
from unsaddle.interop.scipy.bounded_verdict import verdict_at
from unsaddle.interop.scipy.counted_function import BudgetSpent, CountedFunction
from unsaddle.interop.scipy.free_function import EndPoint
from unsaddle.judgement.verdict import Verdict
from unsaddle.objectives.differences import Array

UNDECIDED, TOO_MANY_ESCAPES, STUCK, BUDGET, NOT_FINITE = 100, 101, 102, 103, 104
"""Values of `status` beyond SciPy's own. SciPy has converged, but not at a known minimum; or f(x0) is not finite."""

TOLERANCE = 1e-9
"""A fall of fun by this share of max(1, |fun|) is worth leaving a saddle for; `tol` or `ftol`, if larger."""

SHALLOW = "This is a saddle, but fun falls by {:.2g} only along a curvature of {:.3g}, which is within the tolerance."

SLIGHT = "Along one direction the curvature is zero. There fun falls by {:.2g} only, which is within the tolerance."

NO_VERDICT = "There is no verdict, since SciPy has not converged."

SADDLE, FLAT = "this is a saddle", "this is no minimum: fun falls along a direction where its curvature is zero"
"""What a point is that is to be left."""


@checks.in_range
def minimize(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: str | None = None,
    jac: Any = None,
    hess: Any = None,
    hessp: Any = None,
    bounds: Any = None,
    constraints: Any = (),
    tol: float | None = None,
    callback: Callable[..., Any] | None = None,
    options: dict[str, Any] | None = None,
    *,
    gamma: float | None = None,
    delta: float = 0.05,
    max_escapes: int = 100,
    check_gradient: bool = True,
    seed: int = 0,
) -> OptimizeResult:
    """`scipy.optimize.minimize` that does not end at saddles: where SciPy has converged at one, it is left.

    This is Algorithm 4 (NEON-A) with a method of SciPy in place of 𝒜, and its test of convergence in place of
    ‖∇f‖ ≤ ε. `verdict_at` searches for negative curvature, with gradients, or with products if `hess` or `hessp` is
    given. The step is a line search along the direction, by values of fun. They have to fall: no saddle comes twice.

    Args:
        fun, x0, args, hess, hessp, tol, callback: as for SciPy. The callback sees every run.
        method: one of `arguments.METHODS`. By default SciPy's choice: BFGS, or L-BFGS-B within bounds.
        jac: as for SciPy. Without it the search takes finite differences, too. Each gradient then costs d or 2d values,
            and curvature has a larger error.
        bounds: for methods that take them. The search is among the variables that are not held at a bound.
        constraints: none.
        options: as for SciPy. `maxiter` bounds all runs together; `maxfun` bounds the searches, too.
        gamma: curvatures down to −γ are accepted. By default a search excludes those below a hundredth of the largest
            |eigenvalue|, and leaves a saddle along any that it sees, if fun falls by more than the tolerance. It goes
            on to a ten-thousandth among up to 50 variables, among up to 200 where a saddle is likely, and as far as an
            eighth of SciPy's gradients lead. `verdict.bound` says what was excluded.
        delta: the probability, over the random start, that a search misses a curvature below −γ.
        max_escapes: the number of saddles that may be left.
        check_gradient: whether to compare jac with values of fun, where a run begins and where a minimum is claimed.
            Costs two values each time. Raises ValueError if jac is wrong.
        seed: of the searches.

    Returns:
        SciPy's result of the last run. If fun is not finite where SciPy ends, x is the lowest point that was finite.
        `nit`, `nfev`, `njev` and `nhev` count all runs and searches. `verdict` is as of `is_minimum`, None if SciPy did
        not converge; `escapes` is the number of saddles left. `success` means that SciPy has converged and that the
        verdict is *minimum*, or a saddle with a curvature above −γ along which fun falls by no more than the tolerance;
        `message` then says so. Otherwise `message` says why. A point where fun is flat to second order along a
        direction, and falls there by terms of higher order, is left like a saddle, unless gamma is given.

    >>> def f(x): return x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4
    >>> def g(x): return np.array([2 * x[0], -2 * x[1] + x[1] ** 3])
    >>> scipy_minimize(f, [1, 0], jac=g, method="BFGS").x.round(6).tolist()      # success, at the saddle
    [0.0, 0.0]
    >>> result = minimize(f, [1, 0], jac=g, method="BFGS")
    >>> result.success, abs(result.x).round(3).tolist(), result.escapes, result.verdict.kind
    (True, [0.0, 1.414], 1, 'minimum')
    """
    bounds = checked_bounds(bounds)
    method = checked_method(method, bounds, constraints)
    options = scipys_options(options)
    check_others(method, jac, hess, hessp, tol, callback)
    seed = checks.seed(seed)
    gamma = None if gamma is None else checks.positive(gamma, "gamma", "leave it out to take a hundredth of L1")
    checks.probability(delta, "delta")
    checks.count(max_escapes, "max_escapes", at_least=0)
    args = args if isinstance(args, tuple) else (args,)
    x = checked_start(x0)
    lower, upper = limits(bounds, x.size)
    function = CountedFunction(fun, jac, args, lower, upper, hess, hessp)
    x = start = np.clip(x, lower, upper)  # As most methods do; differences may not leave the bounds.
    first, slope = function.begin(start)
    if not np.isfinite(first) or (slope is not None and not np.isfinite(slope).all()):
        return _not_begun(start, first, slope)
    by_values = checks.flag(check_gradient, "check_gradient") and function.differences is None
    if by_values and slope is not None:
        gradient_check.check_gradient(function, start, slope, seed)
    total = {"nit": 0, "nfev": 0, "njev": 0, "nhev": 0}
    budgets = budgets_of(method, options)
    most_values = options["maxfun"] if "maxfun" in budgets else math.inf
    left, escapes, lowest = options, 0, math.inf
    while True:
        with of_known_options(method):
            result = scipy_minimize(
                x0=x, method=method, bounds=bounds, tol=tol, callback=callback, options=left, **function.for_scipy()
            )
        result.setdefault("njev", result.nfev)  # TNC computes both at once, and counts nfev only.
        for name in total:
            total[name] += int(result.get(name, 0) or 0)
        verdict: Verdict | None = None
        x, here = np.array(result.x, dtype=np.float64), float(result.fun)
        if not np.isfinite(here) and function.lowest is not None:
            status = NOT_FINITE if result.success else result.status
            _fail(result, status, f"fun is {here} where it ended, so x is the lowest finite point")
            x, here = _ended_at(result, function, *function.lowest)
        if not result.success:
            result.message = f"{result.message} {NO_VERDICT}"
            break
        if not function.inside(x):  # trust-constr ends beside a bound by rounding. A look goes nowhere outside.
            inner = np.clip(x, lower, upper)
            x, here = _ended_at(result, function, inner, function.value(inner))
        likely = escapes > 0 or not first - here > _tolerance(tol, options, here)
        spent = int(result.njev)
        inverse = result.hess_inv if method == "BFGS" else None
        end = EndPoint(function=function, x=x, value=here, start=start, spent=spent, suspicious=likely, inverse=inverse)
        try:
            with function.no_more_than(most_values):
                judged = verdict_at(end, gamma=gamma, delta=delta, seed=seed + escapes, by_values=by_values)
        except BudgetSpent:
            _fail(result, BUDGET, "but whether this is a minimum is undecided, and the budget is spent: raise maxfun")
            break
        verdict, total["nfev"] = judged.verdict, function.nfev
        if verdict.kind == "minimum":
            break
        if verdict.kind == "undecided" and judged.moved is None:
            _fail(result, UNDECIDED, f"but whether this is a minimum is undecided. {verdict.reason}")
            break
        what = FLAT if judged.falls_though_flat else SADDLE
        if escapes == max_escapes:
            _fail(result, TOO_MANY_ESCAPES, f"but {what}, and {escapes} have been left: raise max_escapes")
            break
        if any(total[count] >= options[name] for name, count in budgets.items()):
            _fail(result, BUDGET, f"but {what}, and the budget is spent: raise maxiter or maxfun")
            break
        try:
            with function.no_more_than(most_values):
                moved = judged.step()
        except BudgetSpent:
            _fail(result, BUDGET, f"but {what}, and the budget is spent: raise maxfun")
            break
        if verdict.curvature > -verdict.gamma:  # It was seen, though nobody asked for so little.
            fall = 0.0 if moved is None else here - function.value(moved)
            if not fall > _tolerance(tol, options, here):
                fall = max(0.0, fall)
                if judged.falls_though_flat:
                    result.message = f"{result.message} {SLIGHT.format(fall)}"
                    break
                verdict = replace(verdict, drop=fall, drop_interval=(fall, fall))
                result.message = f"{result.message} {SHALLOW.format(fall, verdict.curvature)}"
                break
        if moved is None and by_values and verdict.direction is not None:
            gradient_check.check_beside(function, x, judged.f.embedded(verdict.direction), judged.f.size, seed)
        if moved is None or not here < lowest:
            _fail(result, STUCK, "but gradients show a saddle here, and no value of fun along its direction is lower")
            break
        x, lowest, escapes = moved, here, escapes + 1
        if by_values:  # A jac that is right at a symmetric start may be wrong here.
            grad = function.gradient(x)
            gradient_check.check_gradient(function, x, grad, seed + escapes, "after leaving a saddle")
        total["nfev"] = function.nfev
        left = options | {name: max(1, options[name] - total[count]) for name, count in budgets.items()}
    # `function` counts calls of fun and jac; SciPy counts the differences and Hessians of its own.
    counts = total | {"nfev": function.nfev, "njev": function.njev + (total["njev"] if function.differences else 0)}
    counts["nhev"] += function.nhev
    result.update({name: count for name, count in counts.items() if name in result}, verdict=verdict, escapes=escapes)
    return result


def neon(fun: Callable[..., Any], x0: Array, args: tuple[Any, ...] = (), **given: Any) -> OptimizeResult:
    """`minimize` as a custom method: `scipy.optimize.minimize(fun, x0, jac=jac, method=neon)`.

    The arguments of `minimize` are options here, beside those of the method that it runs:

    >>> def f(x): return x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4
    >>> options = {"method": "BFGS", "gamma": 0.1, "maxiter": 50}
    >>> abs(scipy_minimize(f, [0.0, 0.0], method=neon, options=options).x).round(3).tolist()
    [0.0, 1.414]
    """
    names = inspect.signature(minimize).parameters.keys() - {"options"}
    arguments = {name: given.pop(name) for name in names & given.keys()}
    return minimize(fun, x0, args, options=given, **arguments)


def _tolerance(tol: float | None, options: dict[str, Any], value: float) -> float:
    """The fall of fun that the caller does not mind."""
    return max(TOLERANCE, tol or 0.0, float(options.get("ftol") or 0.0)) * max(1.0, abs(value))


def _ended_at(result: OptimizeResult, function: CountedFunction, x: Array, value: float) -> tuple[Array, float]:
    """x and its value, written into the result with the gradient there."""
    result.update(x=np.copy(x), fun=value, jac=function.gradient(x))
    return np.copy(x), value


def _fail(result: OptimizeResult, status: int, reason: str) -> None:
    said = str(result.message).rstrip(".")  # SciPy ends most of its messages with a full stop.
    result.update(success=False, status=status, message=f"{said}; {reason}")


def _not_begun(x: Array, value: float, grad: Array | None) -> OptimizeResult:
    """The result if fun or jac is not finite at the start. SciPy would waste its evaluations."""
    what = f"fun is {value}" if grad is None or not np.isfinite(value) else "jac is not finite"
    message = f"{what} at the start, so that there is no way to go: choose another x0"
    jac, njev = (np.full_like(x, np.nan), 0) if grad is None else (grad, 1)
    end = {"success": False, "status": NOT_FINITE, "message": message, "verdict": None}
    return OptimizeResult(x=x, fun=value, jac=jac, nit=0, nfev=1, njev=njev, escapes=0, **end)
