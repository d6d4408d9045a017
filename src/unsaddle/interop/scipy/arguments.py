"""Checks of the arguments of `minimize`: method, constraints, start, bounds, options and callables."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy.optimize import Bounds, HessianUpdateStrategy

from unsaddle import checks
from unsaddle.objectives.derivatives import check_callable
from unsaddle.objectives.differences import Array

BOUNDED = ("L-BFGS-B", "TNC", "SLSQP", "trust-constr")
"""SciPy's methods that use gradients and take bounds."""

METHODS = ("CG", "BFGS", *BOUNDED[:3], "Newton-CG", "trust-ncg", "trust-krylov", "trust-exact", "trust-constr")
"""SciPy's methods that use gradients."""

OUR_OWN = ("gamma", "delta", "max_escapes", "check_gradient", "seed")
"""Arguments of `minimize` that SciPy's methods do not have."""

BUDGETS = {"maxiter": "nit", "maxfun": "nfev"}
"""Options of SciPy's methods that bound a run, and the fields of the result that count against them."""

NO_LIMIT = 2**31 - 1
"""The largest bound that all methods take. Some of them count in C."""

WITH_HESSIAN = ("trust-ncg", "trust-krylov", "trust-exact")
"""Methods that need the Hessian."""

WITH_MAXFUN = ("L-BFGS-B", "TNC")
"""Methods that have the option maxfun. The others warn that they do not know it, and go on without."""


def checked_method(method: str | None, bounds: Any, constraints: Any) -> str:
    """SciPy's name of the method. Raises ValueError if it, or its use here, is not supported."""
    if constraints is not None and not (isinstance(constraints, (tuple, list)) and len(constraints) == 0):
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


def checked_start(x0: Any) -> Array:
    """x0 as a vector of float64; a number is a vector of one variable."""
    advice = "pass an array or a list of numbers"
    try:
        given = np.asarray(x0)
        if given.dtype.kind not in "fiu" and not (given.dtype == object and all(_is_number(v) for v in given.flat)):
            raise TypeError
        x = np.atleast_1d(given.astype(np.float64))
    except (TypeError, ValueError, RuntimeError):  # The last one is of a tensor that autograd follows.
        raise TypeError(f"x0 must be real numbers, got {x0!r}; {advice}") from None
    if x.ndim != 1:
        raise ValueError(f"x0 must have one dimension, got shape {x.shape}; use x0.ravel()")
    if x.size == 0:
        raise ValueError(f"x0 is empty; {advice}, one for each variable")
    return x


def checked_bounds(bounds: Any) -> Any:
    """The bounds, read once: None, a Bounds, or a list of what came, which may be a zip."""
    if bounds is None or isinstance(bounds, Bounds):
        return bounds
    try:
        return [tuple(row) for row in bounds]
    except TypeError:
        raise TypeError(
            f"bounds must be pairs (lower, upper), one for each variable, or a Bounds; got {bounds!r}"
        ) from None


def check_others(method: str, jac: Any, hess: Any, hessp: Any, tol: Any, callback: Any) -> None:
    """Raises if one of these is nothing that SciPy's method could use."""
    if method in ("Newton-CG", *WITH_HESSIAN) and not (callable(jac) or jac is True):
        raise ValueError(f"{method} needs jac, a callable or True, got {jac!r}; pass it, or use BFGS, which needs none")
    if method in WITH_HESSIAN and hess is None and (hessp is None or method == "trust-exact"):
        wanted = "hess" if method == "trust-exact" else "hess or hessp"
        raise ValueError(f"{method} needs {wanted}; pass it, or use a method that needs gradients only, such as BFGS")
    if not (hess is None or callable(hess) or isinstance(hess, (str, HessianUpdateStrategy))):
        raise TypeError(f"hess must be a callable, a scheme of differences or a HessianUpdateStrategy, got {hess!r}")
    for name, value in {"hessp": hessp, "callback": callback}.items():
        if value is not None and (isinstance(value, type) or not callable(value)):
            raise TypeError(f"{name} must be a callable, got {value!r}; leave it out if there is none")
    try:
        told = inspect.signature(callback or print)  # SciPy asks for it.
    except ValueError:
        raise TypeError(
            f"callback must be a function that tells its arguments, got {callback!r}; use a lambda"
        ) from None
    if callback is not None and set(told.parameters) != {"intermediate_result"}:
        check_callable(callback, "callback", ("x", "state") if method == "trust-constr" else ("x",))
    if not (tol is None or _is_number(tol)):
        raise TypeError(f"tol must be a number, got {tol!r}; leave it out for the default of the method")


def budgets_of(method: str, options: dict[str, Any]) -> dict[str, str]:
    """The entries of `BUDGETS` that the options set, among those that the method knows."""
    if method == "trust-constr" and "maxfun" in options:
        raise ValueError("trust-constr has no option maxfun; use maxiter")
    known = ("maxiter", "maxfun") if method in WITH_MAXFUN else ("maxiter",)
    return {name: BUDGETS[name] for name in known if options.get(name) is not None}


@contextmanager
def of_known_options(method: str) -> Iterator[None]:
    """Says in our words that the method does not know an option. Most methods warn of it, trust-constr raises."""
    try:
        yield
    except TypeError as error:
        if "unexpected keyword argument" not in str(error) or not checks.module_of(error).startswith("scipy."):
            raise
        name = str(error).rpartition("argument ")[2]
        raise TypeError(f"{method} has no option {name}; leave it out of options") from error


def limits(bounds: Any, dimension: int) -> tuple[Array, Array]:
    """The lower and upper bound of every variable."""
    if bounds is None:
        return np.full(dimension, -np.inf), np.full(dimension, np.inf)
    if isinstance(bounds, Bounds):
        pairs = bounds.lb, bounds.ub
    else:
        rows = checked_bounds(bounds)
        if len(rows) != dimension or any(len(row) != 2 for row in rows):
            raise ValueError(f"bounds must be {dimension} pairs (lower, upper), or a Bounds; got {bounds!r}")
        lows, highs = (
            [-np.inf if low is None else low for low, _ in rows],
            [np.inf if up is None else up for _, up in rows],
        )
        pairs = lows, highs
    try:
        lower, upper = (np.array(np.broadcast_to(side, dimension), dtype=np.float64) for side in pairs)
    except (TypeError, ValueError):
        raise ValueError(f"bounds must be numbers for {dimension} variables, got {bounds!r}") from None
    if not np.all(lower <= upper):
        raise ValueError(f"each lower bound must be at most the upper one, got {bounds!r}")
    return lower, upper


def scipys_options(options: dict[str, Any] | None) -> dict[str, Any]:
    """A copy of the options. Raises ValueError if one is an argument of `minimize`: SciPy would warn and ignore it."""
    if not (options is None or isinstance(options, Mapping)):
        raise TypeError(f"options must be a dictionary of options of SciPy's method, got {options!r}")
    options = dict(options or {})
    for name in BUDGETS:
        if options.get(name) is None:
            options.pop(name, None)  # For most methods None is the default. SLSQP does not take it.
            continue
        if not _is_number(options[name]) or math.isnan(options[name]):
            raise TypeError(f"the option {name} must be a number, got {options[name]!r}")
        options[name] = max(-NO_LIMIT, min(options[name], NO_LIMIT))
    for name in OUR_OWN:
        if name in options:
            right = f"pass it as minimize(..., {name}={options[name]!r})"
            raise ValueError(f"{name} is an argument of minimize and no option of SciPy's methods; {right}")
    return options


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
