"""A question checks itself, and knows what γ and the sample are."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from unsaddle import FiniteSum, Function, Stream, negative_curvature
from unsaddle.curvature.extract import answer
from unsaddle.curvature.question import Question

SUM = FiniteSum(lambda x, a: 0.5 * (a * x.square()).mean(), torch.ones(50, 1, dtype=torch.float64))
STREAM = Stream(lambda x, a: (a * x).mean(), lambda size, generator: (torch.ones(size, 1),))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"gamma": 0.0}, "gamma must be a finite number > 0"),
        ({"delta": 1.0}, "delta must be between 0 and 1"),
        ({"smoothness": -1.0}, "smoothness must be a finite number > 0"),
        ({"hessian_lipschitz": -1.0}, "hessian_lipschitz must be a finite number >= 0"),
        ({"basis": 2}, "basis must be at least 3"),
        ({"max_gradients": 0}, "max_gradients must be at least 1"),
        ({"seed": -1}, "seed must be at least 0"),
    ],
)
def test_it_checks_itself(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Question(**wrong)


def test_the_sample_is_everything_or_1024_of_a_stream() -> None:
    assert Question().sample_size(SUM) is None
    assert Question().sample_size(STREAM) == 1024
    assert Question(samples=50).sample_size(SUM) == 50
    with pytest.raises(ValueError, match="samples must be at most n = 50, got 51"):
        Question(samples=51).sample_size(SUM)


@pytest.mark.parametrize(("samples", "sought"), [(None, 0.2), (20, 0.1)])
def test_a_margin_is_left_to_sampling_only_where_there_is_some(samples: int | None, sought: float) -> None:
    x = torch.zeros(1, dtype=torch.float64)
    found = answer(SUM, x, Question(gamma=0.2, sample_margin=0.5, samples=samples))
    assert (found.gamma, found.sought) == (0.2, sought)


def test_the_budget_is_that_of_one_call() -> None:
    """A ledger that others have written in does not shorten it."""
    s = torch.linspace(0.0, 1.0, 200, dtype=torch.float64)
    f, x = Function(lambda x: (0.0, s * x), gradient=True), torch.zeros(200, dtype=torch.float64)
    alone = negative_curvature(f, x, max_gradients=60)
    ledger = f.sample().ledger
    for _ in range(500):
        ledger.add_gradient(1)
    shared = answer(f, x, Question(max_gradients=60), ledger)
    assert (shared.status, shared.cost) == (alone.status, alone.cost)
