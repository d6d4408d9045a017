"""Orthogonal tensor decomposition."""

from __future__ import annotations

import torch
from torch import Tensor

from unsaddle import checks
from unsaddle.objectives import Function
from unsaddle.problems.arguments import expect_dimension, float_type
from unsaddle.problems.dense import stationary_point
from unsaddle.problems.problem import Constants, Problem, StationaryPoint, where_norm_below
from unsaddle.problems.reflection import reflection


def tensor_decomposition(
    *, dimension: int, pull: float = 2.0, rotation_seed: int | None = 0, dtype: torch.dtype = torch.float64
) -> Problem:
    """f(x) = (c/4)(‖x‖² − 1)² − ¼ Σ_i ⟨a_i, x⟩⁴ for an orthonormal basis a_1, …, a_d and c > 1.

    Args:
        dimension: d ≥ 2.
        pull: c, the weight of the norm. Above 1, f is bounded below, since Σ z_i⁴ ≤ ‖z‖⁴.
        rotation_seed: of the Householder reflection whose columns are a_i. None for the standard basis.

    Maximising the form of Σ a_i⊗a_i⊗a_i⊗a_i over the sphere finds its components. A penalty holds the norm here.
    In z = (⟨a_i, x⟩) the gradient is c(‖z‖² − 1)z_i − z_i³, so at a stationary point every nonzero z_i² equals
    t = c(‖z‖² − 1). With m nonzero entries ‖z‖² = mt, hence t = c/(cm − 1), and every sign pattern of every support is
    stationary. There the Hessian c(‖z‖² − 1)I − 3diag(z²) + 2czzᵀ has the eigenvalues

        t  (d − m times, off the support),   −2t  (m − 1 times),   2c  (along z),

    and −c (d times) at 0. The components (m = 1) are the minima. Equal mixtures of m ≥ 2 are strict saddles with
    λ_min = −2c/(cm − 1), and 0 is one with λ_min = −c. There are no other stationary points. Listed are 0, one mixture
    for every m, and the minima with a plus sign.

    Where ‖x‖ ≤ R, −c − max(3 − c, 0)R² ≤ ∇²f ≤ c(3R² − 1) bounds L1, and L2 ≤ 6cR, since
    D³f[v,v,v] = 6 Σ z_iv_i(c‖v‖² − v_i²).

    Source: after Ge, Huang, Jin and Yuan (2015), who constrain x to the sphere.

    >>> problem = tensor_decomposition(dimension=3)
    >>> [round(saddle.lowest_curvature, 3) for saddle in problem.saddles], len(problem.minima)
    ([-2.0, -1.333, -0.8], 3)
    """
    d, c = checks.count(dimension, "dimension", at_least=2), checks.positive(pull, "pull")
    if c <= 1.0:
        raise ValueError(f"pull must be > 1, got {pull}; below, the function has no minimum")
    dtype = float_type(dtype)
    Q, exact_Q = (reflection(d, rotation_seed, type_) for type_ in (dtype, torch.float64))

    def value_and_grad(x: Tensor) -> tuple[Tensor, Tensor]:
        z = Q(expect_dimension(x, d))
        squares = z * z
        excess = squares.sum() - 1.0
        return 0.25 * (c * excess**2 - torch.dot(squares, squares)), Q(z * (c * excess - squares))

    def hvp(x: Tensor, v: Tensor) -> Tensor:
        z, w = Q(expect_dimension(x, d)), Q(v)
        squares = z * z
        return Q(w * (c * (squares.sum() - 1.0) - 3.0 * squares) + z * (2.0 * c * torch.dot(z, w)))

    def constants(R: float) -> Constants:
        return Constants(max(c * (3.0 * R**2 - 1.0), c + max(3.0 - c, 0.0) * R**2), 6.0 * c * R)

    def mixture(support: range) -> StationaryPoint:
        m = len(support)
        t = c / (c * m - 1.0)
        z = torch.zeros(d, dtype=torch.float64)
        z[support.start : support.stop] = t**0.5
        spectrum = torch.tensor([2.0 * c, *[t] * (m < d), *[-2.0 * t] * (m > 1)], dtype=torch.float64)
        return stationary_point(exact_Q(z), "minimum" if m == 1 else "strict saddle", spectrum, dtype)

    origin = torch.zeros(d, dtype=torch.float64)
    return Problem(
        name=f"orthogonal tensor decomposition (d={d})",
        objective=Function(value_and_grad, gradient=True, hvp=hvp),
        dimension=d,
        dtype=dtype,
        stationary_points=(
            stationary_point(origin, "strict saddle", torch.tensor([-c], dtype=torch.float64), dtype),
            *(mixture(range(m)) for m in range(2, d + 1)),
            *(mixture(range(i, i + 1)) for i in range(d)),
        ),
        local_constants=where_norm_below(constants),
    )
