"""Linear regression whose weights are a product, entry by entry."""

from __future__ import annotations

import torch
from torch import Tensor

from unsaddle import checks
from unsaddle.objectives import FiniteSum
from unsaddle.problems import dense
from unsaddle.problems.arguments import expect_dimension, float_type, generator, normal
from unsaddle.problems.problem import Constants, Problem, where_norm_below


def hadamard_regression(
    *, num_weights: int, num_samples: int, nonzero: int, seed: int = 0, dtype: torch.dtype = torch.float64
) -> Problem:
    """F(u, v) = (1/n) Σ_i (a_iᵀ(u∘v) − b_i)², a finite sum. The point is u followed by v, d = 2·num_weights.

    u and v have `num_weights` entries each, and n = `num_samples`. `seed` draws the Gaussian rows a_i and the true
    weights w*, of which `nonzero` entries are ±1 and the others 0. The targets are exact: b_i = a_iᵀw*.

    At 0 the gradient of every component vanishes, so sampling noise moves no stochastic method off it. With
    g = (1/n) Σ b_ia_i the Hessian form there is −4 Σ g_jp_jq_j, with eigenvalues ±2|g_j|: a strict saddle with
    λ_min = −2 max_j |g_j|. u = |w*|, v = w* is a global minimum with F = 0. Its spectrum comes from the dense Hessian,
    and contains 0, since u and v may be rescaled against each other.

    Let T = λ_max((1/n) Σ a_ia_iᵀ). Where ‖(u, v)‖ ≤ R, L1 ≤ 3TR² + 2 max_j |g_j| and L2 ≤ 6TR, since
    ‖u∘q + v∘p‖ ≤ R and ‖p∘q‖ ≤ ½ for unit (p, q).

    >>> problem = hadamard_regression(num_weights=6, num_samples=40, nonzero=2)
    >>> problem.dimension, problem.saddles[0].lowest_curvature == -problem.saddles[0].largest_curvature
    (12, True)
    """
    p, n = checks.count(num_weights, "num_weights"), checks.count(num_samples, "num_samples")
    if checks.count(nonzero, "nonzero") > p:
        raise ValueError(f"nonzero must be at most num_weights, got {nonzero} and {p}")
    dtype, random = float_type(dtype), generator(seed)
    A = normal(n, p, random=random)
    weights = torch.zeros(p, dtype=torch.float64)
    weights[:nonzero] = torch.where(torch.rand(nonzero, generator=random) < 0.5, -1.0, 1.0).double()
    b = torch.mv(A, weights)
    g = torch.mv(A.T, b) / n
    T, steepest = float(torch.linalg.matrix_norm(A, ord=2)) ** 2 / n, 2.0 * float(g.abs().max())

    def objective(dtype: torch.dtype) -> FiniteSum:
        return FiniteSum(_value_and_grad, A.to(dtype), b.to(dtype), gradient=True, hvp=_hvp)

    minimum = torch.cat([weights.abs(), weights])
    at_minimum = dense.eigenvalues(objective(torch.float64), minimum)
    return Problem(
        name=f"hadamard regression ({p} weights, {n} samples)",
        objective=objective(dtype),
        dimension=2 * p,
        dtype=dtype,
        stationary_points=(
            dense.stationary_point(torch.zeros_like(minimum), "strict saddle", torch.cat([-2.0 * g, 2.0 * g]), dtype),
            dense.stationary_point(minimum, "minimum", at_minimum, dtype),
        ),
        local_constants=where_norm_below(lambda R: Constants(3.0 * T * R**2 + steepest, 6.0 * T * R)),
    )


def _value_and_grad(x: Tensor, A: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    u, v = expect_dimension(x, 2 * A.shape[1]).chunk(2)
    residuals = torch.mv(A, u * v) - b
    slope = torch.mv(A.T, residuals) * (2.0 / len(b))
    return residuals.square().mean(), torch.cat([slope * v, slope * u])


def _hvp(x: Tensor, direction: Tensor, A: Tensor, b: Tensor) -> Tensor:
    u, v = expect_dimension(x, 2 * A.shape[1]).chunk(2)
    p, q = direction.chunk(2)
    slope = torch.mv(A.T, torch.mv(A, u * v) - b) * (2.0 / len(b))
    change = torch.mv(A.T, torch.mv(A, u * q + v * p)) * (2.0 / len(b))
    return torch.cat([change * v + slope * q, change * u + slope * p])
