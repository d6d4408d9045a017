"""Deep linear networks, which start at a saddle."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor

from unsaddle import checks
from unsaddle.objective import Oracle
from unsaddle.objectives import FiniteSum
from unsaddle.problems import dense
from unsaddle.problems.arguments import decreasing_positive, expect_dimension, float_type, generator, orthonormal
from unsaddle.problems.problem import Constants, Problem, where_norm_below


def linear_network(
    singular_values: Tensor | Sequence[float],
    *,
    layers: int = 2,
    width: int,
    inputs: int,
    outputs: int,
    num_samples: int = 64,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
) -> Problem:
    """F(W) = (1/2n) Σ_i ‖W_N⋯W_1x_i − y_i‖², y_i = Mx_i, a finite sum. The point is W_1, …, W_N, flattened by rows.

    Args:
        singular_values: σ_1 ≥ … ≥ σ_k > 0 of the target M, k at most `width`, `inputs` and `outputs`.
        layers: N ≥ 2.
        width: of every hidden layer.
        inputs: length of x_i.
        outputs: length of y_i.
        num_samples: n, at least `inputs`.
        seed: of M's singular vectors and of the inputs.

    The inputs are white, (1/n) Σ x_ix_iᵀ = I, so F(W) = ½‖W_N⋯W_1 − M‖_F². At 0 every component's gradient vanishes.
    With two layers the Hessian form there is −2⟨M, V_2V_1⟩, with eigenvalues ±σ_i and perhaps 0: a strict saddle with
    λ_min = −σ_1. With more layers it is zero: 0 is degenerate and no minimum, which no second-order method can see. The
    balanced factors W_j = σ_i^{1/N} on aligned singular vectors are a global minimum with F = 0. Its spectrum comes
    from the dense Hessian.

    Where ‖W‖ ≤ R, C_k = binom(N, k)·N^{−N/2}·R^{N−k} bounds the coefficient of tᵏ in the product of all W_j + tV_j for
    ‖V‖ = 1. So L1 ≤ C_1² + 2(C_0 + σ_1)C_2 and L2 ≤ 6(C_1C_2 + (C_0 + σ_1)C_3).

    Source: Kawaguchi (2016), on the saddles of linear networks.

    >>> linear_network([2.0, 1.0], width=2, inputs=3, outputs=2).stationary_points[0].lowest_curvature
    -2.0
    >>> linear_network([2.0, 1.0], layers=3, width=2, inputs=3, outputs=2).stationary_points[0].kind
    'degenerate'
    """
    sigma = decreasing_positive(singular_values, "singular_values")
    depth = checks.count(layers, "layers", at_least=2)
    k = sigma.numel()
    sizes = [
        checks.count(inputs, "inputs", at_least=k),
        *[checks.count(width, "width", at_least=k)] * (depth - 1),
        checks.count(outputs, "outputs", at_least=k),
    ]
    n = checks.count(num_samples, "num_samples", at_least=inputs)
    dtype, random = float_type(dtype), generator(seed)
    # One basis a layer: M = last · diag(σ) · firstᵀ. The balanced factors pass through the bases in between.
    bases = [orthonormal(size, k, random) for size in sizes]
    rows = orthonormal(n, inputs, random) * math.sqrt(n)
    M = (bases[-1] * sigma) @ bases[0].T
    balanced = [(after * sigma ** (1.0 / depth)) @ before.T for before, after in pairwise(bases)]
    minimum = torch.cat([factor.flatten() for factor in balanced])
    zero = torch.zeros_like(minimum)

    def objective(rows: Tensor, dtype: torch.dtype) -> FiniteSum:
        return FiniteSum.from_oracle(partial(_Oracle, sizes), rows.to(dtype), (rows @ M.T).to(dtype))

    def constants(R: float) -> Constants:
        C = [math.comb(depth, j) * depth ** (-depth / 2) * R ** max(depth - j, 0) for j in range(4)]
        error = C[0] + float(sigma[0])
        return Constants(C[1] ** 2 + 2.0 * error * C[2], 6.0 * (C[1] * C[2] + error * C[3]))

    # F depends on the inputs only through their covariance. So its spectrum is computed with the fewest white inputs.
    fewest = math.sqrt(inputs) * torch.eye(inputs, dtype=torch.float64)
    at_minimum = dense.eigenvalues(objective(fewest, torch.float64), minimum)
    at_zero = torch.cat([sigma, -sigma]) if depth == 2 else torch.zeros(1)
    return Problem(
        name=f"{depth}-layer linear network ({'-'.join(map(str, sizes))})",
        objective=objective(rows, dtype),
        dimension=zero.numel(),
        dtype=dtype,
        stationary_points=(
            dense.stationary_point(zero, "strict saddle" if depth == 2 else "degenerate", at_zero, dtype),
            dense.stationary_point(minimum, "minimum", at_minimum, dtype),
        ),
        local_constants=where_norm_below(constants),
    )


class _Oracle(Oracle):
    """The mean loss over rows. Signals go forward through the layers, errors backward, and so do their derivatives."""

    def __init__(self, sizes: list[int], rows: Tensor, targets: Tensor) -> None:
        self._shapes = [(after, before) for before, after in pairwise(sizes)]
        self._lengths = [after * before for after, before in self._shapes]
        self._rows, self._targets = rows, targets

    def value(self, x: Tensor) -> Tensor:
        return self._loss(self._forward(self._layers(x))[-1])

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        W = self._layers(x)
        signals = self._forward(W)
        errors = self._backward(W, signals[-1])
        return self._loss(signals[-1]), torch.cat([(e.T @ s).flatten() for e, s in zip(errors, signals, strict=False)])

    def hvp(self, x: Tensor, v: Tensor) -> Tensor:
        W, V = self._layers(x), self._layers(v)
        signals = self._forward(W)
        errors = self._backward(W, signals[-1])
        change = torch.zeros_like(self._rows)
        changes = [change]
        for w, dw, signal in zip(W, V, signals, strict=False):
            change = change @ w.T + signal @ dw.T
            changes.append(change)
        back = change / len(self._rows)
        product = []
        for j in reversed(range(len(W))):
            product.append((back.T @ signals[j] + errors[j].T @ changes[j]).flatten())
            back = back @ W[j] + errors[j] @ V[j]
        return torch.cat(product[::-1])

    def _layers(self, x: Tensor) -> list[Tensor]:
        parts = torch.split(expect_dimension(x, sum(self._lengths)), self._lengths)
        return [part.view(shape) for part, shape in zip(parts, self._shapes, strict=True)]

    def _loss(self, outputs: Tensor) -> Tensor:
        return 0.5 * (outputs - self._targets).square().sum() / len(self._rows)

    def _forward(self, W: list[Tensor]) -> list[Tensor]:
        """The inputs and the output of every layer."""
        signals = [self._rows]
        for w in W:
            signals.append(signals[-1] @ w.T)
        return signals

    def _backward(self, W: list[Tensor], outputs: Tensor) -> list[Tensor]:
        """The derivative of the loss in the output of every layer."""
        errors = [(outputs - self._targets) / len(self._rows)]
        for w in reversed(W[1:]):
            errors.append(errors[-1] @ w)
        return errors[::-1]
