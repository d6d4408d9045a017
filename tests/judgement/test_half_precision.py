"""Checks of a verdict where half precision may be inside."""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.verdict_cases.landscape import barriers
from benchmarks.verdict_cases.memory import memory
from tests.objectives.in_float32 import InFloat32
from unsaddle import Function, is_minimum
from unsaddle.judgement.half_precision import averaged_gradient, has_barrier

DOUBLE = torch.float64


def test_a_barrier_is_seen_by_values_and_a_slope_is_none() -> None:
    x, v = torch.ones(1, dtype=DOUBLE), torch.ones(1, dtype=DOUBLE)
    well = Function(lambda y: (y - 1.0).square().sum()).sample()
    hill = Function(lambda y: -(y - 1.0).square().sum()).sample()
    slope = Function(lambda y: 3.0 * y.sum()).sample()
    assert has_barrier(well, x, v, 1e-2, 3)
    assert not has_barrier(hill, x, v, 1e-2, 3)
    assert not has_barrier(slope, x, v, 1e-2, 3)


def test_a_barrier_within_the_noise_of_values_does_not_count() -> None:
    x, v = torch.ones(1, dtype=DOUBLE), torch.ones(1, dtype=DOUBLE)
    well = Function(lambda y: (y - 1.0).square().sum()).sample()
    assert not has_barrier(well, x, v, 1e-2, 3, noise=1e-3)


def test_the_mean_of_pairs_is_better_than_one_gradient_and_knows_its_error() -> None:
    """The gradient of ½‖Ay‖² − bᵀy at its minimum, in bfloat16."""
    g = torch.Generator().manual_seed(0)
    a = torch.randn(60, 60, generator=g) / 60**0.5
    a = (a @ a.T + torch.eye(60)).bfloat16()
    x = torch.randn(60, generator=g).bfloat16().float()
    b = (a.double() @ x.double()).float()

    def value_and_grad(y: Tensor) -> tuple[Tensor, Tensor]:
        grad = (a @ y.bfloat16()).float() - b
        return 0.5 * torch.dot(y, grad - b), grad

    f = Function(value_and_grad, gradient=True).sample()
    seen = averaged_gradient(f, x, g)
    assert f.cost.gradients == 16
    assert seen.norm < 0.7 * float(f.grad(x).norm())
    assert seen.norm <= seen.error(0.05)  # The truth is zero.


def test_gradients_beyond_the_end_of_f_show_no_saddle() -> None:
    # log(t) is NaN for t < 0, and its gradient 1/t is not. A wall lies within the distance of the measurement.
    case = barriers(2_000_037, "float32")
    found = is_minimum(InFloat32(case.objective), case.x)
    assert found.kind == "undecided"
    assert "where F ends" in found.reason


def test_a_solver_that_diverged_once_does_not_end_f() -> None:
    """The line search for the drop goes far out, where the solver inside becomes NaN, and stays so."""
    y = torch.zeros((), dtype=DOUBLE)

    def value_and_grad(x: Tensor) -> tuple[Tensor, Tensor]:
        nonlocal y
        y = y + torch.where(x.abs().max() > 30.0, torch.nan, 0.0)
        return x[0] ** 2 - x[1] ** 2 + y, torch.stack([2.0 * x[0], -2.0 * x[1]]) + y

    assert is_minimum(Function(value_and_grad, gradient=True), torch.zeros(2, dtype=DOUBLE)).kind == "saddle"


def test_gradients_of_a_solver_are_no_staircase() -> None:
    """Values follow them over the distance of the search. Nearer to x they do not."""
    for index in (1_000_008, 1_000_026, 1_000_030, 1_000_040):
        case = memory(index, "float64")
        assert is_minimum(case.objective, case.x).kind == "minimum"
