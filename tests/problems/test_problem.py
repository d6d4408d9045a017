from __future__ import annotations

import pytest
import torch

from unsaddle import Function
from unsaddle.problems import (
    Constants,
    Problem,
    hadamard_regression,
    linear_network,
    matrix_sensing,
    phase_retrieval,
    symmetric_factorisation,
    tensor_decomposition,
    two_dimensional_saddle,
)


def test_global_constants_answer_where_no_local_ones_are_given() -> None:
    objective = Function(lambda x: (x**2).sum())
    problem = Problem(
        name="bowl",
        objective=objective,
        dimension=3,
        dtype=torch.float64,
        stationary_points=(),
        smoothness=2.0,
        hessian_lipschitz=0.0,
    )
    assert problem.constants_near(torch.ones(3), 5.0) == Constants(2.0, 0.0)


def test_a_problem_without_any_constants_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="nothing lacks a global smoothness or hessian_lipschitz"):
        Problem(name="nothing", objective=Function(torch.sum), dimension=1, dtype=torch.float64, stationary_points=())


def test_constants_grow_with_the_ball() -> None:
    problem = two_dimensional_saddle()
    origin = problem.saddles[0].point
    assert problem.constants_near(origin, 0.0) == Constants(2.0, 0.0)
    assert problem.constants_near(origin, 2.0) == Constants(10.0, 12.0)
    with pytest.raises(ValueError, match="radius must be a finite number >= 0, got -1"):
        problem.constants_near(origin, -1.0)


def test_float32_points_may_ask_for_constants() -> None:
    problem = two_dimensional_saddle(dtype=torch.float32)
    assert problem.constants_near(problem.saddles[0].point, 1.0) == Constants(2.0, 6.0)


def test_wrong_arguments_of_the_small_problems_are_refused() -> None:
    with pytest.raises(ValueError, match="need rank <= number of eigenvalues <= size, got 3, 2 and 5"):
        symmetric_factorisation([2.0, 1.0], size=5, rank=3)
    with pytest.raises(ValueError, match="eigenvalues must be positive and sorted from large to small"):
        symmetric_factorisation([1.0, 2.0], size=5, rank=1)
    with pytest.raises(ValueError, match="rank must be at most size, got 4 and 3"):
        matrix_sensing(size=3, rank=4, measurements=10)
    with pytest.raises(ValueError, match="measurements must be at least 1, got 0"):
        phase_retrieval(dimension=3, measurements=0)
    with pytest.raises(ValueError, match=r"pull must be > 1, got 1.0; below, the function has no minimum"):
        tensor_decomposition(dimension=3, pull=1.0)
    with pytest.raises(ValueError, match="layers must be at least 2, got 1"):
        linear_network([1.0], layers=1, width=2, inputs=2, outputs=2)
    with pytest.raises(ValueError, match="width must be at least 2, got 1"):
        linear_network([1.0, 1.0], width=1, inputs=2, outputs=2)
    with pytest.raises(ValueError, match="num_samples must be at least 5, got 4"):
        linear_network([1.0], width=1, inputs=5, outputs=1, num_samples=4)
    with pytest.raises(ValueError, match="nonzero must be at most num_weights, got 4 and 3"):
        hadamard_regression(num_weights=3, num_samples=10, nonzero=4)
