"""What suites that loop over the zoo rely on."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from unsaddle.objective import Objective, SecondOrderFunction
from unsaddle.problems import Problem, zoo
from unsaddle.problems.arguments import generator, normal
from unsaddle.vectors import random_in_ball

ZOO = zoo()
SINGLE = zoo(torch.float32)


@pytest.fixture(params=ZOO, ids=lambda problem: problem.name)
def problem(request: pytest.FixtureRequest) -> Problem:
    return request.param


def _hessian(problem: Problem, x: Tensor) -> Tensor:
    f = problem.objective.sample(hessian=True)
    assert isinstance(f, SecondOrderFunction)
    return torch.stack([f.hvp(x, e) for e in torch.eye(problem.dimension, dtype=x.dtype)])


def _spectral(matrix: Tensor) -> float:
    return float(torch.linalg.eigvalsh((matrix + matrix.T) / 2).abs().max())


def test_the_zoo_has_saddles_minima_and_a_degenerate_point() -> None:
    kinds = {point.kind for problem in ZOO for point in problem.stationary_points}
    assert kinds == {"strict saddle", "minimum", "degenerate"}
    assert sum(not problem.saddles for problem in ZOO) >= 3
    assert len({problem.name for problem in ZOO}) == len(ZOO) >= 15


def test_a_problem_of_the_zoo_is_small_and_consistent(problem: Problem) -> None:
    assert 2 <= problem.dimension <= 60
    assert isinstance(problem.objective, Objective)
    assert problem.stationary_points
    for stationary in problem.stationary_points:
        assert stationary.point.shape == (problem.dimension,)
        assert stationary.point.dtype == problem.dtype == torch.float64
        assert abs(stationary.lowest_curvature) <= stationary.largest_curvature
        assert (stationary.kind == "strict saddle") == (stationary.lowest_curvature < -1e-9)


def test_stationary_points_are_stationary_with_the_stated_curvature(problem: Problem) -> None:
    for stationary in problem.stationary_points:
        assert problem.objective.sample().grad(stationary.point).norm() < 1e-13
        spectrum = torch.linalg.eigvalsh(_hessian(problem, stationary.point))
        assert float(spectrum[0]) == pytest.approx(stationary.lowest_curvature, abs=1e-12)
        assert float(spectrum.abs().max()) == pytest.approx(stationary.largest_curvature, abs=1e-12)


@pytest.mark.slow
def test_constants_near_bound_the_hessian_and_its_change(problem: Problem) -> None:
    random = generator(0)
    for stationary in problem.stationary_points[:4]:
        ends = torch.linalg.eigh(_hessian(problem, stationary.point)).eigenvectors[:, [0, -1]].T
        for radius in (0.1, 1.0):
            smoothness, hessian_lipschitz = problem.constants_near(stationary.point, radius)
            # Along the extreme eigenvectors the bounds are often attained; random pairs look everywhere else.
            pairs = [(sign * radius * u, sign * 0.97 * radius * u) for u in ends for sign in (1.0, -1.0)]
            pairs += [
                (random_in_ball(ends[0], radius, random), random_in_ball(ends[0], radius, random)) for _ in range(3)
            ]
            for a, b in pairs:
                A, B = _hessian(problem, stationary.point + a), _hessian(problem, stationary.point + b)
                assert max(_spectral(A), _spectral(B)) <= smoothness * (1 + 1e-12)
                assert _spectral(A - B) <= hessian_lipschitz * float((a - b).norm()) * (1 + 1e-9)


@pytest.mark.parametrize("name", ["two-dimensional", "quartic, random", "cubic", "symmetric", "2-layer"])
@pytest.mark.parametrize(("radius", "share"), [(1.0, 0.99), (2.0, 0.9)])
def test_constants_near_a_saddle_are_attained(name: str, radius: float, share: float) -> None:
    problem = next(p for p in ZOO if p.name.startswith(name))
    center = problem.saddles[0].point
    smoothness, hessian_lipschitz = problem.constants_near(center, radius)
    vectors = radius * torch.linalg.eigh(_hessian(problem, center)).eigenvectors.T
    there = [(_hessian(problem, center + u), _hessian(problem, center + 0.99 * u)) for u in vectors]
    assert max(_spectral(A) for A, _ in there) >= share * smoothness
    assert max(_spectral(A - B) for A, B in there) / (0.01 * radius) >= share * hessian_lipschitz


def test_global_constants_bound_the_local_ones_far_away(problem: Problem) -> None:
    far = 10.0 * normal(problem.dimension, random=generator(1))
    smoothness, hessian_lipschitz = problem.constants_near(far, 1.0)
    assert problem.smoothness is None or smoothness <= problem.smoothness
    assert problem.hessian_lipschitz is None or hessian_lipschitz <= problem.hessian_lipschitz
    assert _spectral(_hessian(problem, far)) <= smoothness * (1 + 1e-12)


@pytest.mark.parametrize(("double", "single"), list(zip(ZOO, SINGLE, strict=True)), ids=[p.name for p in ZOO])
def test_the_float32_problem_is_the_same_problem(double: Problem, single: Problem) -> None:
    assert single.name == double.name
    assert single.dtype == torch.float32
    x = normal(double.dimension, random=generator(2)) / double.dimension**0.5
    f, g = double.objective.sample(hessian=True), single.objective.sample(hessian=True)
    assert isinstance(f, SecondOrderFunction)
    assert isinstance(g, SecondOrderFunction)
    for a, b in zip(f.value_and_grad(x), g.value_and_grad(x.float()), strict=True):
        torch.testing.assert_close(b.double(), a, rtol=2e-5, atol=2e-5)
    torch.testing.assert_close(g.hvp(x.float(), x.float()).double(), f.hvp(x, x), rtol=2e-5, atol=2e-5)
    for a, b in zip(double.stationary_points, single.stationary_points, strict=True):
        assert b.point.dtype == torch.float32
        torch.testing.assert_close(b.point.double(), a.point, rtol=1e-6, atol=1e-7)
        assert (b.kind, b.lowest_curvature, b.largest_curvature) == (a.kind, a.lowest_curvature, a.largest_curvature)
        assert single.objective.sample().grad(b.point).norm() < 1e-5


def test_a_point_of_another_dimension_is_refused(problem: Problem) -> None:
    x = torch.zeros(problem.dimension + 1, dtype=torch.float64)
    f = problem.objective.sample(hessian=True)
    assert isinstance(f, SecondOrderFunction)
    for ask in (f.value, f.value_and_grad, lambda x: f.hvp(x, x), lambda x: problem.constants_near(x, 1.0)):
        with pytest.raises(ValueError, match=f"must have {problem.dimension} coordinates.*got {problem.dimension + 1}"):
            ask(x)


@pytest.mark.parametrize("problem", [p for p in ZOO if p.objective.num_samples != 1], ids=lambda p: p.name)
def test_a_sample_of_a_finite_sum_averages_its_components(problem: Problem) -> None:
    n = problem.objective.num_samples
    x = normal(problem.dimension, random=generator(3))
    shuffled = problem.objective.sample(n, generator(4))
    torch.testing.assert_close(shuffled.grad(x), problem.objective.sample().grad(x), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["matrix sensing", "phase retrieval", "2-layer", "3-layer", "hadamard"])
def test_every_component_gradient_vanishes_at_zero(name: str) -> None:
    problem = next(p for p in ZOO if p.name.startswith(name))
    zero = torch.zeros(problem.dimension, dtype=torch.float64)
    for seed in range(10):
        assert problem.objective.sample(1, generator(seed)).grad(zero).norm() == 0.0
