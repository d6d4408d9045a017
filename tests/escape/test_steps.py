"""Lemma 1: the step along negative curvature lowers f by at least c³γ³/(3·L2²)."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from unsaddle import Function
from unsaddle.cost import Cost
from unsaddle.escape import steps as escape
from unsaddle.objective import SampledFunction
from unsaddle.theory import extraction

DOUBLE = torch.float64
GAMMA, L2 = 0.5, 2.0
SPECTRUM = torch.tensor([-0.6, -0.3, 0.2, 1.0, 3.0], dtype=DOUBLE)


def _random(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _function() -> tuple[SampledFunction, Tensor]:
    """½xᵀHx + (L2/6)Σ|x_i|³, whose Hessian is Lipschitz with constant L2, and H."""
    q, _ = torch.linalg.qr(torch.randn(5, 5, generator=_random(0), dtype=DOUBLE))
    hessian = q @ torch.diag(SPECTRUM) @ q.T
    return Function(lambda x: 0.5 * x @ hessian @ x + L2 / 6.0 * (x.abs() ** 3).sum()).sample(), hessian


def _curvature(hessian: Tensor, x: Tensor, v: Tensor) -> float:
    return float(v @ (hessian + L2 * torch.diag(x.abs())) @ v)


def _lowest(hessian: Tensor, x: Tensor) -> Tensor:
    return torch.linalg.eigh(hessian + L2 * torch.diag(x.abs())).eigenvectors[:, 0]


@pytest.mark.parametrize("distance", [0.0, 1e-3, 1e-2, 0.1])
@pytest.mark.parametrize("fraction", [1.0, 0.5, 0.1])
def test_the_step_against_the_gradient_gains_what_lemma_1_promises(fraction: float, distance: float) -> None:
    """At the exact saddle (distance 0), where all of the gain is second-order, and near it."""
    f, hessian = _function()
    tried = 0
    for seed in range(50):
        x = distance * torch.randn(5, generator=_random(seed), dtype=DOUBLE)
        v = _lowest(hessian, x) * (-1.0) ** seed
        if _curvature(hessian, x, v) > -fraction * GAMMA:
            continue  # The lemma asks for curvature −cγ.
        tried += 1
        value, grad = f.value_and_grad(x)
        length = extraction.escape_length(fraction=fraction, gamma=GAMMA, hessian_lipschitz=L2)
        gain = float(value - f.value(escape.against_gradient(x, v, grad, length)))
        promised = extraction.escape_decrease(fraction=fraction, gamma=GAMMA, hessian_lipschitz=L2)
        assert gain >= promised * (1 - 1e-9)
    assert tried >= 10 or (distance == 0.1 and fraction == 1.0)


def test_lemma_1_is_tight_where_the_hessian_changes_as_fast_as_it_may() -> None:
    """f = −½γx² + (L2/6)|x|³: the step γ/L2 gains γ³/(3·L2²) and no more."""
    f = Function(lambda x: (-0.5 * GAMMA * x**2 + L2 / 6.0 * x.abs() ** 3).sum()).sample()
    x, v = torch.zeros(1, dtype=DOUBLE), torch.ones(1, dtype=DOUBLE)
    length = extraction.escape_length(fraction=1.0, gamma=GAMMA, hessian_lipschitz=L2)
    gain = -float(f.value(escape.against_gradient(x, v, f.grad(x), length)))
    promised = extraction.escape_decrease(fraction=1.0, gamma=GAMMA, hessian_lipschitz=L2)
    assert gain == pytest.approx(promised, rel=1e-12)


def test_the_step_from_a_measured_curvature_gains_twice_as_much() -> None:
    f = Function(lambda x: (-0.5 * GAMMA * x**2 + L2 / 6.0 * x.abs() ** 3).sum()).sample()
    x, v = torch.zeros(1, dtype=DOUBLE), torch.ones(1, dtype=DOUBLE)
    length = extraction.measured_escape_length(curvature=-GAMMA, hessian_lipschitz=L2)
    gain = -float(f.value(escape.against_gradient(x, v, f.grad(x), length)))
    assert gain == pytest.approx(extraction.measured_escape_decrease(curvature=-GAMMA, hessian_lipschitz=L2), rel=1e-12)
    assert gain == pytest.approx(2.0 * extraction.escape_decrease(fraction=1.0, gamma=GAMMA, hessian_lipschitz=L2))


def test_at_an_exact_saddle_it_moves() -> None:
    """E29: with sign(0) = 0 it would stay there for ever."""
    x, v = torch.zeros(2), torch.tensor([0.0, 1.0])
    for zero in (torch.zeros(2), torch.tensor([1.0, 0.0]), torch.tensor([0.0, -0.0])):
        assert escape.against_gradient(x, v, zero, 0.5).tolist() == [0.0, -0.5]


def test_the_sign_is_the_one_that_goes_down_and_the_point_is_not_changed() -> None:
    x, v = torch.tensor([1.0, 2.0]), torch.tensor([0.6, 0.8])
    for grad, sign in ((torch.tensor([1.0, 1.0]), -1.0), (torch.tensor([-1.0, -1.0]), 1.0)):
        torch.testing.assert_close(escape.against_gradient(x, v, grad, 0.5), x + sign * 0.5 * v)
        torch.testing.assert_close(escape.against_gradient(x, -v, grad, 0.5), x + sign * 0.5 * v)
    assert x.tolist() == [1.0, 2.0]


def test_at_random_both_signs_come_about_equally_often() -> None:
    """P(outside 60…140 of 200 fair coins) < 1e-8."""
    x, v, random = torch.zeros(2), torch.tensor([0.6, 0.8]), _random(0)
    steps = torch.stack([escape.at_random(x, v, 0.5, random) for _ in range(200)])
    torch.testing.assert_close(steps.abs(), (0.5 * v).expand(200, 2))
    assert 60 <= int((steps[:, 0] > 0).sum()) <= 140


def test_the_random_step_gains_on_average_what_lemma_1_promises() -> None:
    """Exactly: the mean over both signs, from any x of curvature −cγ along v, whatever the slope there."""
    f, hessian = _function()
    length = extraction.escape_length(fraction=0.5, gamma=GAMMA, hessian_lipschitz=L2)
    promised = extraction.escape_decrease(fraction=0.5, gamma=GAMMA, hessian_lipschitz=L2)
    tried = 0
    for seed in range(50):
        x = 0.05 * torch.randn(5, generator=_random(seed), dtype=DOUBLE)
        v = _lowest(hessian, x)
        if _curvature(hessian, x, v) > -0.5 * GAMMA:
            continue
        tried += 1
        ends = {}
        random = _random(seed)
        while len(ends) < 2:
            y = escape.at_random(x, v, length, random)
            ends[bool((y - x) @ v > 0)] = y
        mean = sum(float(f.value(y)) for y in ends.values()) / 2.0
        assert float(f.value(x)) - mean >= promised * (1 - 1e-9)
    assert tried >= 10


# --- By values ------------------------------------------------------------------------------------------------------


def _line(value: object, dtype: torch.dtype = DOUBLE) -> tuple[SampledFunction, Tensor, Tensor]:
    """A function of one variable, the origin and the direction."""
    f = Function(lambda x: value(x[0])).sample()  # type: ignore[operator]
    return f, torch.zeros(1, dtype=dtype), torch.ones(1, dtype=dtype)


@pytest.mark.parametrize("tilt", [0.1, -0.1])
def test_the_better_sign_is_the_lower_of_both_for_three_values(tilt: float) -> None:
    f, x, v = _line(lambda t: -(t**2) + tilt * t + t**4)
    for direction in (v, -v):
        before = f.cost
        moved = escape.better_sign(f, x, direction, 0.5)
        assert moved is not None
        assert float(moved) == (-0.5 if tilt > 0 else 0.5)
        assert f.cost - before == Cost(values=3, value_samples=3)
    assert float(x) == 0.0


def test_no_sign_is_better_where_both_are_higher_or_the_same() -> None:
    for value in (lambda t: t**2, lambda t: 0.0 * t, lambda t: t**2 - t**4 / 100.0):
        f, x, v = _line(value)
        assert escape.better_sign(f, x, v, 0.5) is None


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_a_side_that_is_not_a_number_is_not_the_better_one(side: float) -> None:
    for length in (0.5, 1.0):
        f, x, v = _line(lambda t: -(t**2) + 0.0 * (side * t + 0.1).log())
        moved = escape.better_sign(f, x, v, length)
        assert moved is not None
        assert float(moved) == side * length


@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE])
@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e3])
def test_the_line_search_leaves_an_even_saddle_for_the_neighbourhood_of_its_minimum(
    scale: float, dtype: torch.dtype
) -> None:
    """−½t² + t⁴/(4a²), minima at ±a: a doubled length comes within a factor √2 or less of the best one."""
    f, x, v = _line(lambda t: -0.5 * t**2 + t**4 / (4.0 * scale**2), dtype)
    found = escape.by_line_search(f, x, v, curvature=1.0, first_length=1e-6 * scale)
    assert found is not None
    assert found.dtype is dtype
    assert scale / 2.0 <= abs(float(found)) <= scale * 1.42


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_line_search_takes_the_side_that_goes_further_down(sign: float) -> None:
    f, x, v = _line(lambda t: -0.5 * t**2 + sign * t**3 / 3.0 + t**4 / 4.0)
    found = escape.by_line_search(f, x, v, curvature=1.0, first_length=1e-4)
    assert found is not None
    # Minima at t = (−1 ± √5)/2 for sign = 1: 0.618 and −1.618, of which the second is lower.
    assert float(found) * sign < 0.0
    assert 0.8 <= abs(float(found)) <= 2.3


def test_the_line_search_asks_for_values_only_and_few() -> None:
    """From 1e-3 to 1 in ten doublings, both sides all the way on an even function, and a length beyond."""
    f, x, v = _line(lambda t: -0.5 * t**2 + t**4 / 4.0)
    escape.by_line_search(f, x, v, curvature=1.0, first_length=2.0**-10)
    # Lengths 2^-10 … 1 fall, 2 does not; √2 > 1 is not among them.
    assert f.cost == Cost(values=1 + 2 * 12, value_samples=1 + 2 * 12)
    f, x, v = _line(lambda t: -0.5 * t**2 + t + t**4 / 4.0)
    escape.by_line_search(f, x, v, curvature=1.0, first_length=2.0**-10)
    # The slope tells the sides apart at once: one value a length from then on. Minimum near −1.32.
    assert f.cost == Cost(values=1 + 2 + 12, value_samples=1 + 2 + 12)


def test_the_line_search_finds_nothing_where_nothing_is_lower() -> None:
    for value in (lambda t: t**2, lambda t: t.abs(), lambda t: 0.0 * t, lambda t: 5.0 + 0.0 * t):
        f, x, v = _line(value)
        assert escape.by_line_search(f, x, v, curvature=1.0, first_length=1e-3) is None
        assert float(x) == 0.0


def test_the_line_search_stops_where_the_function_does() -> None:
    """Beyond |t| = 1 there are no numbers; before it, −½t²."""
    f, x, v = _line(lambda t: -0.5 * t**2 + 0.0 * (1.0 - t**2).log())
    found = escape.by_line_search(f, x, v, curvature=1.0, first_length=2.0**-10)
    assert found is not None
    assert abs(float(found)) == 0.5
    # On one side only: the other goes on.
    f, x, v = _line(lambda t: -0.5 * t**2 + t**4 / 400.0 + 0.0 * (1.0 - t).log())
    found = escape.by_line_search(f, x, v, curvature=1.0, first_length=2.0**-10)
    assert found is not None
    assert -14.2 <= float(found) <= -5.0  # The minimum is at −10.


def test_the_line_search_begins_where_float32_can_tell_the_gain_from_rounding() -> None:
    """At f = 1000, one rounding is 6e-5: steps below 0.1 show nothing, whatever length is asked for."""
    f, x, v = _line(lambda t: 1000.0 - 0.5 * t**2 + t**4 / 400.0, torch.float32)
    found = escape.by_line_search(f, x, v, curvature=1.0, first_length=1e-6)
    assert found is not None
    assert 5.0 <= abs(float(found)) <= 14.2
    assert f.cost.values <= 1 + 2 * 14
