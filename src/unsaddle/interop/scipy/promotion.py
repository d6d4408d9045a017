"""NEON-A with a method of SciPy as its first-order method: run, look, leave the saddle, run again."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult
from scipy.optimize import minimize as scipy_minimize

from unsaddle import checks
from unsaddle.interop.scipy.arguments import OUR_OWN, checked_method, limits, scipys_options
from unsaddle.interop.scipy.bounded_verdict import verdict_at
from unsaddle.interop.scipy.counted_function import CountedFunction
from unsaddle.interop.scipy.free_function import EndPoint
from unsaddle.interop.scipy.gradient_check import check_beside
from unsaddle.interop.scipy.gradient_check import check_gradient as check_against_values
from unsaddle.judgement.verdict import Verdict
from unsaddle.objectives.differences import Array

BUDGETS = {"maxiter": "nit", "maxfun": "nfev", "maxfev": "nfev"}
"""Options of SciPy's methods that bound all of a run, and the field of the result that counts against them."""

UNDECIDED, TOO_MANY_ESCAPES, STUCK, BUDGET = 100, 101, 102, 103
"""`status` where SciPy has converged but this is not known to be a minimum; SciPy's own are all below."""

NOT_FINITE = 104
"""`status` where there is nothing to begin with."""

SCIPYS = ("method", "jac", "hess", "hessp", "bounds", "constraints", "tol", "callback")
"""Arguments of `minimize` that are SciPy's, and no options of a method."""


def minimize(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: str | None = "L-BFGS-B",
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
    """`scipy.optimize.minimize`, not ending at saddles: when SciPy has converged, look; if it is a saddle, leave it.

    This is Algorithm 4 (NEON-A) with a method of SciPy in the place of 𝒜 and its test of convergence in the place of
    ‖∇f‖ ≤ ε. The look is `verdict_at`, with gradients, or with products where `hess` or `hessp` is given. The step is
    a line search along the direction found, by values of fun, which have to fall: no point is visited twice.

    Args:
        fun, x0, args, hess, hessp, tol, callback: as SciPy has them; the callback sees every run.
        method: one of `arguments.METHODS`; None for SciPy's choice.
        jac: as SciPy has it. Without one the gradients of the look are finite differences as well, which costs d or 2d
            values each and widens the error of what is measured.
        bounds: for the methods that take them. The look is within the variables that are not held at one.
        constraints: none.
        options: as SciPy has them; `maxiter`, `maxfun` and `maxfev` bound all runs together. None of the arguments
            below.
        gamma: curvatures down to −γ are let pass. By default a hundredth of the largest |eigenvalue|.
        delta: the probability over the random start of a look that it misses a curvature below −γ.
        max_escapes: at most so many saddles are left.
        check_gradient: compare jac with values of fun where a run begins and, before a minimum is claimed, where it
            ends, for two values each, and raise if it is wrong.
        seed: of the looks.

    Returns:
        SciPy's result of the last run, with `nit`, `nfev`, `njev` and `nhev` of all runs and looks, and with

        - `verdict`: what is known about x, as `is_minimum` says it; None where SciPy did not converge;
        - `escapes`: how many saddles were left.

        `success` means that SciPy has converged and that the verdict is *minimum*. Otherwise `message` says why.

    >>> def f(x): return x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4
    >>> def g(x): return np.array([2 * x[0], -2 * x[1] + x[1] ** 3])
    >>> scipy_minimize(f, [1, 0], jac=g, method="BFGS").x.round(6).tolist()      # success, at the saddle
    [0.0, 0.0]
    >>> result = minimize(f, [1, 0], jac=g, method="BFGS")
    >>> result.success, abs(result.x).round(3).tolist(), result.escapes, result.verdict.kind
    (True, [0.0, 1.414], 1, 'minimum')
    """
    method = checked_method(method, bounds, constraints)
    options = scipys_options(options)
    gamma = None if gamma is None else checks.positive(gamma, "gamma", "leave it out to take a hundredth of L1")
    checks.probability(delta, "delta")
    checks.count(max_escapes, "max_escapes", at_least=0)
    args = args if isinstance(args, tuple) else (args,)
    x = np.atleast_1d(np.asarray(x0, dtype=np.float64))
    if x.ndim != 1:
        raise ValueError(f"x0 must have one dimension, got shape {x.shape}; use x0.ravel()")
    lower, upper = limits(bounds, x.size)
    function = CountedFunction(fun, jac, args, lower, upper, hess, hessp)
    start = np.clip(x, lower, upper)
    first, slope = function.begin(start)
    if not np.isfinite(first) or (slope is not None and not np.isfinite(slope).all()):
        return _not_begun(start, first, slope)
    by_values = check_gradient and function.differences is None
    if by_values and slope is not None:
        check_against_values(function, start, slope, seed)
    total = {"nit": 0, "nfev": 0, "njev": 0, "nhev": 0}
    escapes, lowest = 0, math.inf
    while True:
        result = scipy_minimize(
            x0=x,
            method=method,
            bounds=bounds,
            tol=tol,
            callback=callback,
            options=_what_is_left(options, total),
            **function.for_scipy(),
        )
        result.setdefault("njev", result.nfev)  # TNC takes both at once, and counts them so.
        for name in total:
            total[name] += int(result.get(name, 0) or 0)
        verdict: Verdict | None = None
        x, here = np.array(result.x, dtype=np.float64), float(result.fun)
        if not result.success:
            break
        end = EndPoint(function=function, x=x, value=here, start=start)
        judged = verdict_at(end, gamma=gamma, delta=delta, seed=seed + escapes, by_values=by_values)
        verdict = judged.verdict
        if verdict.kind == "minimum":
            break
        if verdict.kind == "undecided":
            _fail(result, UNDECIDED, f"but whether this is a minimum is undecided. {verdict.reason}")
            break
        if escapes == max_escapes:
            _fail(result, TOO_MANY_ESCAPES, f"but this is a saddle, and {escapes} have been left: raise max_escapes")
            break
        if any(total[count] >= options[name] for name, count in _budgets(options).items()):
            _fail(result, BUDGET, "but this is a saddle, and the budget is spent: raise maxiter or maxfun")
            break
        moved = judged.step()
        if moved is None and by_values and verdict.direction is not None:
            check_beside(function, x, judged.f.embedded(verdict.direction), judged.f.size, seed)
        if moved is None or not here < lowest:
            _fail(result, STUCK, "but this is a saddle by its gradients, along which the values of fun do not fall")
            break
        x, lowest, escapes = moved, here, escapes + 1
        if by_values:  # What was right at a symmetric start may be wrong here.
            check_against_values(function, x, function.gradient(x), seed + escapes, "after leaving a saddle")
    # Calls of fun and jac are counted where they are made; differences and Hessians of SciPy's own by SciPy.
    counts = total | {"nfev": function.nfev, "njev": function.njev + (total["njev"] if function.differences else 0)}
    counts["nhev"] += function.nhev
    result.update({name: count for name, count in counts.items() if name in result}, verdict=verdict, escapes=escapes)
    return result


def neon(fun: Callable[..., Any], x0: Array, args: tuple[Any, ...] = (), **given: Any) -> OptimizeResult:
    """`minimize` as a custom method: `scipy.optimize.minimize(fun, x0, jac=jac, method=neon)`.

    The method underneath and what else `minimize` takes are options, beside those of that method:

    >>> def f(x): return x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4
    >>> options = {"method": "BFGS", "gamma": 0.1, "maxiter": 50}
    >>> abs(scipy_minimize(f, [0.0, 0.0], method=neon, options=options).x).round(3).tolist()
    [0.0, 1.414]
    """
    arguments = {name: given.pop(name) for name in (*SCIPYS, *OUR_OWN) if name in given}
    return minimize(fun, x0, args, options=given, **arguments)


def _fail(result: OptimizeResult, status: int, reason: str) -> None:
    result.update(success=False, status=status, message=f"{result.message}; {reason}")


def _not_begun(x: Array, value: float, grad: Array | None) -> OptimizeResult:
    """The result where fun or jac is not finite at the start: SciPy would spend its evaluations on nothing."""
    what = f"fun is {value}" if grad is None or not np.isfinite(value) else "jac is not finite"
    message = f"{what} at the start, so that there is no way to go: choose another x0"
    jac, njev = (np.full_like(x, np.nan), 0) if grad is None else (grad, 1)
    end = {"success": False, "status": NOT_FINITE, "message": message, "verdict": None}
    return OptimizeResult(x=x, fun=value, jac=jac, nit=0, nfev=1, njev=njev, escapes=0, **end)


def _what_is_left(options: dict[str, Any], spent: dict[str, int]) -> dict[str, Any]:
    """SciPy's options, its budgets lowered by what earlier runs took."""
    return options | {name: max(1, options[name] - spent[count]) for name, count in _budgets(options).items()}


def _budgets(options: dict[str, Any]) -> dict[str, str]:
    """Those of `BUDGETS` that are given; None is SciPy's for none."""
    return {name: count for name, count in BUDGETS.items() if options.get(name) is not None}
