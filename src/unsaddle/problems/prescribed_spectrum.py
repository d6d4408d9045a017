"""A saddle with any spectrum, up to hundreds of thousands of dimensions."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from unsaddle import checks
from unsaddle.objectives import Function
from unsaddle.problems.arguments import expect_dimension, float_type, numbers
from unsaddle.problems.dense import stationary_point
from unsaddle.problems.problem import Constants, Kind, Problem, StationaryPoint
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
        power: 4 for the quartic, whose third derivative is 0 at 0. 3 for the cubic, whose Hessian is Lipschitz.
        scale: c > 0.
        rotation_seed: the seed of Q, a Householder reflection. None for Q = I.

    0 is stationary, and its Hessian Q diag(s) Q has the spectrum s: a strict saddle if some s_i < 0, else the only
    minimum. A coordinate with s_i < 0 has wells at |z_i| = √(−s_i/c) with curvature −2s_i (quartic), or at
    |z_i| = −2s_i/c with curvature −s_i (cubic). All combinations are stationary. Listed are 0, the saddle with only the
    lowest coordinate in its well (if another s_i is negative), and a minimum with all of them in theirs.

    Where |z_i| ≤ Z, the quartic has L1 ≤ max_i max(|s_i|, |s_i + 3cZ²|) and L2 ≤ 6cZ. The cubic has L1 ≤
    max_i max(|s_i|, |s_i + cZ|) there, and L2 = c everywhere. Every evaluation costs O(d).

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
    d, quartic = s.numel(), power == 4
    Q, exact_Q = (reflection(d, rotation_seed, type_) for type_ in (dtype, torch.float64))
    s_rounded = s.to(dtype)
    # The added term is weight·z²h with h = z² or |z|, its gradient slope·zh, its curvature bend·h.
    weight, slope, bend = (0.25 * c, c, 3.0 * c) if quartic else (c / 6.0, 0.5 * c, c)

    def value_and_grad(x: Tensor) -> tuple[Tensor, Tensor]:
        z = Q(expect_dimension(x, d))
        square = z * z
        h = square if quartic else z.abs()
        value = 0.5 * torch.dot(s_rounded, square) + weight * torch.dot(square, h)
        return value, Q(h.mul_(slope).add_(s_rounded).mul_(z))

    def hvp(x: Tensor, v: Tensor) -> Tensor:
        z = Q(expect_dimension(x, d))
        h = z * z if quartic else z.abs()
        return Q(h.mul_(bend).add_(s_rounded).mul_(Q(v)))

    def stationary(in_well: Tensor) -> StationaryPoint:
        wells = (-s / c).sqrt() if quartic else -2.0 * s / c
        curvatures = torch.where(in_well, -2.0 * s if quartic else -s, s)
        kind: Kind = "strict saddle" if float(curvatures.min()) < 0.0 else "minimum"
        return stationary_point(exact_Q(torch.where(in_well, wells, torch.zeros_like(s))), kind, curvatures, dtype)

    def constants(point: Tensor, radius: float) -> Constants:
        reach = exact_Q(point).abs() + radius
        smoothness = float(torch.maximum(s.abs(), (s + bend * (reach**2 if quartic else reach)).abs()).max())
        return Constants(smoothness, 6.0 * c * float(reach.max()) if quartic else c)

    negative = s < 0.0
    only_lowest, count = negative & (torch.arange(d) == s.argmin()), int(negative.sum())
    in_wells = [torch.zeros_like(negative), *[only_lowest] * (count > 1), *[negative] * (count > 0)]
    return Problem(
        name=f"{'quartic' if quartic else 'cubic'} with a prescribed spectrum (d={d}, lowest {float(s.min()):.3g})",
        objective=Function(value_and_grad, gradient=True, hvp=hvp),
        dimension=d,
        dtype=dtype,
        stationary_points=tuple(stationary(in_well) for in_well in in_wells),
        hessian_lipschitz=None if quartic else c,
        local_constants=constants,
    )
