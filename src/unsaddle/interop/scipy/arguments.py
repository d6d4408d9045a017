"""Checks of the arguments of `minimize`: method, constraints, bounds and options."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import Bounds

from unsaddle.objectives.differences import Array

BOUNDED = ("L-BFGS-B", "TNC", "SLSQP", "trust-constr")
"""SciPy's methods that use gradients and take bounds."""

METHODS = ("CG", "BFGS", *BOUNDED[:3], "Newton-CG", "trust-ncg", "trust-krylov", "trust-exact", "trust-constr")
"""SciPy's methods that use gradients."""

OUR_OWN = ("gamma", "delta", "max_escapes", "check_gradient", "seed")
"""Arguments of `minimize` that SciPy's methods do not have."""


def checked_method(method: str | None, bounds: Any, constraints: Any) -> str:
    """SciPy's name of the method. Raises ValueError if it, or its use here, is not supported."""
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


def limits(bounds: Any, dimension: int) -> tuple[Array, Array]:
    """The lower and upper bound of every variable."""
    if bounds is None:
        return np.full(dimension, -np.inf), np.full(dimension, np.inf)
    if isinstance(bounds, Bounds):
        pairs = bounds.lb, bounds.ub
    else:
        rows = [tuple(row) for row in bounds]
        if len(rows) != dimension or any(len(row) != 2 for row in rows):
            raise ValueError(f"bounds must be {dimension} pairs (lower, upper), or a Bounds; got {bounds!r}")
        lows, highs = (
            [-np.inf if low is None else low for low, _ in rows],
            [np.inf if up is None else up for _, up in rows],
        )
        pairs = np.array(lows, dtype=np.float64), np.array(highs, dtype=np.float64)
    try:
        lower, upper = (np.array(np.broadcast_to(side, dimension), dtype=np.float64) for side in pairs)
    except ValueError:
        raise ValueError(f"bounds must be for {dimension} variables, got {bounds!r}") from None
    if np.any(lower > upper):
        raise ValueError(f"each lower bound must be at most the upper one, got {bounds!r}")
    return lower, upper


def scipys_options(options: dict[str, Any] | None) -> dict[str, Any]:
    """A copy of the options. Raises ValueError if one is an argument of `minimize`: SciPy would warn and ignore it."""
    options = dict(options or {})
    for name in OUR_OWN:
        if name in options:
            right = f"pass it as minimize(..., {name}={options[name]!r})"
            raise ValueError(f"{name} is an argument of minimize and no option of SciPy's methods; {right}")
    return options
