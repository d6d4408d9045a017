"""Recovery of a vector from the sizes of its projections."""

from __future__ import annotations

import torch
from torch import Tensor

from unsaddle import checks
from unsaddle.objectives import FiniteSum
from unsaddle.problems.arguments import expect_dimension, float_type, generator, normal
from unsaddle.problems.dense import stationary_point
from unsaddle.problems.problem import Constants, Problem, where_norm_below


def phase_retrieval(*, dimension: int, measurements: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Problem:
    """F(x) = (1/4m) Σ_i ((a_iᵀx)² − b_i²)², b_i = a_iᵀx*, a finite sum over m = `measurements`.

    `seed` draws the Gaussian a_i and the unit vector x*. The Hessian is ∇²F = (1/m) Σ (3(a_iᵀx)² − b_i²) a_ia_iᵀ. At 0
    it is −S with S = (1/m) Σ b_i² a_ia_iᵀ, near I + 2x*x*ᵀ for many measurements: 0 is a strict saddle (a maximum)
    where every component's gradient vanishes. At the global minima ±x* it is 2S.

    T = max_i (1/m) Σ_j (a_iᵀa_j)² bounds (1/m) Σ (a_iᵀu)²(a_iᵀv)² over unit vectors. Where ‖x‖ ≤ R, L1 ≤
    max(‖S‖, 3TR²) and L2 ≤ 6TR.

    Source: Sun, Qu and Wright (2016).

    >>> problem = phase_retrieval(dimension=5, measurements=100)
    >>> len(problem.minima), -5.0 < problem.saddles[0].lowest_curvature < -2.0
    (2, True)
    """
    d, m = checks.count(dimension, "dimension"), checks.count(measurements, "measurements")
    dtype, random = float_type(dtype), generator(seed)
    A = normal(m, d, random=random)
    target = normal(d, random=random)
    target /= torch.linalg.vector_norm(target)
    squares = torch.mv(A, target).square()
    S = (A.T * squares) @ A / m
    spectrum = torch.linalg.eigvalsh(S)
    norm = float(spectrum.abs().max())
    # The m × m matrix of (a_iᵀa_j)²/m has the eigenvalues of the fourth moment; its largest row sum bounds them.
    T = float(((A @ (A.T @ A)) * A).sum(dim=1).max()) / m

    return Problem(
        name=f"phase retrieval (d={d}, {m} measurements)",
        objective=FiniteSum(_value_and_grad, A.to(dtype), squares.to(dtype), gradient=True, hvp=_hvp),
        dimension=d,
        dtype=dtype,
        stationary_points=(
            stationary_point(torch.zeros_like(target), "strict saddle", -spectrum, dtype),
            stationary_point(target, "minimum", 2.0 * spectrum, dtype),
            stationary_point(-target, "minimum", 2.0 * spectrum, dtype),
        ),
        local_constants=where_norm_below(lambda R: Constants(max(norm, 3.0 * T * R**2), 6.0 * T * R)),
    )


def _value_and_grad(x: Tensor, A: Tensor, squares: Tensor) -> tuple[Tensor, Tensor]:
    z = torch.mv(A, expect_dimension(x, A.shape[1]))
    residuals = z * z - squares
    return 0.25 * residuals.square().mean(), torch.mv(A.T, residuals * z) / len(z)


def _hvp(x: Tensor, v: Tensor, A: Tensor, squares: Tensor) -> Tensor:
    z = torch.mv(A, expect_dimension(x, A.shape[1]))
    return torch.mv(A.T, (3.0 * z * z - squares) * torch.mv(A, v)) / len(z)
