"""Extractions on samples: samples that grow until they decide, and those of Lemma 2 at the δ of Theorem 3."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.first_order.sums import DOUBLE, bowls
from unsaddle import Ending, Function, Stream, minimize
from unsaddle.curvature.question import Question
from unsaddle.curvature.result import Curvature, Status
from unsaddle.first_order.premises import ProblemConstants
from unsaddle.framework import sampled_extraction
from unsaddle.framework.plan import Evidence
from unsaddle.objective import Objective
from unsaddle.options import Options
from unsaddle.run import Run
from unsaddle.theory import extraction, framework

KNOWN = ProblemConstants(smoothness=4.0, hessian_lipschitz=2.0)


def options(**changes: Any) -> Options:
    asked = {"eps": 0.05, "gamma": 0.5, "delta": 0.1, "extractor": "auto", "theory": False, "method_settings": {}}
    return Options(**(asked | changes))


def stream() -> Stream:
    return Stream(
        lambda x, t: (0.5 * (x - t).square().sum(dim=1).mean(), x - t.mean(dim=0)),
        lambda size, generator: (torch.randn(size, 3, generator=generator, dtype=DOUBLE),),
        gradient=True,
    )


def start(objective: Objective, **settings: Any) -> Run:
    return Run(objective, torch.ones(3, dtype=DOUBLE), method="", eps=0.05, **settings)


def answered(status: Status) -> Curvature:
    return Curvature(
        direction=None,
        curvature=math.nan,
        lowest=0.1,
        status=status,
        cost=None,  # type: ignore[arg-type]
        delta=0.05,
        extractor="script",
        gamma=0.5,
        sought=0.25,
        smoothness=1.0,
        radius=1e-3,
        noise=0.0,
        relative_noise=0.0,
        gradient_norm=0.0,
        hessian_lipschitz=0.0,
    )


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Question]:
    """The questions, each answered by what decides nothing."""
    questions: list[Question] = []

    def ask(objective: Any, x: Tensor, question: Question, ledger: Any) -> Curvature:
        questions.append(question)
        return answered(Status.SAMPLE_ONLY)

    monkeypatch.setattr(sampled_extraction, "answer", ask)
    return questions


# --- Until it decides -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "expected"),
    [
        (None, [128, 512, 2048, 8192, 32768, 131072, 524288]),
        (4096, [128, 512, 2048, None]),
        (256, [128, None]),
        (255, [None]),
        (1, [None]),
    ],
)
def test_the_sample_grows_fourfold_until_it_decides(
    asked: list[Question], n: int | None, expected: list[int | None]
) -> None:
    run = start(stream() if n is None else bowls(n))
    evidence = sampled_extraction.until_decided(run, run.x, options(extractor="neon+"))
    assert [question.samples for question in asked] == expected
    assert {(q.gamma, q.sample_margin, q.extractor, q.theory) for q in asked} == {(0.5, 0.5, "neon+", False)}
    assert {question.delta for question in asked} == {0.1 / 200.0}
    assert len({question.seed for question in asked}) == len(expected)
    assert not evidence.decided


def test_nothing_found_on_everything_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampled_extraction, "answer", lambda *_: answered(Status.NOTHING_FOUND))
    run = start(Function(lambda x: x.sum()))
    evidence = sampled_extraction.until_decided(run, run.x, options())
    assert evidence.decided
    assert evidence.samples is None
    assert evidence.error == 0.0


def test_an_extractor_that_never_decides_ends_the_run_undecided(asked: list[Question]) -> None:
    solution = minimize(Function(lambda x: 0.5 * x @ x), torch.zeros(2, dtype=DOUBLE))
    assert solution.status is Ending.CURVATURE_UNDECIDED
    assert len(asked) == 3
    assert not solution.success


# --- By Lemma 2 -----------------------------------------------------------------------------------------------------


def by_lemma_2(run: Run, **changes: Any) -> Evidence:
    return sampled_extraction.by_lemma_2(run, run.x, options(theory=True, **changes), KNOWN)


@pytest.mark.parametrize("objective", [stream(), bowls(60)], ids=["stream", "finite sum"])
def test_it_is_neon_plus_on_the_samples_of_lemma_2(asked: list[Question], objective: Objective) -> None:
    by_lemma_2(start(objective, max_samples=10**9))
    (question,) = asked
    assert (question.extractor, question.theory) == ("neon+", True)
    assert (question.gamma, question.smoothness, question.hessian_lipschitz) == (0.5, 4.0, 2.0)
    expected = extraction.sample_size(dimension=3, smoothness=4.0, gamma=0.5, delta=question.delta)
    assert expected > 1e12
    assert question.samples == (expected if objective.num_samples is None else None)


@pytest.mark.parametrize("delta", [0.5, 0.1, 1e-12])
def test_its_delta_is_that_of_theorem_3_if_the_given_one_is_larger(asked: list[Question], delta: float) -> None:
    by_lemma_2(start(stream(), max_samples=10**9), delta=delta)
    (question,) = asked
    c = extraction.sampled_fraction(dimension=3, smoothness=4.0, gamma=0.5, delta=question.delta)
    assert question.delta <= framework.escape_failure_probability(fraction=c, gamma=0.5, smoothness=4.0)
    assert (question.delta == delta) is (delta < 1e-9)


def test_an_extractor_without_a_theorem_gets_usable_constants(asked: list[Question]) -> None:
    by_lemma_2(start(bowls(60)), extractor="krylov")
    assert (asked[0].extractor, asked[0].theory, asked[0].max_gradients) == ("krylov", False, None)


def test_without_a_budget_the_theorem_is_not_tried() -> None:
    with pytest.raises(ValueError, match=r"settings='theory' gives neon\+ more steps .* pass max_samples"):
        by_lemma_2(start(bowls(60)))
