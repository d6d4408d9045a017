"""A test problem: an objective, its known stationary points, and the constants of its smoothness."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from unsaddle import checks
from unsaddle.objective import Objective
from unsaddle.problems.arguments import expect_dimension

Kind = Literal["strict saddle", "minimum", "degenerate"]


class Constants(NamedTuple):
    """Upper bounds of ‖∇²F‖ (L1) and of the Lipschitz constant of ∇²F (L2)."""

    smoothness: float
    hessian_lipschitz: float


LocalConstants = Callable[[Tensor, float], Constants]
"""(point, radius) → bounds on the ball of this radius around the point."""


def where_norm_below(bounds: Callable[[float], Constants]) -> LocalConstants:
    """Bounds on a ball, from bounds(R) that hold where ‖x‖ ≤ R."""
    return lambda point, radius: bounds(float(torch.linalg.vector_norm(point)) + radius)


@dataclass(frozen=True, kw_only=True, eq=False)
class StationaryPoint:
    """A point where ∇F = 0, with its lowest and its largest curvature."""

    point: Tensor
    kind: Kind
    """A strict saddle has λ_min < 0: a maximum is one too. A minimum that is not isolated may have λ_min = 0. A
    degenerate point has λ_min = 0 and is not a minimum, which no second-order method can tell."""
    lowest_curvature: float
    """λ_min(∇²F), by a formula or from the dense Hessian."""
    largest_curvature: float
    """max |λ(∇²F)|."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """An objective whose answer is known. The constants hold for F. A sample F_S can exceed them.

    >>> import unsaddle.problems as problems
    >>> problem = problems.two_dimensional_saddle()
    >>> problem.saddles[0].point.tolist(), problem.saddles[0].lowest_curvature, len(problem.minima)
    ([0.0, 0.0], -2.0, 2)
    >>> problem.constants_near(problem.saddles[0].point, radius=1.0)
    Constants(smoothness=2.0, hessian_lipschitz=6.0)
    """

    name: str
    objective: Objective
    dimension: int
    dtype: torch.dtype
    stationary_points: tuple[StationaryPoint, ...]
    """The known ones. There may be others."""
    smoothness: float | None = None
    """L1 on the whole space, if it exists."""
    hessian_lipschitz: float | None = None
    """L2 on the whole space, if it exists."""
    local_constants: LocalConstants | None = None
    """Bounds on a ball. Required unless L1 and L2 exist on the whole space. `constants_near` checks its arguments."""

    def __post_init__(self) -> None:
        if self.local_constants is None and (self.smoothness is None or self.hessian_lipschitz is None):
            raise ValueError(
                f"{self.name} lacks a global smoothness or hessian_lipschitz; pass local_constants=, bounds on a ball"
            )

    @property
    def saddles(self) -> tuple[StationaryPoint, ...]:
        return tuple(s for s in self.stationary_points if s.kind == "strict saddle")

    @property
    def minima(self) -> tuple[StationaryPoint, ...]:
        return tuple(s for s in self.stationary_points if s.kind == "minimum")

    def constants_near(self, point: Tensor, radius: float) -> Constants:
        """Upper bounds of L1 and L2 on the ball of this radius around the point."""
        point = expect_dimension(checks.point(point, "point"), self.dimension, "point").double()
        radius = checks.not_negative(radius, "radius")
        if self.local_constants is not None:
            return self.local_constants(point, radius)
        assert self.smoothness is not None
        assert self.hessian_lipschitz is not None
        return Constants(self.smoothness, self.hessian_lipschitz)
