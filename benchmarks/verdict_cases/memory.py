"""Gradients from inner solvers: with memory of the last answer, as a self-consistent field has, or rough.

Values are better than gradients there: at a solution that is off by σ the gradient is off by σ, and the value by σ².
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from benchmarks.verdict_cases.case import DTYPES, Case, dimension, integer, normal, randomness, uniform
from benchmarks.verdict_cases.landscape import point, rotated, saddle_or_minimum
from unsaddle import Function

MOST_ITERATIONS = 2000


def memory(index: int, precision: str) -> Case:
    """F(x) = min_y ½zᵀAz − yᵀCz + ½yᵀBy + (β/4)Σy⁴ + (c/24)Σz⁴, z = x − x₀; ∇F = Az − Cᵀŷ + (c/6)z³ at an inexact ŷ.

    ŷ is iterated from that of the last call until a step is shorter than a tolerance of 1e-4 to 1e-8 (1e-5 in float32),
    in units where ‖C‖ = 1. Next to x it hardly iterates; after a far call the gradient at x is another one. By turns at
    least one iteration is made, so that a repeated call is better than the first. The truth is that of the converged
    function, A − CᵀB⁻¹C; |λ_min| of saddles is at least 0.03 of L1.
    """
    g = randomness("memory", index)
    d, dtype = dimension(g, 2, 100), DTYPES[precision]
    inner = integer(g, 2, 20)
    s = saddle_or_minimum(g, index, d, softest=0.03)
    matrix, _ = rotated(g, s)
    coupling = normal(g, inner, d)
    coupling /= torch.linalg.matrix_norm(coupling, 2)
    stiffness, _ = rotated(g, 0.3 + 0.7 * torch.rand(inner, generator=g, dtype=torch.float64))
    A = matrix + coupling.T @ torch.linalg.solve(stiffness, coupling)
    norm = 0.0 if index // 2 % 4 == 0 else 10.0 ** uniform(g, -1.0, 1.5)
    x0 = point(g, d, norm, precision)
    tolerance = 10.0 ** uniform(g, -8.0 if precision == "float64" else -5.0, -4.0)
    beta, fourth = 10.0 ** uniform(g, -2.0, 0.0), 10.0 ** uniform(g, -2.0, 0.0)
    least, start = index // 8 % 2, 0.1 * normal(g, inner)
    a, c, b = A.to(dtype), coupling.to(dtype), stiffness.to(dtype)
    # The memory. It starts somewhere else, as a solver does that has not seen x yet.
    y = start.to(dtype)

    def value_and_grad(x: Tensor) -> tuple[Tensor, Tensor]:
        nonlocal y
        z = x - x0
        for k in range(MOST_ITERATIONS):
            step = c @ z - b @ y - beta * y**3
            if k >= least and float(step.norm()) <= tolerance:
                break
            y = y + 0.9 * step
        value = 0.5 * torch.dot(z, a @ z) - torch.dot(y, c @ z) + 0.5 * torch.dot(y, b @ y) + beta / 4.0 * (y**4).sum()
        return value + fourth / 24.0 * (z**4).sum(), a @ z - c.T @ y + fourth / 6.0 * z**3

    truth = a.double() - c.double().T @ torch.linalg.solve(b.double(), c.double())
    truth = (truth + truth.T) / 2.0
    eigenvalues = torch.linalg.eigvalsh(truth)
    return Case(
        objective=Function(value_and_grad, gradient=True),
        x=x0,
        lowest=float(eigenvalues[0]),
        largest=float(eigenvalues.abs().max()),
        curvature=lambda v: float(v @ truth @ v),
    )


def rough(index: int, precision: str) -> Case:
    """½zᵀHz + (c/24)Σz⁴, z = x − x₀, whose gradient has an error σ·sin(Kx): the same at the same x, zero on average.

    σ is 1e-9 to 1e-4 of L1 (from 1e-6 in float32). The length of its waves is 1e-6 to 1e-14 (1e-3 to 1e-6 in float32),
    so that it is a smooth function to probes that are nearer, and noise to those that are farther. The truth is that of
    the values, H; |λ_min| of saddles is at least 0.03 of L1.
    """
    g = randomness("rough", index)
    d, dtype = dimension(g, 2, 100), DTYPES[precision]
    double = precision == "float64"
    matrix, _ = rotated(g, saddle_or_minimum(g, index, d, softest=0.03))
    x0 = point(g, d, 0.0 if index // 2 % 3 == 0 else 10.0 ** uniform(g, -1.0, 1.0), precision)
    error = 10.0 ** uniform(g, -9.0 if double else -6.0, -4.0) / math.sqrt(d / 2.0)
    fourth = 10.0 ** uniform(g, -2.0, 0.0)
    h = matrix.to(dtype)
    waves = (10.0 ** uniform(g, *((6.0, 14.0) if double else (3.0, 6.0))) * normal(g, d, d)).to(dtype)

    def value_and_grad(x: Tensor) -> tuple[Tensor, Tensor]:
        z = x - x0
        product = h @ z
        grad = product + fourth / 6.0 * z**3 + error * torch.sin(waves @ x)
        return 0.5 * torch.dot(z, product) + fourth / 24.0 * (z**4).sum(), grad

    truth = h.double()
    eigenvalues = torch.linalg.eigvalsh(truth)
    return Case(
        objective=Function(value_and_grad, gradient=True),
        x=x0,
        lowest=float(eigenvalues[0]),
        largest=float(eigenvalues.abs().max()),
        curvature=lambda v: float(v @ truth @ v),
    )
