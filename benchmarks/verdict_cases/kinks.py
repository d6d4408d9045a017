"""Kinks beside x, and at x itself: |wᵀz − b|, ReLU and maximum terms, and a ReLU network.

Where a kink is nearer than the verdict's resolution, the Hessian at x is not what counts: values are. `by_values`
says what is right then. In bf16 the point that goes in and the gradient that comes out are rounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor

from benchmarks.verdict_cases.case import (
    DTYPES,
    Case,
    dimension,
    integer,
    low_precision,
    normal,
    randomness,
    rounded,
    uniform,
)
from benchmarks.verdict_cases.landscape import point, rotated, saddle_or_minimum
from unsaddle import Function, Verdict

DOUBLINGS = 10
"""A saddle's direction is tried at the resolution and at so many doubled lengths."""

NULL_STEPS = 60
"""Times that gradients are added to a bundle along which F does not fall."""

ROUNDING = 1e-13
"""A value in float64 that is lower by more than this share of the terms is lower."""


def falls_within(
    gradient: Callable[[Tensor], Tensor],
    zero: Tensor,
    falls: Callable[[Tensor, float], bool],
    length: float,
    least: float,
) -> bool:
    """Whether F falls at a distance from x, as `falls` asks, along the shortest convex sum of gradients nearby.

    Against one gradient, F may rise again right beyond a kink. Where F does not fall, gradients on the way are added
    (a bundle; Goldstein 1977), until their shortest sum is below half of `least`. `gradient` is z ↦ ∇F(x + z) in
    float64.
    """
    g = torch.Generator().manual_seed(0)
    bundle = [gradient(zero)]
    for _ in range(NULL_STEPS):
        rows = torch.stack(bundle)
        scale = float(rows.norm(dim=1).max())
        if scale == 0.0:
            return False
        system = torch.cat([rows.T / scale, torch.full((1, len(bundle)), 1e3).double()]).numpy()
        shares = torch.from_numpy(nnls(system, np.append(np.zeros(rows.shape[1]), 1e3))[0])
        shortest = shares @ rows
        if float(shortest.norm()) <= max(0.5 * least, 1e-12 * scale):
            return False
        v = -shortest / shortest.norm()
        if falls(v, length):
            return True
        share = float(torch.rand((), generator=g, dtype=torch.float64))
        bundle += [gradient(share * length * v), gradient(length * v)]
    return False


def by_values(
    rise: Callable[[Tensor], float],
    rounding: float,
    downhill: tuple[Tensor, ...],
    hessian: Tensor,
    reach: float,
    reach_along: Callable[[Tensor], float],
    gradient: Callable[[Tensor], Tensor],
    shortest: float,
) -> Callable[[Verdict], str]:
    """The rule of a function with kinks. `rise` is z ↦ F(x + z) − F(x) in float64; `reach` the nearest kink's distance,
    and `reach_along(v)` that of the nearest one on the line x + sv, s of either sign. A direction along a kink leaves
    it by its rounding, so that F rises along it nearer than at the `shortest` length.

    - *saddle* is right if F falls along v and along −v at one length, or if the Hessian holds along v as far as the
      resolution and vᵀHv < 0; one way is enough if the verdict says so, by `both_ways` or as "on one side of x". If it
      says that it measured over a distance, because nearer to x the gradient jumps: if F bends down over that distance;
    - *minimum* is false if F falls by more than εs + γs²/2, which ε and γ allow, along a known direction, or along the
      shortest sum of gradients nearby (`falls_within`), at a length s of one to four resolutions, or if the Hessian
      holds that far and λ_min < −γ;
    - *not stationary* is right only if F falls in proportion to s, by at least εs/2, along one of these.
    """
    size, zero = float(torch.linalg.matrix_norm(hessian, 2)), torch.zeros_like(hessian[0])

    def falls(v: Tensor, s: float, by: float) -> bool:
        return rise(s * v) < -by - ROUNDING * size * s * s - rounding

    def judge(verdict: Verdict) -> str:
        r = verdict.resolution if verdict.resolution > 0.0 else 1e-6
        lengths = [r * 2.0**k for k in range(DOUBLINGS + 1)]
        if verdict.kind == "saddle":
            assert verdict.direction is not None
            v = verdict.direction.double()
            v = v / v.norm()
            curved = reach_along(v) > r and float(v @ hessian @ v) < 0.0
            enough = all if verdict.both_ways and not verdict.evidence.measurements[0].sided else any
            tried = [max(1.0, shortest / r) * s for s in lengths]
            fallen = any(enough(falls(sign * v, s, 0.0) for sign in (1.0, -1.0)) for s in tried)
            if verdict.evidence.jump > 0.0 and verdict.evidence.over_kinks:
                over = verdict.evidence.measurements[0].radius
                curved = curved or rise(over * v) + rise(-over * v) < -2.0 * rounding
            return "right" if curved or fallen else "false saddle"
        signed = [sign * v for v in downhill for sign in (1.0, -1.0)]
        if verdict.kind == "minimum":
            curved = reach > 4.0 * r and float(torch.linalg.eigvalsh(hessian)[0]) < -verdict.gamma - 1e-6 * size
            fallen = any(
                falls(v, s, verdict.eps * s + 0.5 * verdict.gamma * s * s) for v in signed for s in lengths[:3]
            )
            allowed = lambda v, s: falls(v, s, verdict.eps * s + 0.5 * verdict.gamma * s * s)  # noqa: E731
            fallen = fallen or any(falls_within(gradient, zero, allowed, s, verdict.eps) for s in lengths[:3])
            return "false minimum" if curved or fallen else "right"
        steep = any(falls(v, s, 0.5 * verdict.eps * s) for v in signed for s in lengths[:3])
        half = lambda v, s: falls(v, s, 0.5 * verdict.eps * s)  # noqa: E731
        steep = steep or any(falls_within(gradient, zero, half, s, verdict.eps / 2.0) for s in lengths[:3])
        return "right" if steep else "false not stationary"

    return judge


def kinked(
    objective: Function,
    x: Tensor,
    precision: str,
    hessian: Tensor,
    reach: float,
    reach_along: Callable[[Tensor], float],
    rise: Callable[[Tensor], float],
    rounding: float,
    gradient: Callable[[Tensor], Tensor],
    *known: Tensor,
    seed: int = 0,
) -> Case:
    """The case of a function with kinks. F may fall along `known` directions, and along the lowest eigenvector.

    `rounding` is that of `rise`; `reach` and `reach_along` are those of `by_values`.
    """
    eigenvalues, basis = torch.linalg.eigh(hessian)
    objective = low_precision(objective) if precision == "bf16" else objective
    downhill = tuple(v / v.norm() for v in (basis[:, 0], *known))
    shortest = torch.finfo(x.dtype).eps * max(1.0, float(x.norm()))
    return Case(
        objective=objective,
        x=x,
        lowest=float(eigenvalues[0]),
        largest=float(eigenvalues.abs().max()),
        curvature=lambda v: float(v @ hessian @ v),
        seed=seed,
        reach=reach,
        judge=by_values(rise, rounding, downhill, hessian, reach, reach_along, gradient, shortest),
    )


def _with_kinks(g: torch.Generator, index: int, precision: str, distances: Tensor, strength: Tensor, kind: str) -> Case:
    """½zᵀHz + Σk_i·φ(w_iᵀz − b_i), made stationary at z = 0 by a linear term; φ(t) = |t|, or relu(t), with |w_i| = 1.

    Autograd differentiates it: the derivative of a kink at b = 0 is 0 at x.
    """
    d, dtype = dimension(g, 2, 200), DTYPES[precision]
    matrix, _ = rotated(g, saddle_or_minimum(g, index, d))
    x0 = point(g, d, 0.0 if index // 2 % 3 == 0 else 10.0 ** uniform(g, -1.0, 1.0), precision)
    count = distances.numel()
    w = normal(g, count, d)
    w = w / w.norm(dim=1, keepdim=True)
    phi = torch.abs if kind == "absolute" else torch.relu

    def slope(t: Tensor) -> Tensor:
        return torch.sign(t) if kind == "absolute" else (t > 0).to(t.dtype)

    # What is stored is what is true, in float64 too.
    matrix, w, b, k = (t.to(dtype).double() for t in (matrix, w, distances, strength))
    tilt = w.T @ (k * slope(-b))
    low = [t.to(dtype) for t in (matrix, w, b, k, tilt)]

    def value(z: Tensor, h: Tensor, w: Tensor, b: Tensor, k: Tensor, tilt: Tensor) -> Tensor:
        return 0.5 * torch.dot(z, h @ z) + torch.dot(k, phi(w @ z - b)) - torch.dot(tilt, z)

    def rise(z: Tensor) -> float:
        t = w @ z
        # φ(t − b) − φ(−b) without the cancellation of large b.
        change = torch.where((t - b).sign() == (-b).sign(), slope(-b) * t, phi(t - b) - phi(-b))
        return float(0.5 * torch.dot(z, matrix @ z) + torch.dot(k, change) - torch.dot(tilt, z))

    def gradient(z: Tensor) -> Tensor:
        return matrix @ z + w.T @ (k * slope(w @ z - b)) - tilt

    objective = Function(lambda x: value(x - x0, *low))
    reach, along = float(b.abs().min()), lambda v: float((b / (w @ v)).abs().min())
    return kinked(objective, x0, precision, matrix, reach, along, rise, 0.0, gradient, *w, w.T @ k)


def kinks_beside(index: int, precision: str) -> Case:
    """Kinks at distances of 1e-8 to 1e-2 from x: |wᵀz − b|, ReLU, convex or concave, or a ReLU network with a ridge."""
    g = randomness("kinks_beside", index)
    if index // 2 % 3 == 2:
        return _relu_network(g, index, precision)
    count = integer(g, 1, 40)
    distances = 10.0 ** (-8.0 + 6.0 * torch.rand(count, generator=g, dtype=torch.float64))
    distances *= torch.randint(0, 2, (count,), generator=g) * 2 - 1
    strength = 10.0 ** uniform(g, -4.0, -1.0) * normal(g, count) / math.sqrt(count)
    if index // 6 % 2:
        strength = strength.abs()
    return _with_kinks(g, index, precision, distances, strength, "absolute" if index // 2 % 3 else "relu")


def kinks_at_x(index: int, precision: str) -> Case:
    """Kinks exactly at x: |wᵀz| and ReLU, upwards, downwards, and some of each. F may fall one way only."""
    g = randomness("kinks_at_x", index)
    count = integer(g, 1, 5)
    strength = 10.0 ** uniform(g, -6.0, 0.0) * (0.1 + torch.rand(count, generator=g, dtype=torch.float64))
    signs = (torch.ones(count), -torch.ones(count), torch.randint(0, 2, (count,), generator=g) * 2.0 - 1.0)
    kind = "absolute" if index // 6 % 2 else "relu"
    return _with_kinks(g, index, precision, torch.zeros(count).double(), strength * signs[index // 2 % 3], kind)


def _relu_network(g: torch.Generator, index: int, precision: str) -> Case:
    """½mean(aᵀrelu(Wu + c) − t)² + ridge + a linear term that makes x stationary; some units next to their kinks.

    The units nearest to a kink are moved, by their bias, to a distance of 1e-8 to 1e-2 from it.
    """
    dtype, rows, inputs, width = DTYPES[precision], integer(g, 4, 30), integer(g, 1, 5), integer(g, 2, 20)
    u, targets = normal(g, rows, inputs), normal(g, rows)
    weights, outer = normal(g, width, inputs), normal(g, width) / math.sqrt(width)
    bias = normal(g, width)
    near = 10.0 ** (-8.0 + 6.0 * torch.rand(width, generator=g, dtype=torch.float64))
    row = torch.randint(rows, (width,), generator=g)
    bias = torch.where(torch.rand(width, generator=g) < 0.5, near - (weights * u[row]).sum(1), bias)
    ridge = 10.0 ** uniform(g, -3.0, 0.0) if index % 2 else 3.0
    x0 = torch.cat([weights.flatten(), bias, outer]).to(dtype)
    x0 = rounded(x0) if precision == "bf16" else x0

    def loss(x: Tensor, u: Tensor, targets: Tensor) -> Tensor:
        w, c, a = x.split([width * inputs, width, width])
        outputs = torch.relu(u @ w.view(width, inputs).T + c) @ a
        return 0.5 * (outputs - targets).square().mean() + 0.5 * ridge * x.square().sum()

    data = u.to(dtype), targets.to(dtype)
    exact = tuple(t.double() for t in data)
    x = x0.double()
    tilt = torch.func.grad(loss)(x, *exact)

    def before_relu(x: Tensor) -> Tensor:
        w, c, _ = x.split([width * inputs, width, width])
        return exact[0] @ w.view(width, inputs).T + c

    distance = before_relu(x).abs() / (exact[0].square().sum(1, keepdim=True) + 1.0).sqrt()
    hessian = torch.func.hessian(loss)(x, *exact)
    here = float(loss(x, *exact))

    def rise(z: Tensor) -> float:
        return float(loss(x + z, *exact)) - here - float(torch.dot(tilt, z))

    def gradient(z: Tensor) -> Tensor:
        return torch.func.grad(loss)(x + z, *exact) - tilt

    tilt_low = tilt.to(dtype)
    objective = Function(lambda x: loss(x, *data) - torch.dot(tilt_low, x - x0))
    reach, along = float(distance.min()), lambda v: float((before_relu(x) / before_relu(v)).abs().min())
    return kinked(objective, x0, precision, hessian, reach, along, rise, ROUNDING * abs(here), gradient)
