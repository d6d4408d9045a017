"""A gradient that clearly leads down, or far, ends the searches among kinks; one at a kink does not."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from unsaddle import Function, ModelObjective, is_minimum
from unsaddle.cost import Ledger
from unsaddle.curvature.extract import answer, prepare
from unsaddle.curvature.krylov.steep import NEAREST, REST_GRADIENTS, error_among_kinks, leads_down, leads_far
from unsaddle.curvature.krylov.surroundings import surveyed
from unsaddle.curvature.question import Question


def network(*, normalised: bool = False) -> tuple[nn.Module, Callable[..., torch.Tensor], TensorDataset]:
    """A network with ReLU and max-pooling at its start, its loss with some weight decay, and its data: kinks are
    everywhere."""
    torch.manual_seed(0)

    def layers(inside: int, outside: int) -> list[nn.Module]:
        norm = [nn.BatchNorm2d(outside)] if normalised else []
        return [nn.Conv2d(inside, outside, 3, padding=1), *norm, nn.ReLU(), nn.MaxPool2d(2)]

    model = nn.Sequential(*layers(1, 8), *layers(8, 16), nn.Flatten(), nn.Linear(64, 10))
    data = TensorDataset(torch.rand(500, 1, 8, 8), torch.randint(10, (500,)))

    def loss(model: nn.Module, batch: Sequence[torch.Tensor]) -> torch.Tensor:
        decay = sum(p.square().sum() for p in model.parameters())
        return nn.functional.cross_entropy(model(batch[0]), batch[1]) + 1e-3 * decay

    return model, loss, data


def objective() -> ModelObjective:
    model, loss, data = network()
    return ModelObjective(model, loss, data, micro_batch=500)


def train(model: nn.Module, loss: Callable[..., torch.Tensor], data: TensorDataset, steps: int, rate: float) -> None:
    """Steps of Adam on all data, which become ever shorter."""
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        optimizer.zero_grad()
        loss(model, data.tensors).backward()
        optimizer.step()
        schedule.step()


def test_where_the_gradient_leads_down_a_verdict_needs_few_gradients() -> None:
    F, costs = objective(), {}
    for ends in (True, False):
        question = Question(seen_counts=True, survey_first=True, ends_where_steep=ends)
        costs[ends] = answer(F, F.point, question).cost.gradients
    assert costs[True] <= 45
    assert costs[True] < costs[False] / 2


@pytest.mark.parametrize(
    ("fun", "x", "leads"),
    [
        (lambda x: (x**2).sum(), 1.0, True),
        (lambda x: (x**2).sum(), 1e-5, False),
        (lambda x: x.abs().sum() + (x**2).sum(), 1e-6, False),  # At a kink: a long gradient, and F rises along it.
        (lambda x: x.abs().sum() + (x**2).sum(), 1.0, True),
        (lambda x: 1e9 + (x**2).sum() * 1e-9, 1.0, False),  # The value has no digits to show it.
    ],
)
def test_values_have_to_fall_as_the_gradient_promises(fun, x: float, leads: bool) -> None:
    point = torch.full((3,), x, dtype=torch.float64)
    search, _ = prepare(Function(fun), point, Question(), Ledger(), ExitStack())
    assert leads_down(search, 2.0) == leads


@pytest.mark.slow
@pytest.mark.parametrize("normalised", [False, True])
def test_a_network_that_has_nearly_come_to_rest_among_kinks_is_not_stationary(normalised: bool) -> None:
    """A thousand gradients had not decided these: kinks hide the curvature, and the gradient is small beside L1.

    The truth: more training lowers the loss by a per cent at least.
    """
    model, loss, data = network(normalised=normalised)
    train(model, loss, data, 200, rate=1e-2)
    verdict = is_minimum(ModelObjective(model, loss, data, micro_batch=500))
    before = loss(model, data.tensors).item()
    train(model, loss, data, 400, rate=1e-3)
    assert loss(model, data.tensors).item() < 0.99 * before
    assert verdict.kind == "not stationary"
    assert verdict.gradient_norm - verdict.gradient_error >= verdict.eps
    assert verdict.cost.gradients <= 160


def led(f: Function, x: torch.Tensor) -> tuple[float, float, int]:
    """What `leads_far` says, the norm of the gradient, and the gradients that were taken."""
    search, _ = prepare(f, x, Question(), Ledger(), ExitStack())
    around = surveyed(search)
    before = search.ledger.gradients
    return (
        leads_far(search.f_hat, error_among_kinks(search.f_hat, around)),
        search.f_hat.grad_norm,
        search.ledger.gradients - before,
    )


def test_a_gradient_leads_far_down_where_values_fall_by_a_per_cent() -> None:
    """F = 1 + x₁ − 100·x₁ falls by a per cent over 1e-4; the norm that is small is the one that needs 3e-5 for it."""
    small, norm, spent = led(Function(lambda x: 1.0 - 101.0 * x[0]), torch.zeros(2, dtype=torch.float64))
    assert (norm, spent) == (101.0, 0)
    assert small == pytest.approx(norm * NEAREST / 1e-4)


@pytest.mark.parametrize(
    "fun",
    [
        lambda x: 1.0 + 1e-3 * x[0] - 1e6 * x[0] ** 2 + x[1] ** 2,  # Curvature makes the fall: to both sides.
        lambda x: 1.0 + (x - 1e-9).abs().sum() + (x**2).sum(),  # A valley: f rises on both sides.
        lambda x: 1e6 + x[0] + 50.0 * x.square().sum(),  # Nothing falls by a per cent, and rest is near.
    ],
)
def test_what_curvature_or_a_kink_makes_does_not_count(fun) -> None:
    small, norm, spent = led(Function(fun), torch.zeros(2, dtype=torch.float64))
    assert spent <= REST_GRADIENTS
    assert small == math.inf or norm < small
