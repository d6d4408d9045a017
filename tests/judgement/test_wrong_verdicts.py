"""Verdicts that were wrong once, each with its cause. `benchmarks.verdicts` has the classes behind them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.objectives.in_float32 import InFloat32
from unsaddle import Function, is_minimum

DOUBLE, FLOAT = torch.float64, torch.float32


def rotated(spectrum: Tensor, seed: int = 0) -> Tensor:
    d = len(spectrum)
    g = torch.Generator().manual_seed(seed)
    rotation, _ = torch.linalg.qr(torch.randn(d, d, generator=g, dtype=DOUBLE))
    return rotation @ torch.diag(spectrum.to(DOUBLE)) @ rotation.T


@pytest.mark.parametrize(
    ("dtype", "size"),
    [(FLOAT, 1e-30), (FLOAT, 1e-23), (FLOAT, 1e22), (DOUBLE, 1e-250), (DOUBLE, 1e-170), (DOUBLE, 1e100)],
)
@pytest.mark.parametrize("where", [0.0, 1.0])
@pytest.mark.parametrize(("lowest", "kind"), [(-0.5, "saddle"), (0.5, "minimum")])
def test_squares_that_leave_the_range_of_numbers(
    lowest: float, kind: str, where: float, dtype: torch.dtype, size: float
) -> None:
    spectrum = torch.linspace(0.5, 1.0, 20)
    spectrum[0] = lowest
    h, x0 = rotated(spectrum).to(dtype), torch.full((20,), where, dtype=dtype)
    f = Function(lambda x: (0.5 * size * ((x - x0) @ (h @ (x - x0))), size * (h @ (x - x0))), gradient=True)
    verdict = is_minimum(f, x0)
    assert verdict.kind == kind
    if kind == "saddle":
        assert verdict.curvature == pytest.approx(-0.5 * size, rel=0.05)


@pytest.mark.parametrize("strength", [1.0, 30.0])
def test_the_interval_of_a_minimum_holds_the_odd_part_of_truncation(strength: float) -> None:
    h = rotated(torch.linspace(0.05, 1.0, 12))
    x0 = torch.ones(12, dtype=DOUBLE)
    f = Function(lambda x: 0.5 * (x - x0) @ h @ (x - x0) + strength * ((x - x0) ** 3).sum() + ((x - x0) ** 4).sum())
    verdict = is_minimum(f, x0)
    assert verdict.kind == "minimum"
    assert verdict.interval[0] <= 0.05 <= verdict.interval[1]


def test_at_a_kink_that_falls_one_way_only_that_way_is_said() -> None:
    """x₁ is a saddle's direction on one side; on the other, a wall."""

    def fun(x: Tensor) -> Tensor:
        return x[0] ** 2 - 0.5 * x[1] ** 2 + 50.0 * torch.relu(x[1] - 1e-2) + x[1] ** 4

    verdict = is_minimum(Function(fun), torch.zeros(2, dtype=DOUBLE))
    assert verdict.kind == "saddle"
    assert verdict.direction is not None
    assert float(verdict.direction[1]) < -0.99
    assert verdict.length > 0.1
    value = Function(fun).sample().value
    assert float(value(verdict.length * verdict.direction)) == pytest.approx(-verdict.drop)


def test_a_fall_on_one_side_alone_is_named() -> None:
    def fun(x: Tensor) -> Tensor:
        return x[0] ** 2 + torch.where(x[1] > 0.0, -(x[1] ** 2), 0.2 * x[1] ** 2) + x[1] ** 4

    verdict = is_minimum(Function(fun), torch.full((2,), 0.0, dtype=DOUBLE))
    assert verdict.kind != "minimum"
    if verdict.kind == "saddle":
        assert not verdict.both_ways
        assert "but not along its opposite" in str(verdict).splitlines()[0]


@pytest.mark.parametrize(("where", "d"), [(0.0, 1), (0.0, 2), (1.0, 1), (1.0, 2), (1.0, 20)])
def test_a_hessian_that_jumps_at_x_makes_no_minimum(where: float, d: int) -> None:
    """0.1z² − z|z| + z⁴ falls on one side, by 0.2025. Both sides of the kink are searched."""
    x0 = torch.full((d,), where, dtype=DOUBLE)

    def fun(x: Tensor) -> Tensor:
        z = x - x0
        return (0.1 * z**2).sum() - z[0] * z[0].abs() + z[0] ** 4

    verdicts = [is_minimum(Function(fun), x0, seed=seed) for seed in range(5)]
    assert all(verdict.kind != "minimum" for verdict in verdicts)
    saddles = [verdict for verdict in verdicts if verdict.kind == "saddle"]
    assert len(saddles) >= 3
    for verdict in saddles:
        assert verdict.curvature == pytest.approx(-1.8, rel=0.05)
        assert 0.1 < verdict.drop < 0.203
        assert "but not along its opposite" in str(verdict).splitlines()[0]


def test_a_lower_precision_is_seen_in_variables_that_are_zero() -> None:
    x0 = torch.zeros(20, dtype=DOUBLE)
    x0[0] = 1.0

    def fun(x: Tensor) -> Tensor:
        inner = (x[1:] + 1.0).float() - 1.0
        return (x[0] - 1.0) ** 2 / 2 + 0.5 * inner.double().square().sum() - 0.05 * x[1:].square().sum()

    for seed in range(5):
        assert is_minimum(Function(fun), x0, seed=seed).kind == "minimum"


def test_a_lower_precision_is_seen_where_rounding_hides_what_is_next_to_x() -> None:
    x0 = 1e-3 * torch.randn(20, dtype=DOUBLE, generator=torch.Generator().manual_seed(1))

    def fun(x: Tensor) -> Tensor:
        return 0.5 * (x.float() + 1.0).square().double().sum() - x.sum() - 0.05 * x.square().sum()

    for seed in range(5):
        assert is_minimum(Function(fun), x0, eps=0.1, seed=seed).kind != "saddle"


def test_half_precision_at_zero_is_decided() -> None:
    h = torch.tensor([1.0, -0.5, 0.7, 0.3] * 32, dtype=torch.bfloat16)
    f = Function(lambda x: (0.5 * (h * x.bfloat16() ** 2)).float().sum())
    assert is_minimum(f, torch.zeros(128)).kind == "saddle"


def test_soft_curvature_is_told_where_the_gradient_is_not_small() -> None:
    f = Function(lambda x: 50.0 * x[0] ** 2 - 0.25 * x[1] ** 2 + x[1] ** 4)
    verdict = is_minimum(f, torch.tensor([1.0, 0.0], dtype=DOUBLE))
    assert verdict.kind == "not stationary"
    assert verdict.direction is not None
    assert verdict.curvature == pytest.approx(-0.5, rel=1e-2)
    assert 0.0 < verdict.drop < 0.02
    assert "the lesser way down" in verdict.reason


def test_a_flat_direction_beside_curved_ones_is_named() -> None:
    verdict = is_minimum(Function(lambda x: x[0] ** 2 + x[1] ** 4), torch.zeros(2, dtype=DOUBLE))
    assert verdict.kind == "minimum"
    assert "Along one direction the curvature is zero" in verdict.reason


@pytest.mark.parametrize("lowest", [-0.3, 0.2])
@pytest.mark.parametrize("norm", [0.0, 1.0, 30.0])
def test_a_solver_that_starts_where_it_ended_misleads_nobody(norm: float, lowest: float) -> None:
    """F(x) = min_y ½zᵀAz − yᵀCz + ½‖y‖², y iterated to 1e-6 from the last one. Next to x it does not move."""
    g = torch.Generator().manual_seed(3)
    spectrum = torch.linspace(0.2, 1.0, 8)
    spectrum[0] = lowest
    c = torch.randn(4, 8, generator=g, dtype=DOUBLE) / 3.0
    a, x0 = rotated(spectrum) + c.T @ c, torch.randn(8, generator=g, dtype=DOUBLE)
    x0 *= norm / float(x0.norm())
    y = torch.full((4,), 0.1, dtype=DOUBLE)

    def value_and_grad(x: Tensor) -> tuple[Tensor, Tensor]:
        nonlocal y
        z = x - x0
        for _ in range(200):
            step = c @ z - y
            if float(step.norm()) < 1e-6:
                break
            y = y + 0.7 * step
        return 0.5 * z @ a @ z - y @ (c @ z) + 0.5 * y @ y, a @ z - c.T @ y

    verdict = is_minimum(Function(value_and_grad, gradient=True), x0)
    assert verdict.kind == ("saddle" if lowest < 0.0 else "minimum")
    if lowest < 0.0:
        assert verdict.curvature == pytest.approx(lowest, rel=0.1)


def test_values_that_rise_have_a_veto() -> None:
    """The gradient has the wrong sign."""
    f = Function(lambda x: (5.0 + x @ x, -2.0 * x), gradient=True)
    verdict = is_minimum(f, torch.zeros(3, dtype=DOUBLE))
    assert verdict.kind == "undecided"
    assert "no value along it is lower" in verdict.reason


@pytest.mark.parametrize("dtype", [DOUBLE, torch.float32])
def test_products_that_are_not_symmetric_make_no_saddle_where_no_value_falls(dtype: torch.dtype) -> None:
    """A loss that rounds to zero, and gradients that lack a part by rounding: they are the gradient of nothing."""
    for seed in range(5):
        g = torch.Generator().manual_seed(seed)
        a = torch.randn(30, 30, generator=g, dtype=DOUBLE).to(dtype)
        x0 = torch.randn(30, generator=g, dtype=DOUBLE).to(dtype)
        f = Function(lambda x, a=a, x0=x0: (x.new_zeros(()), a @ (x - x0)), gradient=True)
        assert is_minimum(f, x0, seed=seed).kind == "undecided"


def test_a_fine_texture_that_bends_values_down_is_no_noise() -> None:
    """As FLETCBV3 of CUTEst: at ‖x‖ = 4e8 gradients farther out than a few units look like noise, and were taken so."""
    x, bend = torch.linspace(3e7, 5e7, 120, dtype=torch.float64), torch.ones(120, dtype=torch.float64)
    bend[0] = -1.0

    def fun(y: Tensor) -> Tensor:
        u = y - x
        texture = 1e-4 * (torch.sin(1.7 * u) / 1.7 - torch.sin(u)) - 1.5e-4 * bend * torch.cos(u)
        return (5e-9 * u.square() + texture).sum()

    for F in (InFloat32(Function(fun)), Function(fun)):
        verdict = is_minimum(F, x)
        assert verdict.kind == "saddle"
        assert verdict.curvature == pytest.approx(-1.5e-4, rel=1e-2)
        assert verdict.drop > 1e-4
