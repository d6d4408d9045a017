"""The paper's function: non-linear least squares through a sigmoid, with a non-convex regulariser."""

from __future__ import annotations

import functools
import math
import warnings

import torch
from torch import Tensor

from unsaddle import checks
from unsaddle.objective import Oracle
from unsaddle.objectives import FiniteSum
from unsaddle.problems.arguments import expect_dimension
from unsaddle.problems.problem import Problem

# Upper bounds of the derivatives of h(t) = t²/(1+t²) and of φ(z) = (b − σ(z))², b ∈ {0, 1}, rounded up.
# With s = σ for b = 0 and s = 1 − σ for b = 1, φ = s² in both cases, |φ''| = 2s²(1−s)|2−3s| and
# |φ'''| = 2s²(1−s)|4−15s+12s²|. h'' = (2−6t²)/(1+t²)³ peaks at 0; h''' = 24t(t²−1)/(1+t²)⁴ at t² = 1 − 2/√5.
REGULARISER_SECOND, REGULARISER_THIRD = 2.0, 4.6686
LOSS_SECOND, LOSS_THIRD = 0.15406, 0.20203


def sigmoid_least_squares(features: Tensor, labels: Tensor, *, penalty: float = 3.0) -> Problem:
    """F(x) = Σ_j x_j²/(1+x_j²) + (λ/n) Σ_i (b_i − σ(xᵀa_i))², the function of the paper's simulation.

    Args:
        features: the rows a_i, n × d, dense or sparse in CSR layout, float32 or float64.
        labels: b_i, zeros and ones.
        penalty: λ, in front of the least squares.

    No stationary point is known in general. A sample keeps the whole regulariser, and its rows are gathered once. A
    gradient costs the two products Ax and Aᵀr and a few passes over x. A Hessian product costs three products.

    With R = max_i ‖a_i‖, L1 ≤ 2 + 0.15406·λ·R² and L2 ≤ 4.6686 + 0.20203·λ·R³, everywhere and on every sample:
    h(t) = t²/(1+t²) has |h''| ≤ 2 and |h'''| ≤ 4.6686, φ(z) = (b − σ(z))² has |φ''| ≤ 0.15406 and |φ'''| ≤ 0.20203, and
    (1/n) Σ |a_iᵀu|ᵏ ≤ Rᵏ for unit vectors u.

    Source: Xu, Jin and Yang (2017), the simulation, with λ = 3.

    >>> rows = torch.tensor([[1.0, 0.0], [0.0, 2.0]], dtype=torch.float64)
    >>> problem = sigmoid_least_squares(rows, torch.tensor([0, 1]))
    >>> value, grad = problem.objective.sample().value_and_grad(torch.zeros(2, dtype=torch.float64))
    >>> float(value), grad.tolist()
    (0.75, [0.375, -0.75])
    """
    penalty = checks.positive(penalty, "penalty")
    features = _checked_features(features)
    signs = _signs(labels, features)
    longest = float(_row_norms(features).max())
    if not math.isfinite(longest):
        raise ValueError("features must be finite, got inf or nan among them")
    n, d = features.shape
    return Problem(
        name=f"sigmoid least squares ({n} × {d})",
        objective=FiniteSum.from_oracle(functools.partial(_Oracle, penalty), features, signs),
        dimension=d,
        dtype=features.dtype,
        stationary_points=(),
        smoothness=REGULARISER_SECOND + penalty * LOSS_SECOND * longest**2,
        hessian_lipschitz=REGULARISER_THIRD + penalty * LOSS_THIRD * longest**3,
    )


class _Oracle(Oracle):
    """F_S and its derivatives. The residual is s = σ(±xᵀa), since b − σ(xᵀa) would lose digits."""

    def __init__(self, penalty: float, features: Tensor, signs: Tensor) -> None:
        self._features, self._signs = features, signs
        self._weight = penalty / features.shape[0]

    @functools.cached_property
    def _transposed(self) -> Tensor:
        # A product with the transpose of a CSR matrix scatters. With the transpose in CSR it gathers, in parallel.
        return _csr_transpose(self._features) if self._features.layout is torch.sparse_csr else self._features.T

    def value(self, x: Tensor) -> Tensor:
        square = x * x
        return self._value(self._residuals(x), square, torch.reciprocal(square + 1.0))

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        s, square = self._residuals(x), x * x
        q = torch.reciprocal(square + 1.0)
        value = self._value(s, square, q)
        slopes = s.mul(s).mul_(1.0 - s).mul_(self._signs)  # φ'/2
        grad = q.mul_(q).mul_(x).mul_(2.0)  # h' = 2x/(1+x²)²
        return value, grad.add_(torch.mv(self._transposed, slopes), alpha=2.0 * self._weight)

    def hvp(self, x: Tensor, v: Tensor) -> Tensor:
        s = self._residuals(x)
        bends = s.mul(s).mul_(1.0 - s).mul_(2.0 - 3.0 * s)  # φ''/2
        square = x * x
        product = (2.0 - 6.0 * square).div_(square.add_(1.0).pow_(3)).mul_(v)  # h'' = (2−6x²)/(1+x²)³
        bends.mul_(torch.mv(self._features, v))
        return product.add_(torch.mv(self._transposed, bends), alpha=2.0 * self._weight)

    def _value(self, s: Tensor, square: Tensor, q: Tensor) -> Tensor:
        # Sums, not dot products: BLAS splits a dot of a few thousand numbers among threads. On a busy machine joining
        # them costs more than both matrix products.
        return torch.sum(square * q) + self._weight * torch.sum(s * s)

    def _residuals(self, x: Tensor) -> Tensor:
        expect_dimension(x, self._features.shape[1])
        return torch.mv(self._features, x).mul_(self._signs).sigmoid_()


def _checked_features(features: Tensor) -> Tensor:
    if not isinstance(features, Tensor):
        raise TypeError(f"features must be a dense or CSR tensor, got {type(features).__name__}")
    if features.layout not in (torch.strided, torch.sparse_csr):
        raise ValueError(f"features must be dense or CSR, got layout {features.layout}; use features.to_sparse_csr()")
    if features.ndim != 2 or 0 in features.shape:
        raise ValueError(f"features must be a matrix with a row for each sample, got shape {tuple(features.shape)}")
    if features.dtype not in checks.FLOATS:
        raise ValueError(f"features must be float32 or float64, got {features.dtype}; use features.double()")
    return features.detach()


def _signs(labels: Tensor, features: Tensor) -> Tensor:
    """+1 for label 0 and −1 for label 1, so that (b − σ(z))² = σ(sign·z)²."""
    labels = torch.as_tensor(labels).detach()
    if labels.shape != features.shape[:1]:
        raise ValueError(
            f"labels must have one entry a row, shape {tuple(features.shape[:1])}, got {tuple(labels.shape)}"
        )
    wrong = labels[(labels != 0) & (labels != 1)]
    if wrong.numel():
        raise ValueError(
            f"labels must be 0 or 1, got {wrong[0].item()}; map −1 and +1 with (labels + 1) / 2, "
            "and one class against the rest with labels == the_class"
        )
    return 1.0 - 2.0 * labels.to(features.device, features.dtype)


def _row_norms(features: Tensor) -> Tensor:
    if features.layout is torch.strided:
        norms: Tensor = torch.linalg.vector_norm(features, dim=1)
        return norms
    squares = features.values().new_zeros(features.shape[0])
    rows = torch.arange(features.shape[0], device=features.device).repeat_interleave(features.crow_indices().diff())
    return squares.index_add_(0, rows, features.values().square()).sqrt_()


def _csr_transpose(matrix: Tensor) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CS. tensor support is in beta", category=UserWarning)
        transposed: Tensor = matrix.t().to_sparse_csr()
        return transposed
