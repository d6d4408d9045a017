"""Nothing was found on a sample: independent ones have to agree."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from unsaddle import FiniteSum, Stream
from unsaddle.cost import Ledger
from unsaddle.curvature.extract import answer
from unsaddle.curvature.question import Question
from unsaddle.curvature.result import Curvature, Status
from unsaddle.judgement.sampling_error import HIDDEN, hessian_error, look_again, looks

DOUBLE = torch.float64
ORIGIN = torch.zeros(3, dtype=DOUBLE)


def noisy(curvatures: list[float], deviations: list[float]) -> Stream:
    """½Σ(c_i + s_i ξ_i)x_i², ξ standard normal: the curvature along axis i has the deviation s_i in one sample."""
    c, s = torch.tensor(curvatures, dtype=DOUBLE), torch.tensor(deviations, dtype=DOUBLE)

    def value_and_grad(x: Tensor, xi: Tensor) -> tuple[Tensor, Tensor]:
        h = c + s * xi.mean(0)
        return 0.5 * (h * x * x).sum(), h * x

    return Stream(value_and_grad, lambda m, g: (torch.randn(m, 3, generator=g, dtype=DOUBLE),), gradient=True)


def nothing(objective: Stream | FiniteSum, question: Question) -> Curvature:
    """Nothing was found on the first sample that shows nothing."""
    for seed in range(100):
        found = answer(objective, ORIGIN, replace(question, seed=seed))
        if found.status is Status.NOTHING_FOUND:
            return found
    raise AssertionError("no sample shows nothing")


@pytest.mark.parametrize("delta", [0.5, 0.05, 0.025, 1e-6])
def test_the_looks_reach_delta_and_one_fewer_does_not(delta: float) -> None:
    assert HIDDEN ** looks(delta) <= delta < HIDDEN ** (looks(delta) - 1)


def test_a_sample_that_hides_the_curvature_is_contradicted_by_others() -> None:
    """−0.5 with a standard error of 2.5: four in ten samples show nothing, and 0.6⁸ of eight in a row."""
    objective, question = noisy([-0.5, 1.0, 1.0], [20.0, 0.0, 0.0]), Question(gamma=0.1, samples=64)
    found = nothing(objective, question)
    ends = [
        look_again(objective, ORIGIN, found, question, 64, 0.025, torch.Generator().manual_seed(seed)).status
        for seed in range(20)
    ]
    assert ends.count(Status.NOTHING_FOUND) <= 2  # 1.5 expected if HIDDEN were right for seven looks; here 0.5⁷·20.


def test_where_there_is_nothing_all_agree_and_the_weakest_bound_is_kept() -> None:
    objective, question = noisy([0.5, 1.0, 1.0], [0.5, 0.5, 0.5]), Question(gamma=0.1, samples=400)
    found, ledger = nothing(objective, question), Ledger()
    again = look_again(objective, ORIGIN, found, question, 400, 0.025, torch.Generator().manual_seed(0), ledger)
    assert again.status is Status.NOTHING_FOUND
    assert found.bound <= again.bound <= 0.1
    assert 0.3 < again.lowest <= found.lowest
    assert again.cost == found.cost + ledger.cost
    assert ledger.samples == 400 * ledger.gradients
    assert ledger.gradients >= 7 * 3  # Three dimensions, seven looks.


def test_few_rows_are_all_looked_at_instead() -> None:
    """Seven looks at 100 samples are more than all 600 rows. The first rows hide what all of them show."""
    rows = torch.cat([torch.full((500,), 1.0), torch.full((100,), -7.0)]).to(DOUBLE)
    objective = FiniteSum(lambda x, a: 0.5 * (a.mean() * x[0] ** 2 + x[1] ** 2 + x[2] ** 2), rows)
    question = Question(gamma=0.1, samples=5)
    found, ledger = nothing(objective, question), Ledger()
    again = look_again(objective, ORIGIN, found, question, 100, 0.025, torch.Generator().manual_seed(0), ledger)
    assert again.status is Status.FOUND
    assert again.curvature == pytest.approx(-1.0 / 3.0, rel=1e-6)
    assert ledger.samples == 600 * ledger.gradients


def test_all_rows_are_looked_at_once() -> None:
    rows = torch.ones(600, dtype=DOUBLE)
    objective = FiniteSum(lambda x, a: 0.5 * a.mean() * x @ x, rows)
    question, seeds = Question(gamma=0.1, samples=5), torch.Generator().manual_seed(0)
    found, ledger = nothing(objective, question), Ledger()
    again = look_again(objective, ORIGIN, found, question, 100, 0.025, seeds, ledger)
    alone = answer(objective, ORIGIN, replace(question, samples=None, gamma=found.gamma, probe_radius=found.radius))
    assert again.status is Status.NOTHING_FOUND
    assert ledger.gradients == alone.cost.gradients


def test_the_budget_is_that_of_all_looks() -> None:
    objective, question = noisy([0.5, 1.0, 1.0], [0.5, 0.5, 0.5]), Question(gamma=0.1, samples=400)
    found = nothing(objective, question)
    spent, ledger = found.cost.gradients, Ledger()
    asked = replace(question, max_gradients=spent + 200)
    again = look_again(objective, ORIGIN, found, asked, 400, 1e-30, torch.Generator().manual_seed(0), ledger)
    assert again.status is Status.BUDGET_SPENT
    assert ledger.gradients <= 200


@pytest.mark.slow
def test_the_deviation_is_that_of_one_sample_along_the_lowest_direction() -> None:
    """Over 60 draws the mean of a sample deviation from 32 batches is within a tenth of the truth, by far."""
    objective = noisy([0.5, 1.0, 1.0], [2.0, 0.5, 50.0])
    found = replace(nothing(objective, Question(gamma=0.1, samples=100_000)), deciding=(torch.eye(3, dtype=DOUBLE)[0],))
    seen = [
        hessian_error(objective, ORIGIN, found, 1600, 0.05, torch.Generator().manual_seed(seed)) for seed in range(60)
    ]
    assert sum(error.deviation for error in seen) / len(seen) == pytest.approx(2.0, rel=0.1)
    assert sum(found.lowest + error.slack < 0.5 for error in seen) <= 8  # P(more than 8 of 60 | 0.05) < 1e-2


def test_an_extractor_that_names_no_direction_leaves_it_unknown() -> None:
    objective = noisy([0.5, 1.0, 1.0], [0.1, 0.1, 0.1])
    found = replace(nothing(objective, Question(gamma=0.1, samples=100)), deciding=())
    assert hessian_error(objective, ORIGIN, found, 160, 0.05, torch.Generator()).slack == math.inf
