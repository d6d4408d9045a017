import math

import pytest
import torch

from unsaddle.experiments.families import Family, Shape

SHAPES = [Shape(dimension=6, gamma=0.1, slope=0.1), Shape(dimension=6, gamma=0.2, bend=0.2)]


def some_points(count=5):
    random = torch.Generator().manual_seed(0)
    return [2.0 * torch.randn(6, generator=random, dtype=torch.float64) for _ in range(count)]


@pytest.mark.parametrize("shape", SHAPES)
def test_derivatives_are_those_of_the_value(shape):
    t = 1e-5
    for x in some_points():
        for i, e in enumerate(torch.eye(6, dtype=torch.float64)):
            slope = (shape.value(x + t * e) - shape.value(x - t * e)) / (2 * t)
            bend = (shape.gradient(x + t * e) - shape.gradient(x - t * e)) / (2 * t)
            assert abs(float(slope - shape.gradient(x)[i])) < 1e-8
            assert torch.allclose(bend, shape.curvatures(x)[i] * e, atol=1e-8)


@pytest.mark.parametrize("slope", [0.2, 0.02, None])
def test_the_constants_are_those_stated(slope):
    shape = Shape(dimension=4, gamma=0.05, slope=slope)
    line = torch.linspace(-3.0, 3.0, 4001, dtype=torch.float64)
    points = [torch.tensor([t, t / 3.0, t, t], dtype=torch.float64) for t in line.tolist()]
    curvatures = torch.stack([shape.curvatures(x) for x in points])
    assert float(curvatures.abs().max()) <= 1.0 + 1e-12
    steps = (curvatures[1:, :2] - curvatures[:-1, :2]).abs() / (line[1] - line[0])
    assert float(steps[:, 0].max()) <= 1.0 + 1e-9  # L2 along the slope,
    assert float(steps[:, 1].max()) <= 1.0 / 3.0 + 1e-9  # and along the saddle, a third as fast here.


@pytest.mark.parametrize("eps", [0.1, 0.01])
def test_a_run_on_the_slope_begins_one_above_its_end_where_the_gradient_is_above_eps_and_on_a_saddle(eps):
    case = Family(shape=Shape(dimension=10, gamma=eps**0.5 / 2, slope=2 * eps), eps=eps).case()
    x = case.start(0)
    assert abs(case.value(x) - 1.0) < 1e-9
    assert eps < float(case.gradient(x).norm()) < 2 * eps
    assert abs(case.lowest_curvature(x) + eps**0.5) < 1e-12


def test_gradient_descent_takes_as_many_steps_down_the_slope_as_the_bound_allows():
    for eps in (0.1, 0.05, 0.025):
        shape, eta = Shape(dimension=3, gamma=0.1, slope=2 * eps), 0.5
        x, steps = shape.start, 0
        while float(shape.gradient(x).norm()) > eps:
            x, steps = x - eta * shape.gradient(x), steps + 1
        assert 0.5 < steps * 4 * eta * eps**2 < 1.5


@pytest.mark.slow
def test_a_batch_has_the_variance_of_a_mean_of_its_samples():
    case = Family(shape=SHAPES[1], eps=0.1, variance=2.0, hessian_deviation=0.3).case()
    x, random = some_points()[0], torch.Generator().manual_seed(0)
    truth = case.gradient(x)
    of_one = 2.0 + 0.09 * float(x.sin().square().sum())
    for size in (1, 100):
        seen = [float((case.objective.sample(size, random).grad(x) - truth).square().sum()) for _ in range(2000)]
        error = torch.tensor(seen).std() / math.sqrt(len(seen))
        assert abs(sum(seen) / len(seen) - of_one / size) < 5 * float(error)


def test_a_batch_is_counted_as_all_its_samples():
    f = Family(shape=SHAPES[0], eps=0.1).case().objective.sample(10**6, torch.Generator().manual_seed(0), hessian=True)
    f.grad(SHAPES[0].start)
    f.hvp(SHAPES[0].start, torch.ones(6, dtype=torch.float64))
    assert (f.cost.samples, f.cost.hessian_samples) == (10**6, 10**6)


@pytest.mark.parametrize("n", [None, 50])
def test_no_sample_leaves_the_ridge_and_products_are_those_of_the_gradients(n):
    case = Family(shape=SHAPES[0], eps=0.1, num_samples=n).case()
    f = case.objective.sample(5, torch.Generator().manual_seed(0), hessian=True)
    x, t = case.start(0), 1e-5
    assert float(f.grad(x)[1]) == 0.0
    v = some_points()[0]
    difference = (f.grad(x + t * v) - f.grad(x - t * v)) / (2 * t)
    assert torch.allclose(f.hvp(x, v), difference, atol=1e-4)  # |t| has a kink at 0, which a difference sees.


def test_a_finite_sum_adds_up_to_the_function():
    case = Family(shape=SHAPES[0], eps=0.1, num_samples=50).case()
    for x in some_points():
        assert torch.allclose(case.objective.sample().grad(x), case.gradient(x), atol=1e-12)


def test_a_stream_has_no_everything():
    with pytest.raises(ValueError, match="no end"):
        Family(shape=SHAPES[0], eps=0.1).case().objective.sample()
