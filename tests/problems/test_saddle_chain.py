from __future__ import annotations

from itertools import pairwise

import pytest
import torch

from unsaddle.problems import saddle_chain
from unsaddle.problems.arguments import generator, normal


@pytest.mark.slow
def test_gradient_descent_passes_the_saddles_one_after_another() -> None:
    problem = saddle_chain(length=5)
    f = problem.objective.sample()
    assert problem.smoothness is not None
    x = 1e-3 * normal(5, random=generator(0)).abs()
    chain = torch.stack([p.point for p in problem.stationary_points])
    visited = [0]
    for _ in range(2000):
        x = x - f.grad(x) / problem.smoothness
        near = (x - chain).norm(dim=1)
        if float(near.min()) < 0.1 and int(near.argmin()) != visited[-1]:
            visited.append(int(near.argmin()))
    assert visited == [0, 1, 2, 3, 4, 5]


@pytest.mark.slow
def test_gradient_descent_waits_longer_at_each_saddle() -> None:
    problem = saddle_chain(length=5)
    f = problem.objective.sample()
    assert problem.smoothness is not None
    x = torch.full((5,), 1e-2, dtype=torch.float64)
    reached = [0] * 5
    for step in range(1, 5000):
        x = x - f.grad(x) / problem.smoothness
        for k in range(5):
            reached[k] = reached[k] or step * int(x[k] > 0.5)
    waits = [b - a for a, b in pairwise(reached)]
    assert waits == sorted(waits)
    assert waits[-1] > 2 * waits[0]


def test_exactly_at_a_saddle_the_gradient_is_exactly_zero() -> None:
    for p in saddle_chain(length=4).saddles:
        assert saddle_chain(length=4).objective.sample().grad(p.point).tolist() == [0.0] * 4


@pytest.mark.slow
def test_the_hessian_is_lipschitz_across_the_joints() -> None:
    """The pieces meet at −1, 0 and 1; the bound must hold for pairs on both sides of them."""
    problem = saddle_chain(length=6, gamma=2.0)
    assert problem.smoothness is not None
    assert problem.hessian_lipschitz is not None
    f = problem.objective.sample(hessian=True)
    eye = torch.eye(6, dtype=torch.float64)
    random = generator(1)
    steepest = 0.0
    for _ in range(300):
        x = torch.randint(-1, 2, (6,), generator=random).double() + 0.2 * normal(6, random=random)
        y = x + 0.05 * normal(6, random=random)
        A, B = (torch.stack([f.hvp(z, e) for e in eye]) for z in (x, y))  # type: ignore[attr-defined]
        assert float(torch.linalg.matrix_norm(A, ord=2)) <= problem.smoothness
        slope = float(torch.linalg.matrix_norm(A - B, ord=2) / (x - y).norm())
        assert slope <= problem.hessian_lipschitz
        steepest = max(steepest, slope)
    assert steepest > 0.25 * problem.hessian_lipschitz


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="length must be at least 1, got 0"):
        saddle_chain(length=0)
    with pytest.raises(ValueError, match="gamma must be a finite number > 0"):
        saddle_chain(length=3, gamma=-1.0)
