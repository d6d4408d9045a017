"""A gradient that clearly leads down ends the searches among kinks; one at a kink does not."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from unsaddle import Function, ModelObjective
from unsaddle.cost import Ledger
from unsaddle.curvature.extract import answer, prepare
from unsaddle.curvature.krylov.steep import leads_down
from unsaddle.curvature.question import Question


def objective() -> ModelObjective:
    """A network with ReLU and max-pooling at its start: kinks are everywhere."""
    torch.manual_seed(0)
    pooled = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
    model = nn.Sequential(*pooled, nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
    model = nn.Sequential(*model, nn.Linear(64, 10))
    data = TensorDataset(torch.rand(500, 1, 8, 8), torch.randint(10, (500,)))
    return ModelObjective(model, lambda m, b: nn.functional.cross_entropy(m(b[0]), b[1]), data, micro_batch=500)


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
