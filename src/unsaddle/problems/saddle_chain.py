"""A chain of saddles that a method passes one after another."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from unsaddle import checks
from unsaddle.objectives import Function
from unsaddle.problems.arguments import expect_dimension, float_type
from unsaddle.problems.dense import stationary_point
from unsaddle.problems.problem import Problem, StationaryPoint

BUMP_FIRST = 6.0 * 0.8**2 * math.sqrt(0.2)
"""max |b'| of the bump b, at t² = 1/5. Also |b''| ≤ 6, at t = 0, and |b'''| ≤ 48, at t = 1."""


def saddle_chain(*, length: int, gamma: float = 1.0, dtype: torch.dtype = torch.float64) -> Problem:
    """f(x) = Σ_k w(x_k) + (γ/3) Σ_{k≥2} (1 − b(x_{k−1})) b(x_k), a smooth relative of the octopus of Du et al. (2017).

    There are d = `length` saddles in d dimensions, each with the negative curvature −γ, γ = `gamma`.

    The well w has w'' = γ·min(2|t| − 1, 1): a hump at 0 with curvature −γ, minima at ±1 with curvature γ. The bump
    b(t) = 1 − (1 − t²)³ for |t| ≤ 1, and 1 beyond, has b' = 0 at 0, ±1 and beyond, b''(0) = 6 and b''(±1) = 0. While
    x_{k−1} = 0, the curvature −γ + 2γ = γ holds x_k at 0. When x_{k−1} has reached ±1, x_k is free.

    All points of {−1, 0, 1}^d are stationary, with a diagonal Hessian. Listed is the chain x^(j) = (1, …, 1, 0, …, 0)
    with j ones. For j < d it is a strict saddle, with one eigenvalue −γ and all others γ. For j = d it is a minimum
    with spectrum {γ}. A first-order method arrives at each saddle with the next coordinate near 0, and waits there.

    f is twice differentiable. With B = max |b'| < 1.7174, everywhere L1 ≤ γ + (γ/3)(6 + 2B²) < 4.97γ, since the Hessian
    is tridiagonal and no row sums to more, and L2 ≤ 2γ + (γ/3)(48 + 18√2·B) < 32.6γ, since in D³f[v,v,v] the mixed
    terms Σ v_k²(|v_{k−1}| + |v_{k+1}|) are at most √2‖v‖³.

    >>> problem = saddle_chain(length=3)
    >>> [p.point.tolist() for p in problem.saddles]
    [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]
    """
    d, gamma, dtype = checks.count(length, "length"), checks.positive(gamma, "gamma"), float_type(dtype)

    def value_and_grad(x: Tensor) -> tuple[Tensor, Tensor]:
        size, room = _parts(expect_dimension(x, d))
        b = 1.0 - room**3
        outside = (size - 1.0).clamp_min(0.0)
        inside = size - outside  # min(|t|, 1), where w = |t|³/3 − t²/2; beyond it, −1/6 + (|t| − 1)²/2
        wells = inside**3 / 3.0 - inside**2 / 2.0 + outside**2 / 2.0
        value = gamma * (wells.sum() + torch.dot(1.0 - b[:-1], b[1:]) / 3.0)
        slopes = inside**2 - inside + outside
        return value, gamma * (x.sign() * slopes + 2.0 * x * room**2 * _held(b))

    def hvp(x: Tensor, v: Tensor) -> Tensor:
        size, room = _parts(expect_dimension(x, d))
        first, second = 6.0 * x * room**2, 6.0 * room * (room - 4.0 * x * x)  # b' and b''
        product = ((2.0 * size - 1.0).clamp_max(1.0) + second * _held(1.0 - room**3) / 3.0) * v
        cross = first[:-1] * first[1:] / 3.0
        product[:-1] -= cross * v[1:]
        product[1:] -= cross * v[:-1]
        return gamma * product

    def stationary(ones: int) -> StationaryPoint:
        point = (torch.arange(d) < ones).double()
        spectrum = torch.tensor([gamma] if ones == d else [-gamma, gamma], dtype=torch.float64)
        return stationary_point(point, "minimum" if ones == d else "strict saddle", spectrum, dtype)

    return Problem(
        name=f"chain of {d} saddles",
        objective=Function(value_and_grad, gradient=True, hvp=hvp),
        dimension=d,
        dtype=dtype,
        stationary_points=tuple(stationary(ones) for ones in range(d + 1)),
        smoothness=gamma * (1.0 + (6.0 + 2.0 * BUMP_FIRST**2) / 3.0),
        hessian_lipschitz=gamma * (2.0 + (48.0 + 18.0 * math.sqrt(2.0) * BUMP_FIRST) / 3.0),
    )


def _parts(x: Tensor) -> tuple[Tensor, Tensor]:
    """|x| and (1 − x²)₊, the parts of the bump and its derivatives."""
    return x.abs(), (1.0 - x * x).clamp_min(0.0)


def _held(b: Tensor) -> Tensor:
    """The factor of b(x_k) in f: 1 − b(x_{k−1}) − b(x_{k+1}). Nothing holds the first, and the last holds nothing."""
    held = torch.ones_like(b)
    held[0] = 0.0
    held[1:] -= b[:-1]
    held[:-1] -= b[1:]
    return held
