"""Every problem against its formula, written again as plainly as possible and differentiated by autograd."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor
from torch.autograd.functional import hessian

from unsaddle.problems import (
    Problem,
    hadamard_regression,
    linear_network,
    matrix_sensing,
    phase_retrieval,
    prescribed_spectrum,
    saddle_chain,
    symmetric_factorisation,
    tensor_decomposition,
    two_dimensional_saddle,
)
from unsaddle.problems.arguments import generator, normal
from unsaddle.problems.reflection import reflection


@dataclass
class Case:
    problem: Problem
    plain: Callable[[Tensor], Tensor]


def _two_dimensional() -> Case:
    return Case(two_dimensional_saddle(), lambda x: x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4)


def _prescribed(power: int) -> Case:
    s = torch.tensor([-1.5, 2.0, -0.5, 0.0, 0.75], dtype=torch.float64)
    Q, c = reflection(5, 3, torch.float64), 0.7

    def plain(x: Tensor) -> Tensor:
        z = Q(x)
        return (s * z**2).sum() / 2 + (c / 4 * (z**4).sum() if power == 4 else c / 6 * (z.abs() ** 3).sum())

    return Case(prescribed_spectrum(s, power=power, scale=c, rotation_seed=3), plain)


def _factorisation(rank: int, eigenvalues: list[float]) -> Case:
    problem = symmetric_factorisation(eigenvalues, size=5, rank=rank, seed=2)
    # The minimum of the full factorisation is a root of M.
    root = symmetric_factorisation(eigenvalues, size=5, rank=len(eigenvalues), seed=2).minima[0].point
    M = root.view(5, -1) @ root.view(5, -1).T
    return Case(problem, lambda x: ((x.view(5, rank) @ x.view(5, rank).T - M) ** 2).sum() / 4)


def _sensing() -> Case:
    problem = matrix_sensing(size=4, rank=2, measurements=25, seed=1)
    A = normal(25, 4, 4, random=generator(1))
    target = problem.minima[0].point.view(4, 2)
    # A is not symmetrised here: ⟨A, X⟩ is the same for symmetric X.
    b = torch.stack([(a * (target @ target.T)).sum() for a in A])
    return Case(problem, lambda x: ((torch.einsum("mij,ik,jk->m", A, x.view(4, 2), x.view(4, 2)) - b) ** 2).mean())


def _phase() -> Case:
    problem = phase_retrieval(dimension=4, measurements=30, seed=1)
    A = normal(30, 4, random=generator(1))
    b = A @ problem.minima[0].point
    return Case(problem, lambda x: (((A @ x) ** 2 - b**2) ** 2).mean() / 4)


def _tensor(pull: float) -> Case:
    Q = reflection(5, 0, torch.float64)
    problem = tensor_decomposition(dimension=5, pull=pull)
    return Case(problem, lambda x: pull / 4 * ((x**2).sum() - 1) ** 2 - (Q(x) ** 4).sum() / 4)


def _chain() -> Case:
    gamma = 0.6

    def plain(x: Tensor) -> Tensor:
        size = x.abs()
        well = torch.where(size < 1, size**3 / 3 - x**2 / 2, -1 / 6 + (size - 1) ** 2 / 2)
        b = torch.where(size < 1, 1 - (1 - x**2) ** 3, torch.ones_like(x))
        return gamma * well.sum() + gamma / 3 * ((1 - b[:-1]) * b[1:]).sum()

    return Case(saddle_chain(length=5, gamma=gamma), plain)


def _network(layers: int) -> Case:
    sizes = [4, *[3] * (layers - 1), 2]
    shapes = list(zip(sizes[1:], sizes[:-1], strict=True))

    def product(x: Tensor) -> Tensor:
        result = torch.eye(4, dtype=x.dtype)
        for w, shape in zip(torch.split(x, [a * b for a, b in shapes]), shapes, strict=True):
            result = w.view(shape) @ result
        return result

    problem = linear_network([2.0, 0.5], layers=layers, width=3, inputs=4, outputs=2, num_samples=9, seed=5)
    M = product(problem.minima[0].point)
    assert torch.allclose(torch.linalg.svdvals(M), torch.tensor([2.0, 0.5], dtype=torch.float64))
    return Case(problem, lambda x: ((product(x) - M) ** 2).sum() / 2)


def _hadamard() -> Case:
    problem = hadamard_regression(num_weights=5, num_samples=20, nonzero=2, seed=4)
    A = normal(20, 5, random=generator(4))
    u, v = problem.minima[0].point.chunk(2)
    b = A @ (u * v)
    return Case(problem, lambda x: ((A @ (x[:5] * x[5:]) - b) ** 2).mean())


CASES = {
    "two-dimensional": _two_dimensional,
    "quartic": lambda: _prescribed(4),
    "cubic": lambda: _prescribed(3),
    "factorisation": lambda: _factorisation(3, [3.0, 2.0, 0.5]),
    "factorisation, rank below M's": lambda: _factorisation(2, [3.0, 2.0, 0.5]),
    "factorisation, rank one": lambda: _factorisation(1, [3.0, 2.0]),
    "sensing": _sensing,
    "phase": _phase,
    "tensor": lambda: _tensor(2.0),
    "tensor, weak pull": lambda: _tensor(1.1),
    "tensor, strong pull": lambda: _tensor(4.0),
    "chain": _chain,
    "network, 2 layers": lambda: _network(2),
    "network, 3 layers": lambda: _network(3),
    "network, 4 layers": lambda: _network(4),
    "hadamard": _hadamard,
}


@pytest.fixture(params=CASES, scope="module")
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]()


def _points(problem: Problem) -> list[Tensor]:
    random = generator(7)
    return [size * normal(problem.dimension, random=random) for size in (0.3, 1.0, 3.0)]


def test_value_gradient_and_hessian_product_are_those_of_the_formula(case: Case) -> None:
    f = case.problem.objective.sample(hessian=True)
    for x in _points(case.problem):
        v = normal(case.problem.dimension, random=generator(8))
        value, grad = f.value_and_grad(x)
        torch.testing.assert_close(value, case.plain(x), rtol=1e-11, atol=1e-12)
        torch.testing.assert_close(f.value(x), value, rtol=1e-14, atol=1e-14)
        torch.testing.assert_close(grad, torch.func.grad(case.plain)(x), rtol=1e-10, atol=1e-11)
        torch.testing.assert_close(f.hvp(x, v), hessian(case.plain, x) @ v, rtol=1e-10, atol=1e-10)


def test_the_gradient_vanishes_at_every_stationary_point(case: Case) -> None:
    assert case.problem.stationary_points
    for stationary in case.problem.stationary_points:
        assert torch.func.grad(case.plain)(stationary.point).norm() < 1e-12
        assert case.problem.objective.sample().grad(stationary.point).norm() < 1e-12


def test_every_stationary_point_has_the_curvature_it_states(case: Case) -> None:
    for stationary in case.problem.stationary_points:
        spectrum = torch.linalg.eigvalsh(hessian(case.plain, stationary.point))
        assert float(spectrum[0]) == pytest.approx(stationary.lowest_curvature, abs=1e-12, rel=1e-12)
        assert float(spectrum.abs().max()) == pytest.approx(stationary.largest_curvature, abs=1e-12, rel=1e-12)


def test_every_strict_saddle_has_a_way_down_and_no_minimum_has_one(case: Case) -> None:
    assert {stationary.kind for stationary in case.problem.stationary_points} > {"minimum"}
    for stationary in case.problem.stationary_points:
        height = case.plain(stationary.point)
        steps = [0.1 * u / u.norm() for u in normal(200, case.problem.dimension, random=generator(9))]
        vectors = torch.linalg.eigh(hessian(case.plain, stationary.point)).eigenvectors
        steps += [0.1 * vectors[:, 0], -0.1 * vectors[:, 0]]
        lowest = min(float(case.plain(stationary.point + u) - height) for u in steps)
        if stationary.kind == "strict saddle":
            assert lowest < 0.0
        if stationary.kind == "minimum":
            assert lowest > -1e-15


@pytest.mark.parametrize("name", ["network, 3 layers", "network, 4 layers"])
def test_a_degenerate_point_is_neither(name: str) -> None:
    case = CASES[name]()
    (stationary,) = (point for point in case.problem.stationary_points if point.kind == "degenerate")
    assert stationary.lowest_curvature == stationary.largest_curvature == 0.0
    target = case.problem.minima[0].point
    assert case.plain(stationary.point + 0.1 * target) < case.plain(stationary.point)
