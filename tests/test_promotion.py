"""The contract of NEON-A: from a strict saddle of every problem, every promoted method ends at a second-order point.

Judged outside the run, by the gradient of the whole and the eigenvalues of its dense Hessian. One seed here; twenty in
`python -m benchmarks.promotion`.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from unsaddle import Ending, minimize
from unsaddle.first_order.method import Local
from unsaddle.methods import FIRST_ORDER
from unsaddle.objective import Objective
from unsaddle.problems import Problem, zoo
from unsaddle.problems.dense import eigenvalues

pytestmark = pytest.mark.study

EPS = 1e-3
LONGEST = 2_000_000
SADDLES = [
    pytest.param(problem, saddle.point, id=f"{problem.name}, saddle {i}")
    for problem in zoo()
    for i, saddle in list(enumerate(problem.saddles))[:2]
]


def beside(point: Tensor, distance: float = 1e-8) -> Tensor:
    off = torch.randn(point.numel(), generator=torch.Generator().manual_seed(0), dtype=point.dtype)
    return point + distance * off / off.norm()


@pytest.mark.parametrize(("problem", "saddle"), SADDLES)
@pytest.mark.parametrize("method", [f"neon-{name}" for name in FIRST_ORDER])
def test_from_a_strict_saddle_and_beside_it_every_promoted_method_ends_at_a_second_order_point(
    method: str, problem: Problem, saddle: Tensor
) -> None:
    for start in (saddle, beside(saddle)):
        solution = minimize(problem.objective, start, method=method, eps=EPS, max_samples=LONGEST)
        assert solution.status is Ending.SECOND_ORDER_POINT
        assert float(problem.objective.sample().grad(solution.x).norm()) <= 1.5 * EPS
        assert float(eigenvalues(problem.objective, solution.x)[0]) >= -solution.gamma


# --- The counterpart, without which the above shows nothing ---------------------------------------------------------


def every_gradient_vanishes(objective: Objective, point: Tensor) -> bool:
    """Whether ∇f_i(point) = 0 for each component: single samples come out as all of them in the end."""
    random, n = torch.Generator().manual_seed(0), objective.num_samples
    assert n is not None
    return all(bool((objective.sample(1, random).grad(point) == 0.0).all()) for _ in range(20 * n))


STUCK = [p for p in SADDLES if every_gradient_vanishes(p.values[0].objective, p.values[1])]


def test_there_are_problems_of_each_kind_to_be_stuck_at() -> None:
    names = " ".join(str(p.id) for p in STUCK)
    for name in ("two-dimensional saddle", "quartic", "symmetric", "phase retrieval", "saddles", "linear", "hadamard"):
        assert name.lower() in names.lower(), name


@pytest.mark.parametrize(("problem", "saddle"), STUCK)
@pytest.mark.parametrize("method", FIRST_ORDER)
def test_without_neon_the_same_method_stays_where_every_components_gradient_vanishes(
    method: str, problem: Problem, saddle: Tensor
) -> None:
    solution = minimize(problem.objective, saddle, method=method, eps=EPS, max_samples=LONGEST)
    assert solution.status is Ending.FIRST_ORDER_POINT
    assert torch.equal(solution.x, saddle)
    # Not because the test ends the run: made to go on, no round of it moves.
    n, random = problem.objective.num_samples, torch.Generator().manual_seed(0)
    local = Local(eps=EPS, num_samples=n, smoothness=1.0, variance=1.0, gradient_norm=1.0)
    made = FIRST_ORDER[method]()
    y = z = saddle
    for _ in range(3):
        y, z = made.advance(problem.objective, z, None, local, random)
    assert torch.equal(y, saddle)
    assert torch.equal(z, saddle)
