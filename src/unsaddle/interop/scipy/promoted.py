"""NEON-A with a method of SciPy as its first-order method: run, look, leave the saddle, run again."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import Bounds, OptimizeResult
from scipy.optimize import minimize as scipy_minimize
from torch import Tensor

from unsaddle import checks, vectors
from unsaddle.curvature.result import Status
from unsaddle.escape import by_line_search
from unsaddle.interop.scipy.free import FreeFunction, free_variables
from unsaddle.interop.scipy.gradient_check import check_gradient as check_against_values
from unsaddle.interop.scipy.problem import Array, Problem
from unsaddle.verdict import Verdict, is_minimum

METHODS = (
    "CG",
    "BFGS",
    "L-BFGS-B",
    "TNC",
    "SLSQP",
    "Newton-CG",
    "trust-ncg",
    "trust-krylov",
    "trust-exact",
    "trust-constr",
)
"""SciPy's methods that use gradients."""

BOUNDED = ("L-BFGS-B", "TNC", "SLSQP", "trust-constr")
"""Those of them that take bounds."""

BUDGETS = {"maxiter": "nit", "maxfun": "nfev", "maxfev": "nfev"}
"""Options of SciPy's methods that bound all of a run, and the field of the result that counts against them."""

UNDECIDED, TOO_MANY_ESCAPES, STUCK, BUDGET = 100, 101, 102, 103
"""`status` where SciPy has converged but this is not known to be a minimum; SciPy's own are all below."""

FARTHER = (Status.FLAT, Status.NOT_CONFIRMED, Status.NOT_QUADRATIC)
"""Where a longer probe may decide what a short one did not."""

LONG = 1e-3
"""The first length of a step, times max(1, ‖x‖)."""

COUNTS = ("nit", "nfev", "njev", "nhev")


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
    ‖∇f‖ ≤ ε. The look is `is_minimum`, with gradients, or with products where `hess` or `hessp` is given. The step is a
    line search along the direction found, by values of fun, which have to fall: no point is visited twice.

    Args:
        fun, x0, args, hess, hessp, tol, callback: as SciPy has them; the callback sees every run.
        method: one of `METHODS`; None for SciPy's choice.
        jac: as SciPy has it. Without one the gradients of the look are finite differences as well, which costs d or 2d
            values each and widens the error of what is measured.
        bounds: for the methods that take them. The look is within the free variables, those at no bound.
        constraints: none.
        options: as SciPy has them; `maxiter`, `maxfun` and `maxfev` bound all runs together.
        gamma: curvatures down to −γ are let pass. By default a hundredth of the largest |eigenvalue|.
        delta: the probability over the random start of a look that it misses a curvature below −γ.
        max_escapes: at most so many saddles are left.
        check_gradient: compare jac with values of fun where SciPy begins, for two values, and raise if it is wrong.
        seed: of the looks.

    Returns:
        SciPy's result of the last run, with `nit`, `nfev`, `njev` and `nhev` of all runs and looks, and with

        - `verdict`: what `is_minimum` says about x; None where SciPy did not converge or no variable is free;
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
    method = _checked_method(method, bounds, constraints)
    gamma = None if gamma is None else checks.positive(gamma, "gamma", "leave it out to take a hundredth of L1")
    checks.probability(delta, "delta")
    checks.count(max_escapes, "max_escapes", at_least=0)
    args = args if isinstance(args, tuple) else (args,)
    x = np.atleast_1d(np.asarray(x0, dtype=np.float64))
    if x.ndim != 1:
        raise ValueError(f"x0 must have one dimension, got shape {x.shape}; use x0.ravel()")
    lower, upper = _limits(bounds, x.size)
    problem = Problem(fun, jac, args, lower, upper)
    curvature = _Products(hess, hessp, args)
    value, gradient = problem.scipy_functions
    if check_gradient and problem.differences is None:
        start = np.clip(x, lower, upper)
        # SciPy's first gradient, which it counts, and which it will be given from memory.
        check_against_values(problem, start, problem.gradient(start), seed)
    total = dict.fromkeys(COUNTS, 0)
    options = dict(options or {})
    escapes, lowest = 0, math.inf
    while True:
        result = scipy_minimize(
            value,
            x,
            method=method,
            jac=gradient,
            hess=curvature.hess,
            hessp=curvature.hessp,
            bounds=bounds,
            tol=tol,
            callback=callback,
            options=_what_is_left(options, total),
        )
        result.setdefault("njev", result.nfev)  # TNC takes both at once, and counts them so.
        for name in COUNTS:
            total[name] += int(result.get(name, 0) or 0)
        verdict: Verdict | None = None
        x, here = np.array(result.x, dtype=np.float64), float(result.fun)
        if not result.success:
            break
        free = free_variables(x, problem.probe_gradient(x), lower, upper)
        if not free.any():
            break
        f = FreeFunction(problem, x, here, free, curvature.at(x))
        verdict = _look(f, gamma, delta, seed + escapes)
        if verdict.kind == "minimum":
            break
        if verdict.kind == "undecided":
            _fail(result, UNDECIDED, f"but whether this is a minimum is undecided. {verdict.reason}")
            break
        if escapes == max_escapes:
            _fail(result, TOO_MANY_ESCAPES, f"but this is a saddle, and {escapes} have been left: raise max_escapes")
            break
        if any(name in options and total[count] >= options[name] for name, count in BUDGETS.items()):
            _fail(result, BUDGET, "but this is a saddle, and the budget is spent: raise maxiter or maxfun")
            break
        moved = _step(f, verdict)
        if moved is None or not here < lowest:
            _fail(result, STUCK, "but this is a saddle by its gradients, along which the values of fun do not fall")
            break
        x, lowest, escapes = f.full(moved), here, escapes + 1
    total["nfev"] += problem.nfev
    total["njev"] += problem.njev
    total["nhev"] += curvature.nhev
    for name in COUNTS:
        if name in result:
            result[name] = total[name]
    result.update(verdict=verdict, escapes=escapes)
    return result


def neon(
    fun: Callable[..., Any],
    x0: Array,
    args: tuple[Any, ...] = (),
    jac: Any = None,
    hess: Any = None,
    hessp: Any = None,
    bounds: Any = None,
    constraints: Any = (),
    callback: Callable[..., Any] | None = None,
    *,
    method: str | None = "L-BFGS-B",
    tol: float | None = None,
    gamma: float | None = None,
    delta: float = 0.05,
    max_escapes: int = 100,
    check_gradient: bool = True,
    seed: int = 0,
    **options: Any,
) -> OptimizeResult:
    """`minimize` as a custom method: `scipy.optimize.minimize(fun, x0, jac=jac, method=neon)`.

    The method underneath and what else `minimize` takes are options, beside those of that method:

    >>> def f(x): return x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4
    >>> options = {"method": "BFGS", "gamma": 0.1, "maxiter": 50}
    >>> abs(scipy_minimize(f, [0.0, 0.0], method=neon, options=options).x).round(3).tolist()
    [0.0, 1.414]
    """
    return minimize(
        fun,
        x0,
        args=args,
        method=method,
        jac=jac,
        hess=hess,
        hessp=hessp,
        bounds=bounds,
        constraints=constraints,
        tol=tol,
        callback=callback,
        options=options,
        gamma=gamma,
        delta=delta,
        max_escapes=max_escapes,
        check_gradient=check_gradient,
        seed=seed,
    )


def _look(f: FreeFunction, gamma: float | None, delta: float, seed: int) -> Verdict:
    """The verdict; SciPy has decided that the point is stationary, so its gradient is, whatever its norm.

    What is undecided because gradients do not add up to a Hessian is looked at once more, from farther away.
    """
    everything = float(np.finfo(np.float64).max) / 4.0
    verdict = is_minimum(f, eps=everything, gamma=gamma, delta=delta, start_delta=delta, seed=seed)
    if verdict.kind == "undecided" and verdict.evidence.status in FARTHER:
        f.look_farther(gamma)
        again = is_minimum(f, eps=everything, gamma=gamma, delta=delta, start_delta=delta, seed=seed)
        if again.kind != "undecided":
            verdict = again
    return replace(verdict, eps=verdict.gradient_norm + verdict.gradient_error)


def _step(f: FreeFunction, verdict: Verdict) -> Tensor | None:
    """The line search along the direction: from a thousandth of ‖x‖ on, or from the resolution if that does not fall.

    From the resolution it would take some thirty values of fun to come to where it matters.
    """
    assert verdict.direction is not None
    far = LONG * max(1.0, vectors.norm(f.point))
    for first_length in (far, verdict.resolution):
        moved = by_line_search(
            f.sample(), f.point, verdict.direction, curvature=abs(verdict.curvature), first_length=first_length
        )
        if moved is not None:
            return moved
    return None


def _fail(result: OptimizeResult, status: int, reason: str) -> None:
    result.update(success=False, status=status, message=f"{result.message}; {reason}")


class _Products:
    """hess and hessp, counted, and the products that a look may use."""

    def __init__(self, hess: Any, hessp: Any, args: tuple[Any, ...]) -> None:
        self._hess, self._hessp, self._args = hess, hessp, args
        self._last: tuple[Array, Any] | None = None
        self.nhev = 0
        self.hess = self._evaluate if callable(hess) else hess
        self.hessp = None if hessp is None else self._multiply

    def at(self, x: Array) -> Callable[[Array], Any] | None:
        """p ↦ ∇²f(x)p; None where neither was given."""
        if callable(self._hess):
            if self._last is None or not np.array_equal(self._last[0], x):
                self.nhev += 1
                self._evaluate(x)
            assert self._last is not None
            matrix = self._last[1]
            return lambda p: matrix @ p
        if self._hessp is None:
            return None

        def product(p: Array) -> Any:
            self.nhev += 1
            return self._multiply(x, p)

        return product

    def _evaluate(self, x: Array) -> Any:
        matrix = self._hess(np.copy(x), *self._args)
        self._last = np.copy(x), matrix
        return matrix

    def _multiply(self, x: Array, p: Array) -> Any:
        return self._hessp(np.copy(x), np.copy(p), *self._args)


def _checked_method(method: str | None, bounds: Any, constraints: Any) -> str:
    if isinstance(constraints, dict) or not isinstance(constraints, (tuple, list)) or len(constraints) > 0:
        raise ValueError(
            "constraints are not supported: the curvature that matters is that of the Lagrangian on the constraints' "
            "tangent space; bounds are, as bounds="
        )
    if method is None:
        return "BFGS" if bounds is None else "L-BFGS-B"
    by_name = {name.lower(): name for name in METHODS}
    if not isinstance(method, str) or method.lower() not in by_name:
        raise ValueError(f"method must be one that uses gradients, {', '.join(METHODS)}; got {method!r}")
    name = by_name[method.lower()]
    if bounds is not None and name not in BOUNDED:
        raise ValueError(f"{name} takes no bounds; use one of {', '.join(BOUNDED)}, or leave bounds out")
    return name


def _limits(bounds: Any, dimension: int) -> tuple[Array, Array]:
    """Lower and upper bounds of every variable."""
    if bounds is None:
        return np.full(dimension, -np.inf), np.full(dimension, np.inf)
    if isinstance(bounds, Bounds):
        pairs = bounds.lb, bounds.ub
    else:
        rows = [tuple(row) for row in bounds]
        if len(rows) != dimension or any(len(row) != 2 for row in rows):
            raise ValueError(f"bounds must be {dimension} pairs (lower, upper), or a Bounds; got {bounds!r}")
        pairs = (
            np.array([-np.inf if low is None else low for low, _ in rows], dtype=np.float64),
            np.array([np.inf if high is None else high for _, high in rows], dtype=np.float64),
        )
    try:
        lower, upper = (np.array(np.broadcast_to(side, dimension), dtype=np.float64) for side in pairs)
    except ValueError:
        raise ValueError(f"bounds must be for {dimension} variables, got {bounds!r}") from None
    if np.any(lower > upper):
        raise ValueError(f"each lower bound must be at most the upper one, got {bounds!r}")
    return lower, upper


def _what_is_left(options: dict[str, Any], spent: dict[str, int]) -> dict[str, Any]:
    """SciPy's options, its budgets lowered by what earlier runs took."""
    left = {name: max(1, options[name] - spent[count]) for name, count in BUDGETS.items() if name in options}
    return options | left
