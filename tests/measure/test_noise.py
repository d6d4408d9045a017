"""The measured error of a gradient: about the precision that it is computed in."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from unsaddle import Function
from unsaddle.measure import noise


@pytest.mark.parametrize(("dtype", "precision"), [(torch.float32, 2**-24), (torch.float64, 2**-53)])
def test_the_relative_error_of_a_gradient_is_about_the_precision(dtype: torch.dtype, precision: float) -> None:
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(300, 300, dtype=dtype, generator=generator)
    a = a @ a.T / 300
    f = Function(lambda x: 0.5 * x @ (a @ x)).sample()
    x = torch.randn(300, dtype=dtype, generator=generator)
    grad = f.grad(x)
    near = noise.gradient_noise(f.grad, x, float(x.norm()), grad, generator)
    smoothness = float(torch.linalg.matrix_norm(a, 2))
    error = noise.relative_error(
        noise=near.noise, grad_norm=float(grad.norm()), smoothness=smoothness, x_norm=float(x.norm())
    )
    assert 0.01 * precision < error < 10.0 * precision


def test_the_relative_error_of_nothing_is_nan() -> None:
    assert math.isnan(noise.relative_error(noise=0.0, grad_norm=0.0, smoothness=0.0, x_norm=0.0))


def test_gradients_in_half_precision_are_compared_a_thousandth_of_x_away() -> None:
    """Within a hundred roundings of float32, bfloat16 would give the same gradient again, and no noise would show."""
    x = torch.linspace(1.0, 2.0, 400)
    asked = []

    def grad(y: torch.Tensor) -> torch.Tensor:
        asked.append(float((y - x).norm()) / float(x.norm()))
        return y.bfloat16().float()

    near = noise.gradient_noise(grad, x, float(x.norm()), x.bfloat16().float(), torch.Generator().manual_seed(0))
    assert near.radius == pytest.approx(1e-3 * float(x.norm()))
    assert asked == pytest.approx([1e-3, 1e-3], rel=1e-3)
    assert near.noise > 0.0


def second_difference(grad: Callable[[Tensor], Tensor], x: Tensor) -> tuple[Tensor, float]:
    """∇f(x+rs) + ∇f(x−rs) − 2∇f(x) for r of a thousandth of ‖x‖, and about ‖Hx‖."""
    s = torch.randn(x.numel(), generator=torch.Generator().manual_seed(1)) * x
    s = 1e-3 * x.norm() * s / s.norm()
    above, below = grad(x + s), grad(x - s)
    return above + below - 2.0 * grad(x), float((above - below).norm()) / 2e-3


@pytest.mark.parametrize("seed", range(5))
def test_kinks_are_off_the_grid_of_half_precision_and_steps_of_bfloat16_are_on_it(seed: int) -> None:
    """Both beside a weight decay in float32, so that gradients themselves have no trailing zeros."""
    g = torch.Generator().manual_seed(seed)
    a, x, rows = torch.randn(200, 200, generator=g), torch.randn(200, generator=g), torch.randn(5000, 200, generator=g)
    kinked = Function(lambda y: torch.relu(rows @ y).mean() + 0.1 * y @ y).sample()
    assert noise.off_grid(*second_difference(lambda y: kinked.grad(y).clone(), x))
    assert not noise.off_grid(*second_difference(lambda y: (a.bfloat16() @ y.bfloat16()).float() + 0.1 * y, x))
    assert not noise.off_grid(*second_difference(lambda y: a @ y, x))  # Smooth: nothing jumps.


@pytest.mark.parametrize("drowned", [False, True])
def test_curvature_drowns_where_the_even_part_of_the_gradient_is_more_than_half_of_the_odd_one(drowned: bool) -> None:
    x, matrix = torch.zeros(3, dtype=torch.float64), torch.diag(torch.tensor([1.0, 2.0, -1.0], dtype=torch.float64))

    def grad(y: torch.Tensor) -> torch.Tensor:
        return matrix @ y + (5.0 * y.abs() if drowned else 0.0)

    near = noise.gradient_noise(grad, x, 0.0, grad(x), torch.Generator().manual_seed(0))
    assert near.drowned is drowned


def test_the_relative_error_is_that_of_the_terms_however_small_they_are() -> None:
    error = noise.relative_error(noise=1e-9, grad_norm=0.01, smoothness=0.1, x_norm=0.3)
    assert error == pytest.approx(1e-9 / 0.04)
