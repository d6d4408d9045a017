"""What a verdict is worth that may take few gradients: what was seen and excluded counts, and more gradients exclude
more."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from unsaddle import Function, is_minimum
from unsaddle.curvature.result import Status
from unsaddle.judgement.judge import Kind


def bowl(lowest: float, dtype: torch.dtype = torch.float64) -> tuple[Function, Tensor]:
    """400 curvatures up to 1 and a lowest one, and a quartic term."""
    sizes = torch.linspace(1e-3, 1.0, 400, dtype=torch.float64)
    sizes[0] = lowest
    sizes = sizes.to(dtype)
    return Function(lambda x: 0.5 * (sizes * x * x).sum() + 0.01 * (x**4).sum()), torch.zeros(400, dtype=dtype)


def test_what_is_kept_for_the_measurement_is_not_spent_on_a_search() -> None:
    """The number that documents tell: with 33 gradients there is no search, and with a few more a saddle is found."""
    saddle = Function(lambda x: x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4)
    few, more = (is_minimum(saddle, [0.0, 0.0], max_gradients=most) for most in (33, 36))
    assert (few.kind, few.cost.gradients) == (Kind.UNDECIDED, 1)
    assert more.kind is Kind.SADDLE


def test_more_gradients_exclude_softer_curvature() -> None:
    F, x = bowl(1e-3)
    verdicts = [is_minimum(F, x, max_gradients=most) for most in (60, 70, 80, 150, 400)]
    assert [verdict.kind for verdict in verdicts] == [Kind.UNDECIDED] * 3 + [Kind.MINIMUM] * 2
    bounds = [verdict.bound for verdict in verdicts]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[0] < 0.1
    assert bounds[-1] < 1e-4
    assert f"below {-bounds[0]:.3g} there is none" in str(verdicts[0])


def test_the_search_for_softer_curvature_ends_at_a_ten_thousandth_of_the_largest() -> None:
    F, x = bowl(1e-3)
    few, many = (is_minimum(F, x, max_gradients=most) for most in (300, 3000))
    assert few.cost == many.cost
    assert few.cost.gradients < 150
    asked = is_minimum(F, x, max_gradients=3000, gamma=0.01)  # Who asks for a γ gets that.
    assert asked.cost.gradients < 80


def test_a_saddle_that_was_seen_counts_though_the_budget_ended_the_search() -> None:
    for lowest in (-3e-3, -3e-4):
        F, x = bowl(lowest)
        verdict = is_minimum(F, x, max_gradients=60)
        assert verdict.kind is Kind.SADDLE
        assert verdict.curvature <= 0.7 * lowest
        assert verdict.bound > -lowest


def test_a_soft_curvature_a_little_off_a_minimum_is_no_saddle_whatever_the_budget() -> None:
    """The gradient promises as large a fall, so that x may only be beside the minimum."""
    sizes = torch.linspace(0.01, 1.0, 200, dtype=torch.float64)
    sizes[0] = 0.0
    F = Function(lambda x: 0.5 * (sizes * x * x).sum() + 0.01 * (x[0] ** 2 - 0.09) ** 2)
    x = torch.zeros(200, dtype=torch.float64)
    x[0] = 0.45 * 0.3
    kinds = [is_minimum(F, x, eps=1e-3, max_gradients=most).kind for most in (60, 70, 80, 120, None)]
    assert set(kinds) <= {Kind.UNDECIDED, Kind.MINIMUM}
    assert kinds[-1] is Kind.MINIMUM


def test_half_of_a_small_budget_is_left_for_second_looks() -> None:
    """In float32 the first radius does not do for a cubic: the answer is that of a second look. Without gradients left
    for it, 1 of 30 such problems is decided; with them, 21."""
    d, decided = 110, 0
    for seed in range(12):
        g = torch.Generator().manual_seed(seed)
        sizes = torch.rand(d, generator=g)
        sizes = torch.where(torch.arange(d) < d // 2, 1e-6 * sizes, 1.0 - 0.01 * sizes)
        basis, x, a = (torch.randn(*shape, generator=g) for shape in ((d, d), (d,), (d,)))
        basis, x, a = torch.linalg.qr(basis).Q, 10.0 * x / x.norm(), a / a.norm()
        hessian = (basis * sizes) @ basis.T

        def cubic(z: Tensor, hessian: Tensor = hessian, x: Tensor = x, a: Tensor = a) -> Tensor:
            return 0.5 * (z - x) @ (hessian @ (z - x)) + (a @ (z - x)) ** 3 / 360.0

        # Along a the curvature is next to nothing, so that values may tell that F falls.
        decided += is_minimum(Function(cubic), x, max_gradients=90).evidence.status is Status.NOTHING_FOUND
    assert decided >= 5


def test_where_the_function_is_not_quadratic_a_spent_budget_excludes_nothing() -> None:
    """Kinks at every scale: curvature between them is no curvature."""
    sizes = torch.linspace(1e-3, 1.0, 400, dtype=torch.float64)
    F = Function(lambda x: 0.5 * (sizes * x * x).sum() + 10.0 * x.abs().sum())
    verdict = is_minimum(F, torch.zeros(400, dtype=torch.float64), max_gradients=60)
    assert verdict.kind is Kind.UNDECIDED
    assert verdict.bound == float("inf")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_bounds_and_verdicts_are_right_whatever_the_budget(dtype: torch.dtype) -> None:
    g = torch.Generator().manual_seed(0)
    decided = 0
    for seed in range(40):
        d, most = (int(torch.randint(*ends, (), generator=g)) for ends in ((12, 200), (25, 200)))
        values = torch.rand(d, generator=g, dtype=torch.float64) ** 3
        size = 10.0 ** float(-4.0 * torch.rand((), generator=g) - 0.2)
        values[0] = -size if seed % 2 else size
        basis = torch.linalg.qr(torch.randn(d, d, generator=g, dtype=torch.float64)).Q
        hessian = (basis @ torch.diag(values) @ basis.T).to(dtype)
        F = Function(lambda x, hessian=hessian: 0.5 * x @ (hessian @ x) + 0.02 * (x**4).sum())
        verdict = is_minimum(F, torch.zeros(d, dtype=dtype), max_gradients=most, seed=seed)
        lowest = float(values.min())
        assert lowest >= -verdict.bound - 1e-6
        if verdict.kind is Kind.SADDLE:
            assert lowest < 0.0
        if verdict.kind is Kind.MINIMUM:
            assert lowest >= -verdict.gamma
        decided += verdict.kind is not Kind.UNDECIDED
    assert decided >= 20
