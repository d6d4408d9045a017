"""Algorithms 1, 2 and 3 of the paper as plain loops, for other implementations to be held against.

Nothing here is shared with the package, and nothing is thrifty: iterates stay in lists, and values are computed where
the paper names them. All `t` steps are taken, since no algorithm of the paper stops at the radius U. Lines are those of
the printed algorithms, where every `end for`, `else` and `end if` has a number too. Errata (E1, …) are those of
`docs/errata.md`.

Settings have the paper's meaning: `decrease` is 𝓕, `trust_radius` is U, `step_size` is η, `momentum` is ζ. 𝓕, η and ζ
are above 0: at 0, NCFind would find the noise y_0 itself. Vectors are float64. The noise u_0 is an argument, so that
two implementations can start from the same.
"""

import math
from collections.abc import Callable

import numpy as np

Value = Callable[[np.ndarray], float]
Gradient = Callable[[np.ndarray], np.ndarray]


def neon(
    f: Value,
    grad: Gradient,
    x: np.ndarray,
    u0: np.ndarray,
    *,
    t: int,
    decrease: float,
    trust_radius: float,
    step_size: float,
) -> np.ndarray:
    """Algorithm 1, NEON: a direction of negative curvature at x, or zeros."""
    f_hat, f_hat_gradient = _displaced(f, grad, x)
    us = [u0]  # line 2
    for tau in range(t):  # lines 3 to 5; by E3 these are t steps, u_1 to u_t, where t + 1 are printed
        us.append(us[tau] - step_size * f_hat_gradient(us[tau]))
    lowest = _lowest_within(us[1:], f_hat, trust_radius)
    if lowest is not None and f_hat(lowest) <= -2.5 * decrease:  # line 6
        return lowest  # lines 7 and 8
    return np.zeros_like(u0)  # lines 9 and 10


def neon_plus(
    f: Value,
    grad: Gradient,
    x: np.ndarray,
    u0: np.ndarray,
    *,
    t: int,
    decrease: float,
    trust_radius: float,
    momentum: float,
    step_size: float,
    gamma: float,
) -> tuple[np.ndarray, str]:
    """Algorithm 2, NEON⁺: a direction of negative curvature at x, or zeros, and which exit it was taken by.

    Exits: "ncfind y_j" and "ncfind y-u" (line 5), "best" (line 11), "nothing" (line 13).
    """
    f_hat, f_hat_gradient = _displaced(f, grad, x)
    ys, us = [u0], [u0]  # line 2
    for tau in range(t + 1):  # line 3
        y, u = ys[tau], us[tau]
        excess = f_hat(y) - f_hat(u) - f_hat_gradient(u) @ (y - u)  # Δ_x(y_τ, u_τ)
        if excess < -gamma / 2 * np.linalg.norm(y - u) ** 2:  # line 4; false at τ = 0, where it reads 0 < 0
            j = _first_large_momentum(ys, us, momentum, step_size, decrease)
            found = nc_find(ys, us, momentum=momentum, step_size=step_size, decrease=decrease)
            return found, "ncfind y-u" if j is None else "ncfind y_j"  # line 5
        y_next = u - step_size * f_hat_gradient(u)  # line 7, eq. (14)
        ys.append(y_next)
        us.append(y_next + momentum * (y_next - y))
    lowest = _lowest_within(ys[1 : t + 1], f_hat, trust_radius)  # by E3 up to y_t; the loop's last y is y_{t+1}
    if lowest is not None and f_hat(lowest) <= -2 * decrease:  # line 9
        return lowest, "best"  # lines 10 and 11
    return np.zeros_like(u0), "nothing"  # lines 12 and 13


def nc_find(
    ys: list[np.ndarray], us: list[np.ndarray], *, momentum: float, step_size: float, decrease: float
) -> np.ndarray:
    """Algorithm 3, NCFind, on y_0 … y_τ and u_0 … u_τ: the first y_j whose momentum is large, or else y_τ − u_τ."""
    j = _first_large_momentum(ys, us, momentum, step_size, decrease)
    if j is not None:  # line 1; by E7 it asks whether any j is so, where a minimum over all j is printed
        return ys[j]  # line 2
    return ys[-1] - us[-1]  # lines 3 and 4


def _displaced(f: Value, grad: Gradient, x: np.ndarray) -> tuple[Value, Gradient]:
    """f̂(u) = f(x+u) − f(x) − ∇f(x)ᵀu, eq. (13), and ∇f̂(u) = ∇f(x+u) − ∇f(x)."""
    f_at_x, gradient_at_x = f(x), grad(x)
    return lambda u: f(x + u) - f_at_x - gradient_at_x @ u, lambda u: grad(x + u) - gradient_at_x


def _lowest_within(iterates: list[np.ndarray], f_hat: Value, trust_radius: float) -> np.ndarray | None:
    """Of iterates no longer than U, the first with the least f̂: line 7 of Algorithm 1, line 10 of Algorithm 2."""
    inside = [v for v in iterates if np.linalg.norm(v) <= trust_radius]
    return min(inside, key=f_hat, default=None)


def _first_large_momentum(
    ys: list[np.ndarray], us: list[np.ndarray], momentum: float, step_size: float, decrease: float
) -> int | None:
    """The least j with ‖y_j − u_j‖ ≥ ζ√(6η𝓕), line 2 of Algorithm 3; None if there is none."""
    large = momentum * math.sqrt(6 * step_size * decrease)
    return next((j for j, (y, u) in enumerate(zip(ys, us, strict=True)) if np.linalg.norm(y - u) >= large), None)
