"""f̂: its gradient, its value in either precision, and the bound that one gradient proves."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from unsaddle import Function, is_minimum
from unsaddle.curvature.displaced import DisplacedFunction, above_tangent, curvature_bound

DOUBLE = torch.float64


def _random(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE)


def _cubic(d: int = 8, seed: int = 0) -> tuple[Function, Tensor]:
    """½xᵀHx + bᵀx + 1000 + Σ|x_i|³/6, so L2 = 1; and H."""
    a, b = _random(d, d, seed=seed), _random(d, seed=seed + 1)
    hessian = (a + a.T) / 2.0
    return (
        Function(
            lambda x: 0.5 * x @ hessian.to(x) @ x + b.to(x) @ x + 1000.0 + (x.abs() ** 3).sum() / 6.0,
        ),
        hessian,
    )


def _hessian_at(hessian: Tensor, x: Tensor) -> Tensor:
    return hessian + torch.diag(x.abs())


def test_it_costs_one_gradient_to_make_and_one_a_gradient() -> None:
    f = _cubic()[0].sample()
    f_hat = DisplacedFunction(f, _random(8, seed=2))
    assert f.cost.gradients == 1
    f_hat.grad(_random(8, seed=3))
    f_hat.product(_random(8, seed=3), 1e-3)
    assert (f.cost.gradients, f.cost.values) == (3, 0)


def test_its_gradient_is_a_difference_and_zero_at_zero() -> None:
    f = _cubic()[0].sample()
    x, u = _random(8, seed=2), _random(8, seed=3)
    f_hat = DisplacedFunction(f, x)
    assert torch.equal(f_hat.grad(u), f.grad(x + u) - f.grad(x))
    assert torch.count_nonzero(f_hat.grad(torch.zeros_like(x))) == 0
    assert f_hat.x_norm == pytest.approx(float(x.norm()))
    assert f_hat.grad_norm == pytest.approx(float(f.grad(x).norm()))


def test_the_gradient_at_x_is_a_copy_of_its_own() -> None:
    buffer = torch.empty(3, dtype=DOUBLE)
    f = Function(lambda x: (0.0, torch.mul(x, 2.0, out=buffer)), gradient=True).sample()
    f_hat = DisplacedFunction(f, torch.ones(3, dtype=DOUBLE))
    f.grad(torch.full((3,), 7.0, dtype=DOUBLE))
    assert f_hat.grad0.tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize("radius", [1e-1, 1e-3])
def test_a_product_is_off_by_at_most_half_of_l2_times_the_radius(radius: float) -> None:
    f, hessian = _cubic()
    x, v = _random(8, seed=2), _random(8, seed=3)
    v /= v.norm()
    error = DisplacedFunction(f.sample(), x).product(v, radius) - _hessian_at(hessian, x) @ v
    assert float(error.norm()) <= radius / 2.0 + 1e-10


@pytest.mark.parametrize("where", ["value", "gradient", "x"])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_finite_is_noticed(where: str, bad: float) -> None:
    x = torch.full((2,), bad if where == "x" else 1.0, dtype=DOUBLE)
    f = Function(
        lambda _: (bad if where == "value" else 0.0, torch.full((2,), bad if where == "gradient" else 1.0).double()),
        gradient=True,
    )
    assert not DisplacedFunction(f.sample(), x).is_finite


def _value(f: Function, x: Tensor, u: Tensor) -> float:
    f_hat = DisplacedFunction(f.sample(), x)
    value, grad = f_hat.f.value_and_grad(x + u)
    slope, product = float(f_hat.grad0 @ u), float(u @ (grad - f_hat.grad0))
    how = {"value": float(value), "start": f_hat.value0, "slope": slope, "dtype": x.dtype}
    return above_tangent(**how, product=product, change=float(u.norm()) ** 3, gradient_rounding=0.0).value


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("length", [1e-3, 1e-2, 0.1, 1.0])
def test_its_value_is_right_in_either_precision_though_f_is_large(dtype: torch.dtype, length: float) -> None:
    """f is about 1000, so in float32 f(x+u) − f(x) has an error of 1e-4, more than f̂ itself for short u."""
    f, _ = _cubic()
    x, u = _random(8, seed=2), _random(8, seed=3)
    u *= length / u.norm()
    x, u = x.to(dtype), u.to(dtype)
    exact = f.sample()
    value, grad = exact.value_and_grad(x.double())
    truth = float(exact.value(x.double() + u.double()) - value - grad @ u.double())
    rounding = 64.0 * torch.finfo(dtype).eps * length * 10.0
    assert abs(_value(f, x, u) - truth) <= length**3 / 12.0 + rounding + 1e-2 * abs(truth)


def test_values_are_used_where_they_are_exact_enough_and_gradients_where_not() -> None:
    how = {"start": 1000.0, "slope": 0.0, "gradient_rounding": 1e-3, "dtype": DOUBLE}
    rounding = 16.0 * 2.0**-52 * 2001.0
    assert above_tangent(value=1001.0, product=2.1, change=1.0, **how) == (1.0, rounding)
    # Rounding: 16·2.2e-16·2000 = 7e-12 is more than a hundredth of 1e-10.
    assert above_tangent(value=1000.0 + 1e-10, product=2.1e-10, change=1.0, **how) == (1.05e-10, 5e-4)
    # The two differ by more than L2‖u‖³/12 allows, so f lost digits that its size does not show.
    assert above_tangent(value=1001.0, product=4.0, change=1.0, **how) == (2.0, 5e-4)
    # Without a gradient at the end there is nothing to compare with.
    assert above_tangent(value=1001.0, product=None, change=0.0, **how) == (1.0, rounding)


def test_one_gradient_bounds_the_curvature_from_above() -> None:
    f, hessian = _cubic()
    x = _random(8, seed=2)
    f_hat = DisplacedFunction(f.sample(), x)
    for seed in range(100):
        u = _random(8, seed=100 + seed) * 10.0 ** (-(seed % 5))
        squared_norm, product = float(u @ u), float(u @ f_hat.grad(u))
        truth = float(u @ _hessian_at(hessian, x) @ u) / squared_norm
        bound = curvature_bound(squared_norm=squared_norm, product=product, hessian_lipschitz=1.0)
        assert truth <= bound + 1e-9 <= truth + math.sqrt(squared_norm) + 2e-9


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_point_so_short_that_its_roundings_underflow_is_judged_as_zero(dtype: torch.dtype) -> None:
    F, tiny = Function(lambda x: x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4), torch.finfo(dtype).smallest_normal
    for size in (tiny, tiny * torch.finfo(dtype).eps):
        assert is_minimum(F, torch.full((2,), size, dtype=dtype)).kind == "saddle"
