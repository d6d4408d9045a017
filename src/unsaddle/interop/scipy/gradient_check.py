"""Whether jac is the gradient of fun, by values along a line and, if not, component by component."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unsaddle.interop.scipy.counted_function import CountedFunction
from unsaddle.interop.scipy.free_function import TINY, Mask
from unsaddle.objectives.differences import CENTRAL, EPS, FORWARD, Array

STEPS, OTHERS = (1.0, 1.0 / 30.0, 30.0, 900.0), (1e-3, 3e-5, 1e3)
"""Steps of differences, in units of the cube root of the precision times |x_i| or 1. The first suits smooth functions,
shorter ones suit quick functions, longer ones functions of low precision. `OTHERS` check a contradiction once more."""

TOLERANCE, NEGLIGIBLE = 1e-7, 1e-2
"""A difference agrees with the derivative within the first share of the gradient's norm, or within the second share of
the change of the derivative over the step. At a stationary point both are rounding."""

BELIEVED = 0.1
"""Differences are believed against jac if they differ by at most this share of their distance from jac."""

SECOND = EPS**0.25
"""The step of second differences, times the size of x, at which rounding and truncation are equal."""

SECOND_STEPS = (10.0, 1.0, 0.1, 0.01)
"""Steps of second differences, in units of `SECOND`. The second is tried first. Three in a row have to agree against
jac: two can agree by accident, if the function turns over their length."""

SECOND_TOLERANCE = 1e-4
"""A second difference agrees with the curvature within this share of the largest curvature."""

ROUNDING = 16.0 * EPS
"""Relative rounding of a value."""

SHOWN = 6
"""Gradients of up to so many components are shown as a whole: one sees that two are swapped, or a sign is wrong."""

BESIDE = 1e-2
"""The distance from x, as a share of its size, at which `check_beside` compares jac."""


def check_gradient(
    function: CountedFunction,
    x: Array,
    grad: Array,
    seed: int,
    where: str = "near the start",
    among: Mask | None = None,
) -> None:
    """Raises ValueError if grad is not the gradient at x by values, and names the worst component. Mostly two values.

    A gradient is wrong if it differs from the differences at every step, and these agree with each other. A jump, noise
    or a kink is left to the verdict. The line is along the variables in `among`, by default all. At a bound differences
    are one-sided and see less.
    """
    v = np.random.default_rng(seed).standard_normal(x.size) * (1.0 if among is None else among)
    v /= np.linalg.norm(v)
    if not np.isfinite(grad).all() or _disagreement(function, x, v, grad) is None:
        return
    worst, error = None, 0.0
    by_values = grad.copy()
    for i in range(x.size):
        difference = _disagreement(function, x, np.eye(1, x.size, i)[0], grad)
        if difference is not None:
            by_values[i] = difference
            if abs(difference - grad[i]) > error:
                worst, error = i, abs(difference - grad[i])
    if worst is not None:
        few = x.size <= SHOWN
        both = f" (jac: {_listed(grad)}, differences: {_listed(by_values)})" if few else f", the worst of {x.size}"
        raise ValueError(
            f"jac is not the gradient of fun: {where}, component {worst} is {grad[worst]:.6g} by jac but "
            f"{by_values[worst]:.6g} by differences of fun{both}; correct jac, or pass jac=None"
        )


def contradicting_curvature(
    function: CountedFunction, x: Array, value: float, v: Array, *, curvature: float, largest: float, size: float
) -> float | None:
    """The curvature along a unit v by values, if it contradicts the one by gradients; else None. Mostly two values.

        (f(x+hv) − 2f(x) + f(x−hv))/h²

    A gradient may be wrong only where some coordinate is not zero. It is then right at a symmetric start and at the
    point that it leads to, but its derivative is wrong there. Returns None if bounds leave no room or h² underflows.
    `curvature` and `largest` are by gradients: along v, and the largest seen. `size` is the scale of x, for the steps.
    """

    def difference(step: float, size: float = size) -> tuple[float, bool]:
        """The second difference, and whether it contradicts the curvature."""
        h = step * SECOND * size
        if h**2 < TINY or not (function.inside(x + h * v) and function.inside(x - h * v)):
            return np.nan, False
        ends = _opposite(function, x, h * v)
        rounding = ends.rounding + 2.0 * ROUNDING * abs(value)
        by_values = ends.bend(value) / h**2
        return by_values, abs(by_values - curvature) > SECOND_TOLERANCE * largest + rounding / h**2

    if not difference(SECOND_STEPS[1])[1]:
        return None
    tried = [difference(step) for step in SECOND_STEPS]
    for three in (tried[1:], tried[:3]):
        differences = np.array([by_values for by_values, _ in three])
        off = np.abs(differences - curvature).min()
        if all(contradicts for _, contradicts in three) and np.ptp(differences) <= BELIEVED * off:
            # Around a tiny x values may not change at all. At a length of 1 they do.
            unseen = not differences.any() and not difference(1.0, max(1.0, size))[1]
            return None if unseen else float(np.median(differences))
    return None


def check_beside(function: CountedFunction, x: Array, v: Array, size: float, seed: int) -> None:
    """Raises ValueError if jac is not the gradient at a distance from x along v. Costs a gradient."""
    x, where = (
        np.clip(x + BESIDE * size * v, function.lower, function.upper),
        "beside the point where SciPy has converged",
    )
    check_gradient(function, x, function.gradient(x), seed, where, among=v != 0.0)


def _listed(numbers: Array) -> str:
    return f"[{', '.join(f'{number:.4g}' for number in numbers)}]"


class _Ends(NamedTuple):
    """Values at both ends of a line through x."""

    high: float
    low: float
    between: Array
    """The high end minus the low end."""
    length: float

    @property
    def slope(self) -> float:
        return (self.high - self.low) / self.length

    @property
    def rounding(self) -> float:
        return ROUNDING * (abs(self.high) + abs(self.low))

    def bend(self, value: float) -> float:
        """f(x+h) − 2f(x) + f(x−h), given f(x)."""
        return self.high - 2.0 * value + self.low


def _opposite(function: CountedFunction, x: Array, offset: Array) -> _Ends:
    """Values at x ± offset, clipped to the bounds; nan if these leave no room."""
    above, below = (np.clip(x + side * offset, function.lower, function.upper) for side in (1.0, -1.0))
    between = above - below
    length = float(np.linalg.norm(between))
    if length == 0.0:
        return _Ends(np.nan, np.nan, between, np.nan)
    return _Ends(function.value(above), function.value(below), between, length)


def _disagreement(function: CountedFunction, x: Array, v: Array, grad: Array) -> float | None:
    """The derivative along v by values, if it contradicts grad·v; else None."""
    # A coordinate that is zero up to rounding has steps as one of size 1.
    scale = np.where(np.abs(x) <= FORWARD * np.abs(x).max(), 1.0, np.abs(x))
    here, before = None, np.nan
    for step in STEPS:
        ends = _opposite(function, x, step * CENTRAL * scale * v)
        off = abs(ends.high - ends.low - float(grad @ ends.between))
        if not off > TOLERANCE * float(np.linalg.norm(grad * ends.between)) * x.size**0.5 + ends.rounding:
            return None
        if here is None:
            here = function.value(x)
        if not off > NEGLIGIBLE * abs(ends.bend(here)):
            return None
        if abs(ends.slope - before) <= BELIEVED * off / ends.length:
            return None if _was_seen_wrong(function, x, v, grad, scale, ends.slope) else ends.slope
        before = ends.slope
    return None


def _was_seen_wrong(function: CountedFunction, x: Array, v: Array, grad: Array, scale: Array, believed: float) -> bool:
    """Whether differences at other steps contradict the slope that two had agreed on.

    If the function oscillates over a step, differences are nearly zero, and shorter steps come nearer to jac. If they
    are exactly zero, as for cos near x = 1e-9, a step of size 1 may see more; in single precision, a longer one does.
    """
    if believed == 0.0 and _opposite(function, x, CENTRAL * np.maximum(1.0, np.abs(x)) * v).slope != 0.0:
        return True
    for step in OTHERS:
        ends = _opposite(function, x, step * CENTRAL * scale * v)
        by_jac = float(grad @ ends.between) / ends.length
        if abs(ends.slope - by_jac) < abs(believed - by_jac) / 2.0:
            return True
    return False
