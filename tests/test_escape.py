"""Lemma 1: the step along negative curvature lowers f by at least c³γ³/(3·L2²)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from unsaddle import Function, escape
from unsaddle.constants import theory
from unsaddle.objective import SampledFunction

DOUBLE = torch.float64
GAMMA, L2 = 0.5, 2.0
SPECTRUM = torch.tensor([-0.6, -0.3, 0.2, 1.0, 3.0], dtype=DOUBLE)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Two threads on vectors this short mostly wait for each other, the more so on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


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
        length = theory.escape_length(fraction=fraction, gamma=GAMMA, hessian_lipschitz=L2)
        gain = float(value - f.value(escape.against_gradient(x, v, grad, length)))
        promised = theory.escape_decrease(fraction=fraction, gamma=GAMMA, hessian_lipschitz=L2)
        assert gain >= promised * (1 - 1e-9)
    assert tried >= 10 or (distance == 0.1 and fraction == 1.0)


def test_lemma_1_is_tight_where_the_hessian_changes_as_fast_as_it_may() -> None:
    """f = −½γx² + (L2/6)|x|³: the step γ/L2 gains γ³/(3·L2²) and no more."""
    f = Function(lambda x: (-0.5 * GAMMA * x**2 + L2 / 6.0 * x.abs() ** 3).sum()).sample()
    x, v = torch.zeros(1, dtype=DOUBLE), torch.ones(1, dtype=DOUBLE)
    length = theory.escape_length(fraction=1.0, gamma=GAMMA, hessian_lipschitz=L2)
    gain = -float(f.value(escape.against_gradient(x, v, f.grad(x), length)))
    promised = theory.escape_decrease(fraction=1.0, gamma=GAMMA, hessian_lipschitz=L2)
    assert gain == pytest.approx(promised, rel=1e-12)


def test_the_step_from_a_measured_curvature_gains_twice_as_much() -> None:
    f = Function(lambda x: (-0.5 * GAMMA * x**2 + L2 / 6.0 * x.abs() ** 3).sum()).sample()
    x, v = torch.zeros(1, dtype=DOUBLE), torch.ones(1, dtype=DOUBLE)
    length = theory.measured_escape_length(curvature=-GAMMA, hessian_lipschitz=L2)
    gain = -float(f.value(escape.against_gradient(x, v, f.grad(x), length)))
    assert gain == pytest.approx(theory.measured_escape_decrease(curvature=-GAMMA, hessian_lipschitz=L2), rel=1e-12)
    assert gain == pytest.approx(2.0 * theory.escape_decrease(fraction=1.0, gamma=GAMMA, hessian_lipschitz=L2))


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
    length = theory.escape_length(fraction=0.5, gamma=GAMMA, hessian_lipschitz=L2)
    promised = theory.escape_decrease(fraction=0.5, gamma=GAMMA, hessian_lipschitz=L2)
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
