"""The smallest saddle with minima beside it."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from unsaddle.objectives import Function
from unsaddle.problems.arguments import expect_dimension, float_type
from unsaddle.problems.dense import stationary_point
from unsaddle.problems.problem import Constants, Problem, StationaryPoint


def two_dimensional_saddle(*, dtype: torch.dtype = torch.float64) -> Problem:
    """f(x, y) = x² − y² + y⁴/4.

    A strict saddle at 0 with spectrum {2, −2}, and minima at (0, ±√2) with spectrum {2, 4}. The Hessian is
    diag(2, 3y² − 2), so where |y| ≤ Y, L1 ≤ max(2, 3Y² − 2) and L2 ≤ 6Y. Neither exists on the whole space.

    >>> problem = two_dimensional_saddle()
    >>> [(point.kind, point.lowest_curvature) for point in problem.stationary_points]
    [('strict saddle', -2.0), ('minimum', 2.0), ('minimum', 2.0)]
    """
    dtype = float_type(dtype)

    def value_and_grad(x: Tensor) -> tuple[Tensor, Tensor]:
        a, b = expect_dimension(x, 2)
        return a**2 - b**2 + b**4 / 4, torch.stack([2 * a, b**3 - 2 * b])

    def hvp(x: Tensor, v: Tensor) -> Tensor:
        return torch.stack([torch.full_like(x[0], 2.0), 3 * expect_dimension(x, 2)[1] ** 2 - 2]) * v

    def constants(point: Tensor, radius: float) -> Constants:
        reach = abs(float(point[1])) + radius
        return Constants(max(2.0, 3 * reach**2 - 2), 6 * reach)

    def stationary(y: float) -> StationaryPoint:
        point, spectrum = torch.tensor([[0.0, y], [2.0, 4.0 if y else -2.0]], dtype=torch.float64)
        return stationary_point(point, "minimum" if y else "strict saddle", spectrum, dtype)

    return Problem(
        name="two-dimensional saddle",
        objective=Function(value_and_grad, gradient=True, hvp=hvp),
        dimension=2,
        dtype=dtype,
        stationary_points=tuple(stationary(y) for y in (0.0, math.sqrt(2.0), -math.sqrt(2.0))),
        local_constants=constants,
    )
