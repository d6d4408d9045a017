"""Recovery of a low-rank matrix from linear measurements."""

from __future__ import annotations

import torch
from torch import Tensor

from unsaddle import checks
from unsaddle.objective import Oracle
from unsaddle.objectives import FiniteSum
from unsaddle.problems import dense
from unsaddle.problems.arguments import expect_dimension, float_type, generator, normal, orthonormal
from unsaddle.problems.problem import Constants, Problem, where_norm_below


def matrix_sensing(
    *, size: int, rank: int, measurements: int, seed: int = 0, dtype: torch.dtype = torch.float64
) -> Problem:
    """F(U) = (1/m) Σ_i (⟨A_i, UUᵀ⟩ − b_i)² for U of `size` × `rank`, flattened by rows: a finite sum.

    m = `measurements`. `seed` draws A_i and U*. A_i is symmetric and Gaussian, with E⟨A, X⟩² = ‖X‖_F² for symmetric X.
    U* has orthonormal columns. Measurements are exact, b_i = ⟨A_i, U*U*ᵀ⟩, so U* is a global minimum with F = 0. Its
    spectrum comes from the dense Hessian. For rank > 1 it contains 0: U*O is a minimum for every rotation O.

    At 0 every component's gradient 4(⟨A_i, UUᵀ⟩ − b_i)A_iU vanishes, and ∇²F[V] = −4SV with S = (1/m) Σ b_i A_i. As
    ⟨S, U*U*ᵀ⟩ = (1/m) Σ b_i² > 0, S has a positive eigenvalue: 0 is a strict saddle with λ_min = −4λ_max(S).

    Let T be the largest eigenvalue of (1/m) Σ vec(A_i)vec(A_i)ᵀ. Where ‖U‖_F ≤ R, L1 ≤ 12TR² + 4‖S‖ and L2 ≤ 24TR.

    Source: Bhojanapalli, Neyshabur and Srebro (2016).

    >>> problem = matrix_sensing(size=4, rank=1, measurements=30)
    >>> problem.objective.num_samples, problem.saddles[0].lowest_curvature < -1.0
    (30, True)
    """
    n, r, m = checks.count(size, "size"), checks.count(rank, "rank"), checks.count(measurements, "measurements")
    if r > n:
        raise ValueError(f"rank must be at most size, got {r} and {n}")
    dtype, random = float_type(dtype), generator(seed)
    A = normal(m, n, n, random=random)
    A = (A + A.mT) / 2.0
    target = orthonormal(n, r, random)
    b = torch.einsum("mij,ij->m", A, target @ target.T)
    S = torch.einsum("m,mij->ij", b, A) / m
    flat = A.reshape(m, n * n)
    T, norm = float(torch.linalg.matrix_norm(flat, ord=2)) ** 2 / m, float(torch.linalg.matrix_norm(S, ord=2))

    def objective(dtype: torch.dtype) -> FiniteSum:
        return FiniteSum.from_oracle(lambda *rows: _Oracle(n, r, *rows), flat.to(dtype), b.to(dtype))

    zero = torch.zeros(n * r, dtype=torch.float64)
    at_target = dense.eigenvalues(objective(torch.float64), target.flatten())
    return Problem(
        name=f"matrix sensing ({n} × {r}, {m} measurements)",
        objective=objective(dtype),
        dimension=n * r,
        dtype=dtype,
        stationary_points=(
            dense.stationary_point(zero, "strict saddle", -4.0 * torch.linalg.eigvalsh(S), dtype),
            dense.stationary_point(target.flatten(), "minimum", at_target, dtype),
        ),
        local_constants=where_norm_below(lambda R: Constants(12.0 * T * R**2 + 4.0 * norm, 24.0 * T * R)),
    )


class _Oracle(Oracle):
    def __init__(self, n: int, r: int, A: Tensor, b: Tensor) -> None:
        self._n, self._r, self._A, self._b = n, r, A, b

    def value(self, x: Tensor) -> Tensor:
        return self._residuals(self._matrix(x)).square().mean()

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        U = self._matrix(x)
        residuals = self._residuals(U)
        return residuals.square().mean(), 4.0 * (self._combine(residuals) @ U).flatten()

    def hvp(self, x: Tensor, v: Tensor) -> Tensor:
        U, V = self._matrix(x), v.view(self._n, self._r)
        change = torch.mv(self._A, (U @ V.T).flatten())
        return 4.0 * (2.0 * self._combine(change) @ U + self._combine(self._residuals(U)) @ V).flatten()

    def _matrix(self, x: Tensor) -> Tensor:
        return expect_dimension(x, self._n * self._r).view(self._n, self._r)

    def _residuals(self, U: Tensor) -> Tensor:
        return torch.mv(self._A, (U @ U.T).flatten()) - self._b

    def _combine(self, weights: Tensor) -> Tensor:
        """(1/|S|) Σ w_i A_i."""
        return torch.mv(self._A.T, weights).view(self._n, self._n) / len(weights)
