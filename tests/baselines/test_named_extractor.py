"""Rivals with an extractor that the caller names: NEON-Natasha and NEON-SVRG as the paper has them, and others."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.baselines.running import DOUBLE, noisy_stream, options, solve, stream_truth, truth
from unsaddle import FiniteSum, Function, minimize, numpy_function, problems
from unsaddle.baselines import named_extractor, natasha2, svrg_hessian
from unsaddle.curvature.question import Question
from unsaddle.curvature.registry import EXTRACTORS, GRADIENT_ONLY
from unsaddle.curvature.result import Curvature
from unsaddle.first_order.premises import ProblemConstants
from unsaddle.framework import sampled_extraction
from unsaddle.framework.plan import Evidence
from unsaddle.run import Ending, Solution

RIVALS = ("natasha2", "svrg-hessian")
KNOWN = {"smoothness": 4.0, "hessian_lipschitz": 6.0, "initial_gap": 1.0}
ZERO = torch.zeros(2, dtype=DOUBLE)


def wells(x: Any) -> Any:
    """A saddle at 0, minima at (0, ±√2)."""
    return x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4.0


def in_a_well(solution: Solution) -> bool:
    x = solution.x.abs() - torch.tensor([0.0, math.sqrt(2.0)], dtype=DOUBLE)
    return solution.success and float(x.norm()) < 1e-2


def gradients_only(n: int) -> FiniteSum:
    """A `FiniteSum` of wells of different depths, without Hessian products."""
    weights = 0.5 + torch.rand(n, generator=torch.Generator().manual_seed(1), dtype=DOUBLE)
    weights /= weights.mean()

    def value_and_grad(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        return w.mean() * wells(x), w.mean() * torch.stack([2.0 * x[0], x[1] ** 3 - 2.0 * x[1]])

    return FiniteSum(value_and_grad, weights, gradient=True)


# --- Without Hessian products ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("extractor", GRADIENT_ONLY)
@pytest.mark.parametrize("method", RIVALS)
def test_with_a_gradient_only_extractor_there_are_no_hessian_products(method: str, extractor: str) -> None:
    """On NumPy code, which has none to give."""
    f = numpy_function(wells, lambda x: np.array([2.0 * x[0], x[1] ** 3 - 2.0 * x[1]]))
    solution = minimize(f, ZERO, method=method, extractor=extractor, eps=1e-3, gamma=0.5, max_samples=10**6)
    assert in_a_well(solution)
    assert solution.escapes >= 1
    assert solution.cost.hessian_products == solution.cost.hessian_samples == 0
    assert solution.trace.of("extraction")[0].note.startswith(f"{extractor} on everything")


@pytest.mark.parametrize("method", RIVALS)
def test_the_rivals_own_method_needs_them(method: str) -> None:
    f = numpy_function(wells, lambda x: np.array([2.0 * x[0], x[1] ** 3 - 2.0 * x[1]]))
    with pytest.raises(ValueError, match="has gradients only, no Hessian products"):
        minimize(f, ZERO, method=method, eps=1e-3, gamma=0.5)
    solution = minimize(Function(wells), ZERO, method=method, eps=1e-3, gamma=0.5)
    assert in_a_well(solution)
    assert solution.cost.hessian_products > 0


@pytest.mark.parametrize("method", RIVALS)
def test_on_a_finite_sum_it_starts_with_128_samples(method: str) -> None:
    F = gradients_only(600)
    solution = minimize(F, ZERO, method=method, extractor="krylov", eps=1e-3, gamma=0.5, max_samples=10**6)
    assert in_a_well(solution)
    assert solution.cost.hessian_products == 0
    notes = [event.note for event in solution.trace.of("extraction")]
    assert notes[0].startswith("krylov on 128")


def test_natasha2_with_a_named_extractor_leaves_the_saddle_of_a_stream_without_products() -> None:
    stream = noisy_stream(products=False)
    solution = solve("natasha2", stream, torch.zeros(5, dtype=DOUBLE), eps=0.03, gamma=0.3, extractor="krylov")
    assert solution.status is Ending.SECOND_ORDER_POINT
    norm, lowest = stream_truth(solution.x)
    assert norm <= 1.5 * 0.03
    assert lowest > 0.0
    assert solution.cost.hessian_products == 0
    assert solution.curvature_error > 0.0  # Sampling, which the judge allowed for.


# --- With them ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("extractor", sorted(set(EXTRACTORS) - set(GRADIENT_ONLY)))
@pytest.mark.parametrize("method", RIVALS)
def test_a_second_order_extractor_may_be_named_too(method: str, extractor: str) -> None:
    problem = problems.two_dimensional_saddle()
    solution = solve(method, problem.objective, problem.saddles[0].point, gamma=0.5, extractor=extractor)
    assert solution.status is Ending.SECOND_ORDER_POINT
    norm, lowest = truth(problem.objective, solution.x)
    assert norm <= 1.5e-3
    assert lowest >= -0.5
    assert solution.cost.hessian_products > 0
    assert solution.trace.of("extraction")[0].note.startswith(f"{extractor} on everything")


# --- What is asked, and what follows from the answer ----------------------------------------------------------------


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Question]:
    """The questions that reach an extractor."""
    questions: list[Question] = []
    answer = sampled_extraction.answer

    def ask(objective: Any, x: Tensor, question: Question, ledger: Any) -> Curvature:
        questions.append(question)
        return answer(objective, x, question, ledger)

    monkeypatch.setattr(sampled_extraction, "answer", ask)
    return questions


@pytest.mark.parametrize("method", RIVALS)
def test_the_gamma_that_is_asked_for_is_the_rivals(method: str, asked: list[Question]) -> None:
    """A hundredth of L1 where the run began, whatever L1 an extractor sees later; δ is shared by a hundred."""
    solution = minimize(Function(wells), ZERO, method=method, extractor="neon+", eps=1e-3)
    assert {question.extractor for question in asked} == {"neon+"}
    assert {question.gamma for question in asked} == {solution.gamma}
    assert solution.gamma == pytest.approx(0.02)  # L1 = 2 at the saddle.
    assert {question.delta for question in asked} == {0.05 / 200.0}


@pytest.mark.parametrize("method", RIVALS)
def test_by_theory_neon_has_the_settings_of_lemma_2_and_theorem_3(method: str, asked: list[Question]) -> None:
    given = KNOWN | ({"variance": 1.0} if method == "natasha2" else {"epochs": 1})
    start, asks = ZERO + 1e-3, {"extractor": "neon+", "theory": True, "eps": 0.1, "gamma": 0.5, "max_samples": 300}
    solution = solve(method, Function(wells), start, **asks, **given)
    assert solution.status is Ending.BUDGET_SPENT
    assert solution.cost.hessian_products == 0
    question = asked[0]
    assert (question.extractor, question.theory, question.gamma) == ("neon+", True, 0.5)
    assert (question.smoothness, question.hessian_lipschitz) == (4.0, 6.0)
    constants = ProblemConstants(smoothness=4.0, hessian_lipschitz=6.0)
    assert question.delta == constants.extraction_delta(dimension=2, gamma=0.5, delta=0.05) < 1e-7


@pytest.mark.parametrize(
    ("theory", "extractor", "curvature", "length"),
    [
        (False, "auto", -0.3, 0.5 / 6.0),  # δ/L2, as −0.3 ≤ −δ/2
        (False, "neon+", -0.3, 0.5 / 6.0),
        (False, "neon+", -0.2, 0.4 / 6.0),  # 2q/L2, as −0.2 > −δ/2: below δ/3, a step of δ/L2 may even rise.
        (True, "auto", -0.3, 0.5 / 6.0),
        (True, "neon+", -0.3, None),  # cδ/L2
    ],
)
def test_natashas_step_is_as_long_as_what_is_known_of_the_direction_allows(
    theory: bool, extractor: str, curvature: float, length: float | None
) -> None:
    settings = natasha2.Natasha2Settings(
        step_size=1.0, sigma=1.0, sub_epochs=1, gamma=0.5, smoothness=4.0, hessian_lipschitz=6.0
    )
    asked = options(theory=theory, extractor=extractor)
    found = Evidence(direction=torch.ones(2, dtype=DOUBLE), decided=True, curvature=curvature)
    if length is None:
        constants = ProblemConstants(smoothness=4.0, hessian_lipschitz=6.0)
        length = constants.direction_fraction(dimension=2, gamma=0.5, delta=0.05) * 0.5 / 6.0
        assert length < 1e-7
    assert natasha2.step_length(asked, settings, found, 6.0) == pytest.approx(length, rel=1e-12)


def test_the_rounds_of_svrg_hessian_follow_the_promise_of_its_extractor() -> None:
    """Δ·3L2²/(cγ)³ + 1: c = 1/2 for Lanczos, that of Lemma 2 for NEON⁺."""
    given = options(eps=0.01, gamma=0.5, theory=True, **KNOWN)
    lanczos = svrg_hessian.theory_settings(100, 3, given)
    assert lanczos.rounds == 24 * 36 * 8 + 1
    neon = svrg_hessian.theory_settings(100, 3, options(eps=0.01, gamma=0.5, theory=True, extractor="neon+", **KNOWN))
    c = ProblemConstants(smoothness=4.0, hessian_lipschitz=6.0).direction_fraction(dimension=3, gamma=0.5, delta=0.05)
    assert neon.rounds == pytest.approx(3 * 36 / (c * 0.5) ** 3, rel=1e-9)
    assert named_extractor.promised_fraction(given, lanczos, 3) == 0.5


@pytest.mark.parametrize("method", RIVALS)
@pytest.mark.parametrize(("tries", "ending"), [(2, Ending.SECOND_ORDER_POINT), (3, Ending.CURVATURE_UNDECIDED)])
def test_an_extractor_that_does_not_decide_in_three_tries_ends_the_run_undecided(
    method: str, tries: int, ending: Ending, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = [Evidence(decided=False)] * tries + [Evidence(decided=True)]
    monkeypatch.setattr(named_extractor, "until_decided", lambda *_: script.pop(0))
    solution = minimize(Function(lambda x: 0.5 * x @ x), ZERO, method=method, extractor="neon", eps=1e-3, gamma=0.5)
    assert solution.status is ending
    assert len(script) == tries - 2


@pytest.mark.parametrize("method", ["noisy-sgd", "sgld", "pgd", "pagd", "sncg", "scsg", "sgd"])
def test_all_others_refuse_an_extractor(method: str) -> None:
    with pytest.raises(
        ValueError,
        match=rf"{method} takes no extractor, got extractor='neon\+'; leave it out, or use a method that takes one: "
        "neon-NAME, natasha2, svrg-hessian",
    ):
        minimize(Function(wells), ZERO, method=method, extractor="neon+")
