"""Whether a gradient that users wrote is that of their function, by the values that come with gradients anyway."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from unsaddle.objectives.differences import EPS, Array

FAR = 1e-4
"""The least distance between two points that are compared, as a share of max(1, ‖x‖). Nearer, values say little."""

SUSPECT = 1e-3
"""Values and gradients of two points may disagree by this share. The trapezoid rule is off by less at the distance of
the first probes, a thousandth of max(1, ‖x‖), if the function is smooth."""

WRONG, BELIEVED = 1e-2, 0.1
"""A derivative is wrong if it is off by the first share, and differences of values at three distances agree with each
other within the second share of that."""

STEPS = (4.0, 16.0, 64.0)
"""These distances, as parts of that between the two points. All are on one side of x, where kinks often are."""

NEAREST = 1e-6
"""The nearest distance is at least this share of the others: x is rounded, too."""

ROUNDING = 16.0 * EPS
"""Relative rounding of a value."""


class GradientCheck:
    """Compares the first two points that are far enough apart. Raises if the gradient is not that of the values.

    Mostly it takes no evaluation. If the two points look wrong, it takes six values to be sure, and two more before it
    raises. It looks once, along one random line: it sees wrong signs and factors, but not a wrong component among
    thousands.
    """

    def __init__(self, value: Callable[[Array], float]) -> None:
        self._value, self._done = value, False
        self._first: tuple[Array, float, Array] | None = None
        self.values = 0
        """Values that were taken, and not yet counted."""

    def note(self, x: Array, value: float, grad: Array) -> None:
        """Takes in an evaluation."""
        if self._done:
            return
        if self._first is None or self._first[0].shape != x.shape:
            self._first = (x.copy(), value, grad.copy())  # The caller may change both.
            return
        before, value_before, grad_before = self._first
        line = x - before
        length = float(np.linalg.norm(line))
        if not length >= FAR * max(1.0, float(np.linalg.norm(before))):
            return
        self._done, self._first = True, None
        by_values, by_gradients = value - value_before, float((grad + grad_before) @ line) / 2.0
        rounding = ROUNDING * (abs(value) + abs(value_before))
        if abs(by_values - by_gradients) > SUSPECT * max(abs(by_values), abs(by_gradients)) + rounding:
            self._confirm(x, line / length, length, float(grad @ line) / length)

    def _confirm(self, x: Array, v: Array, length: float, by_gradient: float) -> None:
        """Raises if the derivative at x along v is wrong by values at three distances, which agree, and nearest to x.

        The nearest distance is that at which rounding is small yet. A fine texture of the function shows there.
        """
        slopes, rounding = list[float](), 0.0
        for part in STEPS:
            slope, rounding = self._slope(x, v, length / part)
            slopes.append(slope)
        slope = slopes[0]
        off = abs(slope - by_gradient)
        agree = max(slopes) - min(slopes) <= BELIEVED * off and rounding <= BELIEVED * off
        # Slopes of zero show nothing: terms may cancel in the value, or be rounded away in it.
        if not agree or slope == 0.0 or off <= WRONG * max(abs(slope), abs(by_gradient)):
            return
        share = max(rounding / (BELIEVED * off), NEAREST)
        nearest, _ = self._slope(x, v, share * length / STEPS[-1])
        if abs(nearest - slope) <= 2.0 * BELIEVED * off:
            raise ValueError(
                f"jac is not the gradient of fun: at a distance of {length:.1g} from x, the derivative along a line is "
                f"{by_gradient:.4g} by jac but {slope:.4g} by values of fun; correct jac, or pass jac=None"
            )

    def _slope(self, x: Array, v: Array, h: float) -> tuple[float, float]:
        """The derivative at x along v by two values at this distance, and what rounding makes of it."""
        above, below = self._value(x + h * v), self._value(x - h * v)
        self.values += 2
        return (above - below) / (2.0 * h), ROUNDING * (abs(above) + abs(below)) / h
