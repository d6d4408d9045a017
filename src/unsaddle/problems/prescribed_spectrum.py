"""A saddle with any spectrum, in up to hundreds of thousands of dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from unsaddle import checks
from unsaddle.objectives import Function
from unsaddle.problems.arguments import expect_dimension, float_type, numbers
from unsaddle.problems.problem import Constants, Problem, StationaryPoint
from unsaddle.problems.reflection import reflection


def prescribed_spectrum(
    spectrum: Tensor | Sequence[float],
    *,
    power: int = 4,
    scale: float = 1.0,
    rotation_seed: int | None = 0,
    dtype: torch.dtype = torch.float64,
) -> Problem:
    """f(x) = ½ Σ s_i z_i² + (c/4) Σ z_i⁴, or + (c/6) Σ |z_i|³, in rotated coordinates z = Qx.

    Args:
        spectrum: s, the eigenvalues of the Hessian at 0, in any order.
        power: 4 for the quartic, whose even saddle has no third derivative; 3 for the cubic, whose Hessian is Lipschitz
            everywhere.
        scale: c > 0.
        rotation_seed: the seed of Q, a Householder reflection; None for Q = I.
        dtype: of the points.

    0 is stationary and its Hessian Q diag(s) Q has exactly the spectrum s: a strict saddle if some s_i < 0, else the
    only minimum. Each coordinate with s_i < 0 has wells at |z_i| = √(−s_i/c), with curvature −2s_i (quartic), or at
    |z_i| = −2s_i/c, with curvature −s_i (cubic). All combinations are stationary; listed are 0, the saddle with only
    the lowest coordinate in its well (where another one is negative), and a minimum with all of them there.

    Quartic: on a ball where |z_i| ≤ Z, L1 ≤ max_i max(|s_i|, |s_i + 3cZ²|) and L2 ≤ 6cZ. Cubic: L1 ≤ max_i max(|s_i|,
    |s_i + cZ|) there, and L2 = c everywhere. Every evaluation costs O(d).

    >>> problem = prescribed_spectrum([-1.0, 0.5, 2.0], power=3)
    >>> saddle, minimum = problem.stationary_points
    >>> saddle.kind, saddle.lowest_curvature, saddle.largest_curvature, problem.hessian_lipschitz
    ('strict saddle', -1.0, 2.0, 1.0)
    >>> minimum.kind, minimum.lowest_curvature
    ('minimum', 0.5)
    """
    s = numbers(spectrum, "spectrum")
    c = checks.positive(scale, "scale")
    if power not in (3, 4):
        raise ValueError(f"power must be 3 or 4, got {power!r}")
    dtype = float_type(dtype)
    Q = reflection(s.numel(), rotation_seed, dtype)
    exact_Q = reflection(s.numel(), rotation_seed, torch.float64)

    def stationary(in_well: Tensor) -> StationaryPoint:
        wells = (-s / c).sqrt() if power == 4 else -2.0 * s / c
        curvatures = torch.where(in_well, -2.0 * s if power == 4 else -s, s)
        lowest = float(curvatures.min())
        return StationaryPoint(
            point=exact_Q(torch.where(in_well, wells, torch.zeros_like(s))).to(dtype),
            kind="strict saddle" if lowest < 0.0 else "minimum",
            lowest_curvature=lowest,
            largest_curvature=float(curvatures.abs().max()),
        )

    def constants(point: Tensor, radius: float) -> Constants:
        reach = exact_Q(point).abs() + radius
        added = 3.0 * c * reach**2 if power == 4 else c * reach
        smoothness = float(torch.maximum(s.abs(), (s + added).abs()).max())
        return Constants(smoothness, 6.0 * c * float(reach.max()) if power == 4 else c)

    negative = s < 0.0
    only_lowest = negative & (torch.arange(s.numel()) == s.argmin())
    value_and_grad, hvp = (_quartic if power == 4 else _cubic)(s.to(dtype), c, Q)
    name = "quartic" if power == 4 else "cubic"
    return Problem(
        name=f"{name} with a prescribed spectrum (d={s.numel()}, lowest {float(s.min()):.3g})",
        objective=Function(value_and_grad, gradient=True, hvp=hvp),
        dimension=s.numel(),
        dtype=dtype,
        stationary_points=tuple(
            stationary(wells)
            for wells, wanted in (
                (torch.zeros_like(negative), True),
                (only_lowest, int(negative.sum()) > 1),
                (negative, bool(negative.any())),
            )
            if wanted
        ),
        hessian_lipschitz=c if power == 3 else None,
        local_constants=constants,
    )


Formulas = tuple[Callable[[Tensor], tuple[Tensor, Tensor]], Callable[[Tensor, Tensor], Tensor]]


def _quartic(s: Tensor, c: float, Q: Callable[[Tensor], Tensor]) -> Formulas:
    def value_and_grad(x: Tensor) -> tuple[Tensor, Tensor]:
        z = Q(expect_dimension(x, s.numel()))
        square = z * z
        value = 0.5 * torch.dot(s, square) + 0.25 * c * torch.dot(square, square)
        return value, Q(square.mul_(c).add_(s).mul_(z))

    def hvp(x: Tensor, v: Tensor) -> Tensor:
        z = Q(expect_dimension(x, s.numel()))
        return Q(z.mul(z).mul_(3.0 * c).add_(s).mul_(Q(v)))

    return value_and_grad, hvp


def _cubic(s: Tensor, c: float, Q: Callable[[Tensor], Tensor]) -> Formulas:
    def value_and_grad(x: Tensor) -> tuple[Tensor, Tensor]:
        z = Q(expect_dimension(x, s.numel()))
        square, size = z * z, z.abs()
        value = 0.5 * torch.dot(s, square) + c / 6.0 * torch.dot(square, size)
        return value, Q(size.mul_(0.5 * c).add_(s).mul_(z))

    def hvp(x: Tensor, v: Tensor) -> Tensor:
        z = Q(expect_dimension(x, s.numel()))
        return Q(z.abs().mul_(c).add_(s).mul_(Q(v)))

    return value_and_grad, hvp
