"""Symmetric matrix factorisation."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from unsaddle import checks
from unsaddle.objectives import Function
from unsaddle.problems.arguments import decreasing_positive, expect_dimension, float_type, generator, orthonormal
from unsaddle.problems.dense import stationary_point
from unsaddle.problems.problem import Constants, Problem, StationaryPoint


def symmetric_factorisation(
    eigenvalues: Tensor | Sequence[float], *, size: int, rank: int, seed: int = 0, dtype: torch.dtype = torch.float64
) -> Problem:
    """f(U) = ¼‖UUᵀ − M‖_F² for U of `size` × `rank`, flattened by rows.

    M has the nonzero `eigenvalues` m_1 ≥ m_2 ≥ … > 0, at least r = `rank` of them. `seed` draws its eigenvectors q_i.

    For each k ≤ r the matrix U_k = [√m_1 q_1, …, √m_k q_k, 0, …, 0] is stationary, since ∇f = (UUᵀ − M)U. Its Hessian
    ∇²f[V] = (UUᵀ − M)V + UVᵀU + VUᵀU maps span{q_i e_jᵀ, q_j e_iᵀ} to itself and has the eigenvalues

        2m_i;  0 and m_i + m_j (i < j ≤ k);  m_j − m_i (i > k ≥ j);  −m_i (i, j > k);  0 (i ≤ k < j).

    So U_0 = 0, …, U_{r−1} are strict saddles with λ_min = −m_{k+1}, and U_r is a global minimum. Where the spectral
    norm of U is at most R, −m_1 ≤ ∇²f ≤ 3R² and L2 ≤ 6R, since D³f[V,V,V] = 6⟨UVᵀ, VVᵀ⟩.

    >>> problem = symmetric_factorisation([3.0, 1.0], size=5, rank=2)
    >>> [(p.kind, p.lowest_curvature, p.largest_curvature) for p in problem.stationary_points]
    [('strict saddle', -3.0, 3.0), ('strict saddle', -1.0, 6.0), ('minimum', 0.0, 6.0)]
    """
    nonzero = decreasing_positive(eigenvalues, "eigenvalues")
    n, r = checks.count(size, "size"), checks.count(rank, "rank")
    if not r <= nonzero.numel() <= n:
        raise ValueError(f"need rank <= number of eigenvalues <= size, got {r}, {nonzero.numel()} and {n}")
    dtype, q = float_type(dtype), orthonormal(n, nonzero.numel(), generator(seed))
    M = ((q * nonzero) @ q.T).to(dtype)

    def value_and_grad(x: Tensor) -> tuple[Tensor, Tensor]:
        U = expect_dimension(x, n * r).view(n, r)
        error = U @ U.T - M
        return 0.25 * error.square().sum(), (error @ U).flatten()

    def hvp(x: Tensor, v: Tensor) -> Tensor:
        U, V = expect_dimension(x, n * r).view(n, r), v.view(n, r)
        return ((U @ U.T - M) @ V + U @ (V.T @ U) + V @ (U.T @ U)).flatten()

    def constants(point: Tensor, radius: float) -> Constants:
        reach = float(torch.linalg.matrix_norm(point.view(n, r), ord=2)) + radius
        return Constants(max(float(nonzero[0]), 3.0 * reach**2), 6.0 * reach)

    def stationary(k: int) -> StationaryPoint:
        U = torch.zeros(n, r, dtype=torch.float64)
        U[:, :k] = q[:, :k] * nonzero[:k].sqrt()
        spectrum = _spectrum(torch.cat([nonzero, nonzero.new_zeros(n - nonzero.numel())]), k, r)
        return stationary_point(U.flatten(), "minimum" if k == r else "strict saddle", spectrum, dtype)

    return Problem(
        name=f"symmetric factorisation ({n} × {r})",
        objective=Function(value_and_grad, gradient=True, hvp=hvp),
        dimension=n * r,
        dtype=dtype,
        stationary_points=tuple(stationary(k) for k in range(r + 1)),
        local_constants=constants,
    )


def _spectrum(m: Tensor, k: int, r: int) -> Tensor:
    """The eigenvalues at U_k, as `symmetric_factorisation` lists them, without their multiplicities."""
    inside, outside = m[:k], m[k:]
    tied = torch.zeros(1 if k > 1 or 0 < k < r else 0, dtype=m.dtype)
    lifted = (inside[:, None] - outside[None, :]).flatten()
    return torch.cat([2.0 * inside, tied, lifted, -outside if k < r else m[:0]])
