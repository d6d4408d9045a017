"""What gradients around x tell before a search: smooth functions, staircases, truncation, memory."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from unsaddle.measure.survey import Survey, survey

DOUBLE = torch.float64


class Counted:
    """A gradient that counts its calls."""

    def __init__(self, grad: Callable[[Tensor], Tensor]) -> None:
        self.grad, self.calls = grad, 0

    def __call__(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.grad(x)


def surveyed(grad: Callable[[Tensor], Tensor], x: Tensor, seed: int = 0) -> tuple[Survey, int]:
    counted = Counted(grad)
    seen = survey(counted, x, float(x.norm()), grad(x).clone(), torch.Generator().manual_seed(seed))
    return seen, counted.calls


def hessian(d: int, dtype: torch.dtype, seed: int = 0) -> Tensor:
    a = torch.randn(d, d, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE)
    return ((a + a.T) / math.sqrt(8.0 * d)).to(dtype)


def normal(d: int, dtype: torch.dtype) -> Tensor:
    return torch.randn(d, generator=torch.Generator().manual_seed(7), dtype=DOUBLE).to(dtype)


@pytest.mark.parametrize(("d", "dtype", "gradients"), [(10, DOUBLE, 5), (200, DOUBLE, 5), (200, torch.float32, 5)])
def test_a_smooth_function_takes_five_gradients(d: int, dtype: torch.dtype, gradients: int) -> None:
    h, x = hessian(d, dtype), normal(d, dtype)
    seen, calls = surveyed(lambda y: h @ y, x)
    assert calls == gradients
    assert (seen.nearest, seen.again, seen.suspicious, seen.steady) == (0.0, None, False, True)
    assert 0.0 < seen.noise < 10.0 * torch.finfo(dtype).eps * float(x.norm())
    assert seen.curvature == pytest.approx(float(torch.linalg.matrix_norm(h)) / math.sqrt(d), rel=0.5)


def test_few_variables_in_float32_take_two_more() -> None:
    h, x = hessian(10, torch.float32), normal(10, torch.float32)
    seen, calls = surveyed(lambda y: h @ y, x)
    assert (calls, seen.nearest) == (7, 0.0)


@pytest.mark.parametrize("d", [5, 20, 200])
@pytest.mark.parametrize(("inner", "outer"), [(torch.float32, DOUBLE), (torch.bfloat16, torch.float32)])
def test_a_lower_precision_inside_is_seen_beside_a_smooth_term(inner: torch.dtype, outer: torch.dtype, d: int) -> None:
    """Next to x only the ridge is there, with a curvature of a tenth; or some variables have crossed a step, which is
    seen as noise."""
    h, x = hessian(d, outer), normal(d, outer)
    size = float(x.norm())
    for seed in range(10):
        seen, _ = surveyed(lambda y: (h.to(inner) @ y.to(inner)).to(outer) + 0.1 * y, x, seed)
        assert 1e-6 * size <= seen.nearest <= 0.1 * size or seen.noise > 1e-3 * torch.finfo(inner).eps * size


@pytest.mark.parametrize("strength", [1.0, 1e2, 1e4])
@pytest.mark.parametrize("dtype", [DOUBLE, torch.float32])
def test_truncation_is_no_staircase(dtype: torch.dtype, strength: float) -> None:
    h, x = hessian(100, dtype), normal(100, dtype)
    for seed in range(10):
        seen, _ = surveyed(lambda y: h @ y + strength * (y - x) ** 3, x, seed)
        assert seen.nearest == 0.0


@pytest.mark.parametrize("least", [0, 1])
def test_a_solver_that_starts_where_it_ended_has_memory(least: int) -> None:
    """y = φ(y, x) is iterated to 1e-5. Next to x it does not move, and the Hessian seems to be another one."""
    h, x, y = hessian(20, DOUBLE), normal(20, DOUBLE), torch.zeros(20, dtype=DOUBLE)

    def grad(z: Tensor) -> Tensor:
        nonlocal y
        for k in range(1000):
            step = h @ z - y
            if k >= least and float(step.norm()) < 1e-5:
                break
            y = y + 0.5 * step
        return 2.0 * z - y

    grad(x + 1.0)  # It has been elsewhere.
    seen, _ = surveyed(grad, x)
    assert seen.noise > 1e-6
    assert seen.curvature == pytest.approx(2.4, rel=0.2)  # Not 2, as if y did not move.


def test_what_is_not_finite_farther_out_leaves_the_near_rung() -> None:
    x = normal(100, DOUBLE)
    far = 1e-6 * float(x.norm())
    seen, calls = surveyed(lambda y: y.clone() if float((y - x).norm()) < far else y * math.nan, x)
    assert (calls, seen.curvature) == (5, pytest.approx(1.0, rel=0.1))


@pytest.mark.parametrize("width", [1e-3, 3e-4, 1e-4])
def test_a_ladder_finds_where_products_agree_between_truncation_and_a_staircase(width: float) -> None:
    """Each entry is 1 + c·exp(t/width) − 1, c = 1e-9: next to x it has steps of 1e-16, and far out it is another
    function. So is the gradient of a cross entropy of nearly zero."""
    x = normal(200, DOUBLE)
    weights = torch.linspace(0.5, 2.0, 200, dtype=DOUBLE)
    for seed in range(5):
        seen, calls = surveyed(lambda y: (1.0 + 1e-9 * weights * torch.exp((y - x) / width)) - 1.0, x, seed)
        assert not seen.broken
        assert 1e-7 * width < seen.nearest < 10.0 * width
        assert seen.curvature == pytest.approx(1e-9 / width * float(weights.square().mean().sqrt()), rel=0.4)
        assert calls <= 31


def test_a_gradient_that_depends_on_the_last_point_has_memory() -> None:
    """∇f(x) is another one after a look far away. Near to x it hardly is."""
    h, x = hessian(20, DOUBLE), normal(20, DOUBLE)
    last = x.clone()

    def grad(z: Tensor) -> Tensor:
        nonlocal last
        before, last = last, z.clone()
        return h @ z + 0.1 * (before - z)

    seen, _ = surveyed(grad, x)
    assert seen.has_memory
    assert seen.noise > 1e-6
