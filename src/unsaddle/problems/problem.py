"""A test problem: an objective, the stationary points that are known exactly, and the constants of its smoothness."""

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
    """Upper bounds of the paper's L1 and L2: of ‖∇²F‖ and of the Lipschitz constant of ∇²F."""

    smoothness: float
    hessian_lipschitz: float


@dataclass(frozen=True, kw_only=True, eq=False)
class StationaryPoint:
    """A point where ∇F = 0, and the two ends of what its Hessian does."""

    point: Tensor
    kind: Kind
    """A strict saddle has λ_min < 0 (a maximum is one too); at a minimum λ_min may be 0, where the minimum is not
    isolated; a degenerate point has λ_min = 0 and is not a minimum, so that no second-order method can tell."""
    lowest_curvature: float
    """λ_min(∇²F), from a formula or from the dense Hessian."""
    largest_curvature: float
    """max |λ(∇²F)|."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """An objective of which the answer is known.

    All constants are those of F. A sample F_S can exceed them.

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
    """Known ones; there may be others."""
    smoothness: float | None = None
    """L1 on the whole space, None where there is none."""
    hessian_lipschitz: float | None = None
    """L2 on the whole space, None where there is none."""
    local_constants: Callable[[Tensor, float], Constants] | None = None
    """Bounds on the ball around a point; `constants_near` asks it. Only a problem with both global ones may omit it."""

    def __post_init__(self) -> None:
        if self.local_constants is None and (self.smoothness is None or self.hessian_lipschitz is None):
            raise ValueError(
                f"{self.name} lacks a global smoothness or hessian_lipschitz; pass local_constants=, bounds on a ball"
            )

    @property
    def saddles(self) -> tuple[StationaryPoint, ...]:
        """The strict saddles."""
        return tuple(s for s in self.stationary_points if s.kind == "strict saddle")

    @property
    def minima(self) -> tuple[StationaryPoint, ...]:
        """The minima."""
        return tuple(s for s in self.stationary_points if s.kind == "minimum")

    def constants_near(self, point: Tensor, radius: float) -> Constants:
        """Upper bounds of ‖∇²F‖ and of the Lipschitz constant of ∇²F on the ball of this radius around the point."""
        point = expect_dimension(checks.point(point, "point"), self.dimension, "point").double()
        radius = checks.not_negative(radius, "radius")
        if self.local_constants is not None:
            return self.local_constants(point, radius)
        assert self.smoothness is not None
        assert self.hessian_lipschitz is not None
        return Constants(self.smoothness, self.hessian_lipschitz)
