"""What the gradient promises, against dense Hessians; and verdicts that hang on it."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from unsaddle import Function, is_minimum
from unsaddle.judgement.gradient_promise import fall_along_gradient, gradient_promise
from unsaddle.measure.rest import STEPS

DOUBLE = torch.float64


def quadratic(eigenvalues: Tensor, seed: int) -> tuple[Function, Tensor, Tensor]:
    """A quadratic with these eigenvalues, a point, and its Hessian."""
    generator = torch.Generator().manual_seed(seed)
    d = len(eigenvalues)
    basis = torch.linalg.qr(torch.randn(d, d, generator=generator, dtype=DOUBLE)).Q
    hessian = basis @ torch.diag(eigenvalues) @ basis.T
    return Function(lambda x: x @ hessian @ x / 2.0), torch.randn(d, generator=generator, dtype=DOUBLE), hessian


@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_fall_of_newton_s_step(seed: int) -> None:
    f, x, hessian = quadratic(torch.linspace(1.0, 30.0, 8, dtype=DOUBLE), seed)
    truth = float(x @ hessian @ x) / 2.0
    promised = gradient_promise(f.sample(), x, softest=1.0, radius=1e-7, enough=0.0)
    assert promised == pytest.approx(truth, rel=1e-5)


def test_it_ends_where_it_is_small_enough_and_never_promises_less_than_the_truth() -> None:
    _, x, hessian = quadratic(torch.logspace(0.0, 4.0, 40, dtype=DOUBLE), 0)
    truth = float(x @ hessian @ x) / 2.0
    calls = 0

    def counted(y: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        return y @ hessian @ y / 2.0

    first = gradient_promise(Function(counted).sample(), x, softest=1.0, radius=1e-7, enough=math.inf)
    assert calls == 1
    assert first >= truth
    assert gradient_promise(Function(counted).sample(), x, softest=1.0, radius=1e-7, enough=0.0) >= 0.99 * truth
    assert calls <= 1 + 1 + STEPS


def test_after_the_last_step_what_is_left_counts_as_along_the_softest_direction() -> None:
    """Twice as many eigenvalues as steps, from 1e-3 on: much is left, and divided by 2e-3."""
    f, x, hessian = quadratic(torch.logspace(-3.0, 3.0, 2 * STEPS, dtype=DOUBLE), 2)
    truth = float(x @ hessian @ x) / 2.0
    promised = gradient_promise(f.sample(), x, softest=1e-3, radius=1e-7, enough=0.0)
    assert truth <= promised < math.inf
    assert promised - truth > 0.1 * float((hessian @ x).square().sum()) * 1e-6


def test_negative_curvature_on_the_way_promises_everything() -> None:
    f, x, _ = quadratic(torch.tensor([-1.0, 2.0, 5.0], dtype=DOUBLE), 1)
    assert gradient_promise(f.sample(), x, softest=1.0, radius=1e-7, enough=0.0) == math.inf


@pytest.mark.parametrize("off", [0.0, 5e-5, 5e-4, 9e-4])
def test_a_gradient_along_a_stiff_direction_hides_no_saddle(off: float) -> None:
    f = Function(lambda x: 5e3 * x[0] ** 2 - 25.0 * x[1] ** 2 + 781.25 * x[1] ** 4)
    verdict = is_minimum(f, torch.tensor([off, 0.0], dtype=DOUBLE))
    assert verdict.kind == "saddle"
    assert verdict.drop == pytest.approx(0.2, rel=0.1)


def test_a_point_a_little_off_a_degenerate_minimum_is_no_saddle() -> None:
    """10(xy − 1)² + z²: off its valley xy = 1 the Hessian is indefinite, and the gradient leads into the valley."""

    def valley(x: Tensor) -> Tensor:
        return 10.0 * (x[0] * x[1] - 1.0) ** 2 + x[2] ** 2

    x = torch.tensor([1.0, 1.0 + 1e-3, 0.0], dtype=DOUBLE)
    assert float(torch.linalg.eigvalsh(torch.autograd.functional.hessian(valley, x))[0]) < -1e-3
    assert is_minimum(Function(valley), x).kind == "minimum"


@pytest.mark.parametrize("off", [0.3, 1.0, 8.0])
def test_a_stiff_direction_makes_no_gradient_small(off: float) -> None:
    """At L1 = 1e4 the default ε is 10 and more, and the gradient along the soft direction equals the distance left."""
    f = Function(lambda x: 5e3 * x[0] ** 2 + (x[1] - 1.0) ** 2 / 2.0)
    verdict = is_minimum(f, torch.tensor([0.0, 1.0 + off], dtype=DOUBLE))
    assert verdict.kind == "not stationary"
    assert verdict.eps == pytest.approx(0.1 * (1.0 + off), rel=1e-3)
    assert is_minimum(f, torch.tensor([0.0, 1.0 + off], dtype=DOUBLE), eps=10.0).kind == "minimum"
    assert is_minimum(f, torch.tensor([0.0, 1.01], dtype=DOUBLE)).kind == "minimum"


@pytest.mark.parametrize(
    ("slope", "kind"), [(0.5, "not stationary"), (0.05, "not stationary"), (1e-6, "saddle"), (0.0, "saddle")]
)
def test_where_the_gradient_leads_farther_down_a_point_is_no_saddle(slope: float, kind: str) -> None:
    """By default gradients up to 1 count as zero here. Along the negative curvature F falls by 2.5e-5."""
    f = Function(lambda x: 500 * x[2] ** 2 + (x[0] - slope) ** 2 / 2 - 10 * x[1] ** 2 + 1e6 * x[1] ** 4)
    verdict = is_minimum(f, torch.zeros(3, dtype=DOUBLE))
    assert verdict.kind == kind
    assert verdict.direction is not None
    assert abs(float(verdict.direction[1])) > 0.999
    assert verdict.drop == pytest.approx(2.5e-5, rel=0.1)
    assert (verdict.eps < verdict.gradient_norm) == (kind == "not stationary")
    assert ("better way down" in verdict.reason) == (kind == "not stationary")


def test_an_eps_that_is_given_is_kept() -> None:
    f = Function(lambda x: 500 * x[2] ** 2 + (x[0] - 0.5) ** 2 / 2 - 10 * x[1] ** 2 + 1e6 * x[1] ** 4)
    assert is_minimum(f, torch.zeros(3, dtype=DOUBLE), eps=1.0).kind == "saddle"


def test_the_fall_along_the_gradient_is_the_best_of_four_values_within_the_distance() -> None:
    f = Function(lambda x: (x[0] - 1.0) ** 2).sample()
    x = torch.zeros(1, dtype=DOUBLE)
    assert fall_along_gradient(f, x, 1.0) == 1.0
    assert fall_along_gradient(f, x, 0.5) == 0.75
    assert fall_along_gradient(f, x, 1e4) == 0.0
    assert fall_along_gradient(f, torch.ones(1, dtype=DOUBLE), 1.0) == 0.0


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_where_f_flattens_out_a_gradient_is_not_small(dtype: torch.dtype) -> None:
    """A step of 1/L1 is 1e-3 long. F falls far beyond it, without end."""
    verdict = is_minimum(Function(lambda x: -torch.log(x + 1e-3).sum()), torch.zeros(1, dtype=dtype))
    assert verdict.kind == "not stationary"
    assert verdict.eps < verdict.gradient_norm


@pytest.mark.parametrize("power", [2, 4, 6, 8])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_a_point_a_little_off_a_minimum_of_any_power_is_one(power: int, dtype: torch.dtype) -> None:
    f = Function(lambda x: x[0] ** 2 + (x[1] - 1.0) ** power + 1.0)
    assert is_minimum(f, torch.tensor([0.0, 1.001], dtype=dtype)).kind == "minimum"


def test_a_gradient_along_the_direction_of_negative_curvature_is_followed() -> None:
    """√|x| bends down everywhere but at its minimum, and its gradient leads there."""
    for size in (1e-30, 1e-10):
        verdict = is_minimum(Function(lambda x: x.abs().sqrt().sum()), torch.tensor([size, -2.0 * size], dtype=DOUBLE))
        assert verdict.kind == "not stationary"
        assert verdict.eps < verdict.gradient_norm
