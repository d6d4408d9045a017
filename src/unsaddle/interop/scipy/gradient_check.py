"""Whether a gradient is that of its function: values along a random line, and component by component if not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from unsaddle.interop.scipy.problem import CENTRAL, EPS, Array, Problem

STEPS = (1.0, 1.0 / 30.0, 30.0, 900.0)
"""Steps of differences, in units of the cube root of the precision times |x_i| (or 1, where x_i is zero): the first is
best for smooth functions in double precision, functions that vary quickly need shorter ones, and those that compute in
less precision longer ones."""

TOLERANCE = 1e-7
"""A difference that is so near to the derivative, as a share of the gradient's norm, agrees with it."""

NEGLIGIBLE = 1e-2
"""And so does one that is off by less than this share of how much the derivative changes over the step: at a stationary
point both are rounding."""

BELIEVED = 0.1
"""Two differences are believed against jac if they are this much nearer to each other than to it."""


def check_gradient(problem: Problem, x: Array, grad: Array, seed: int) -> None:
    """Raise if grad is not the gradient at x, as far as values tell, naming the worst component. Two values, mostly.

    A wrong gradient differs from the differences at every step, and these agree among themselves. What fails otherwise
    (a jump, noise, a kink) is not the gradient's fault and is left to the verdict.
    """
    v = np.random.default_rng(seed).standard_normal(x.size)
    v /= np.linalg.norm(v)
    if not np.isfinite(grad).all() or _disagreement(problem.probe_value, problem, x, v, grad) is None:
        return
    worst, error = None, 0.0
    for i in range(x.size):
        difference = _disagreement(problem.probe_value, problem, x, np.eye(1, x.size, i)[0], grad)
        if difference is not None and abs(difference - grad[i]) > error:
            worst, error, by_values = i, abs(difference - grad[i]), difference
    if worst is not None:
        raise ValueError(
            f"jac is not the gradient of fun: near the start, component {worst} is {grad[worst]:.6g} by jac but "
            f"{by_values:.6g} by differences of fun, the worst of {x.size}; correct jac, or pass jac=None"
        )


def _disagreement(value: Callable[[Array], float], problem: Problem, x: Array, v: Array, grad: Array) -> float | None:
    """The derivative along v by values, where it is not grad·v; None if it agrees, or if nothing can be said."""
    scale, here, before = np.where(x == 0.0, 1.0, np.abs(x)), None, np.nan
    for step in STEPS:
        h = step * CENTRAL * scale
        above, below = (np.clip(x + side * h * v, problem.lower, problem.upper) for side in (1.0, -1.0))
        between = above - below
        length = float(np.linalg.norm(between))
        if length == 0.0:
            return None
        high, low = value(above), value(below)
        off = abs(high - low - float(grad @ between))
        rounding = 16.0 * EPS * (abs(high) + abs(low))
        if not off > TOLERANCE * float(np.linalg.norm(grad * between)) * x.size**0.5 + rounding:
            return None
        if here is None:
            here = value(x)
        if not off > NEGLIGIBLE * abs(high - 2.0 * here + low):
            return None
        derivative = (high - low) / length
        if abs(derivative - before) <= BELIEVED * off / length:
            return derivative
        before = derivative
    return None
