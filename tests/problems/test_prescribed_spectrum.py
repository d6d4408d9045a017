from __future__ import annotations

import math

import pytest
import torch

from unsaddle.objective import SecondOrderFunction
from unsaddle.problems import prescribed_spectrum, random_spectrum
from unsaddle.problems.arguments import generator, normal
from unsaddle.problems.reflection import reflection


@pytest.mark.parametrize("power", [3, 4])
@pytest.mark.parametrize("d", [2, 40])
def test_the_hessian_at_zero_has_exactly_the_prescribed_spectrum(power: int, d: int) -> None:
    s = random_spectrum(d, lowest=-1.0, largest=3.0)
    f = prescribed_spectrum(s, power=power).objective.sample(hessian=True)
    assert isinstance(f, SecondOrderFunction)
    zero = torch.zeros(d, dtype=torch.float64)
    hessian = torch.stack([f.hvp(zero, e) for e in torch.eye(d, dtype=torch.float64)])
    torch.testing.assert_close(torch.linalg.eigvalsh(hessian), s, rtol=0.0, atol=1e-13)
    assert not torch.allclose(hessian, hessian.diag().diag()), "the eigenvectors should not be the axes"


@pytest.mark.parametrize("power", [3, 4])
def test_a_hundred_thousand_dimensions_are_cheap_and_exact(power: int) -> None:
    d = 100_000
    problem = prescribed_spectrum(random_spectrum(d, lowest=-0.5, largest=2.0), power=power)
    f = problem.objective.sample(hessian=True)
    assert isinstance(f, SecondOrderFunction)
    way_down = reflection(d, 0, torch.float64)(torch.eye(1, d, dtype=torch.float64)[0])
    torch.testing.assert_close(f.hvp(problem.saddles[0].point, way_down), -0.5 * way_down, rtol=0.0, atol=1e-14)
    assert f.grad(problem.minima[0].point).norm() < 1e-10
    x, h = normal(d, random=generator(0)), 1e-3
    v = normal(d, random=generator(1)) / math.sqrt(d)
    slope = (f.value(x + h * v) - f.value(x - h * v)) / (2 * h)
    assert float(slope) == pytest.approx(float(f.grad(x) @ v), rel=1e-6)


def test_without_a_seed_the_coordinates_are_not_rotated() -> None:
    problem = prescribed_spectrum([-1.0, 2.0], rotation_seed=None)
    assert problem.minima[0].point.tolist() == [1.0, 0.0]


def test_a_spectrum_without_negatives_has_one_minimum_and_no_saddle() -> None:
    problem = prescribed_spectrum([0.0, 1.0, 2.0])
    assert [(p.kind, p.lowest_curvature) for p in problem.stationary_points] == [("minimum", 0.0)]


def test_two_negative_eigenvalues_have_a_saddle_on_the_way() -> None:
    problem = prescribed_spectrum([-1.0, -0.5, 2.0])
    assert [p.lowest_curvature for p in problem.saddles] == [-1.0, -0.5]
    values = [float(problem.objective.sample().value(p.point)) for p in problem.stationary_points]
    assert values == sorted(values, reverse=True)


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="power must be 3 or 4, got 5"):
        prescribed_spectrum([-1.0, 1.0], power=5)
    with pytest.raises(ValueError, match="scale must be a finite number > 0, got 0"):
        prescribed_spectrum([-1.0, 1.0], scale=0.0)
    with pytest.raises(ValueError, match="spectrum must be a vector with at least one entry"):
        prescribed_spectrum([])
    with pytest.raises(ValueError, match="spectrum must be finite, got nan"):
        prescribed_spectrum([1.0, math.nan])
    with pytest.raises(ValueError, match=r"dtype must be torch.float32 or torch.float64, got torch.float16"):
        prescribed_spectrum([1.0], dtype=torch.float16)
    with pytest.raises(ValueError, match="seed must be at least 0, got -1"):
        prescribed_spectrum([1.0], rotation_seed=-1)
