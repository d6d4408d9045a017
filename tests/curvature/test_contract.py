"""The contract of `negative_curvature`: every extractor, at every stationary point of every problem of the zoo.

The truth is the Hessian product of the problem in float64, which tests/problems checks against autograd.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from unsaddle.cost import Cost, Ledger
from unsaddle.curvature import Curvature, Status, negative_curvature
from unsaddle.curvature.registry import EXTRACTORS, GRADIENT_ONLY
from unsaddle.objective import Objective, Oracle, SampledFunction, SecondOrderFunction, freeze
from unsaddle.problems import Problem, StationaryPoint, zoo

ZOO = {torch.float64: zoo(), torch.float32: zoo(torch.float32)}
METHODS = {
    torch.float64: ("auto", *EXTRACTORS),
    torch.float32: ("auto", *GRADIENT_ONLY),
}


class Counting:
    """An objective that keeps books of its own: how often its mathematics was asked, on how many samples, and where."""

    def __init__(self, objective: Objective) -> None:
        self._objective = objective
        self.calls: Counter[str] = Counter()
        self.asked: list[Tensor] = []

    @property
    def num_samples(self) -> int | None:
        return self._objective.num_samples

    @property
    def cost(self) -> Cost:
        return Cost(**self.calls)

    def sample(
        self,
        size: int | None = None,
        generator: torch.Generator | None = None,
        *,
        replacement: bool = False,
        hessian: bool = False,
        ledger: Ledger | None = None,
    ) -> SampledFunction:
        inner = self._objective.sample(size, generator, replacement=replacement, hessian=hessian)
        return freeze(_Booked(inner, self), inner.size, hessian, ledger)


class _Booked(Oracle):
    def __init__(self, f: SampledFunction, books: Counting) -> None:
        self._f, self._books = f, books

    def _book(self, calls: str, samples: str, *where: Tensor) -> None:
        self._books.calls[calls] += 1
        self._books.calls[samples] += self._f.size
        if len(self._books.asked) < 8:
            self._books.asked.extend(v.clone() for v in where)

    def value(self, x: Tensor) -> Tensor:
        self._book("values", "value_samples", x)
        return self._f.value(x)

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        self._book("gradients", "samples", x)
        return self._f.value_and_grad(x)

    def hvp(self, x: Tensor, v: Tensor) -> Tensor:
        self._book("hessian_products", "hessian_samples", x, v)
        assert isinstance(self._f, SecondOrderFunction)
        return self._f.hvp(x, v)


@dataclass(frozen=True)
class Case:
    problem: Problem
    exact: Problem
    stationary: StationaryPoint
    method: str

    @property
    def x(self) -> Tensor:
        return self.stationary.point

    @functools.cached_property
    def question(self) -> dict[str, Any]:
        """γ, L1 and L2: at a saddle γ is the curvature there, elsewhere a tenth of L1.

        L1 and L2 must hold as far as the extractor looks, which is γ/(2·L2).
        """
        radius = 0.1
        while True:
            smoothness, hessian_lipschitz = self.problem.constants_near(self.x, radius)
            at_saddle = self.stationary.kind == "strict saddle"
            gamma = -self.stationary.lowest_curvature if at_saddle else smoothness / 10.0
            if gamma <= 2.0 * hessian_lipschitz * radius:
                return {"gamma": gamma, "smoothness": smoothness, "hessian_lipschitz": hessian_lipschitz}
            radius *= 2.0

    def ask(self, objective: Objective | None = None, **options: Any) -> Curvature:
        objective = self.problem.objective if objective is None else objective
        return negative_curvature(objective, self.x, extractor=self.method, **self.question, **options)

    def true_curvature(self, v: Tensor) -> float:
        f = self.exact.objective.sample(hessian=True)
        assert isinstance(f, SecondOrderFunction)
        return float(torch.dot(v.double(), f.hvp(self.x.double(), v.double()))) / float(v.double().square().sum())


def _cases(kind: str | None, *, points: int = 2, problems: int = 100) -> list[Any]:
    """Every extractor at the points of a kind. Beyond so many of a problem, mostly mirror images, they are a study."""
    cases = []
    for dtype in ZOO:
        for number, (problem, exact) in enumerate(zip(ZOO[dtype], ZOO[torch.float64], strict=True)):
            of_kind = [(i, s) for i, s in enumerate(problem.stationary_points) if kind in (None, s.kind)]
            for place, (i, stationary) in enumerate(of_kind):
                marks = [] if dtype is torch.float64 and i == 0 else [pytest.mark.slow]
                marks += [pytest.mark.study] if place >= points or number >= problems else []
                for method in METHODS[dtype]:
                    name = f"{problem.name} {i}-{method}-{str(dtype).split('.')[1]}"
                    cases.append(pytest.param(Case(problem, exact, stationary, method), id=name, marks=marks))
    return cases


def _check_what_holds_everywhere(case: Case, result: Curvature, books: Counting, before: Tensor) -> None:
    assert torch.equal(case.x, before)
    assert result.cost == books.cost
    assert isinstance(result.status, Status)
    assert len(result.status.value.split()) >= 8
    assert result.status.value.partition(": ")[0][1:] in str(result)  # The rest is in the table below.
    assert result.found == (result.direction is not None) == (result.status is Status.FOUND)
    assert result.extractor == case.method or (case.method == "auto" and result.extractor in EXTRACTORS)
    assert result.gamma == case.question["gamma"]
    if result.extractor == "krylov":  # It takes no L1, and reports the largest curvature that it saw.
        assert result.smoothness <= 1.01 * case.question["smoothness"]
    else:
        assert result.smoothness == case.question["smoothness"]
    assert math.isnan(result.curvature) == (not result.measurements)
    if not (case.method in EXTRACTORS and EXTRACTORS[case.method].needs_products):
        assert result.cost.hessian_products == 0


@pytest.mark.parametrize("case", _cases("strict saddle"))
def test_at_a_strict_saddle_a_direction_of_true_curvature_below_half_gamma_is_returned(case: Case) -> None:
    before, books = case.x.clone(), Counting(case.problem.objective)
    result = case.ask(books)
    _check_what_holds_everywhere(case, result, books, before)

    v = result.direction
    assert result.status is Status.FOUND
    assert v is not None
    assert (v.shape, v.dtype, v.device) == (case.x.shape, case.x.dtype, case.x.device)
    assert float(v.double().norm()) == pytest.approx(1.0, abs=4.0 * torch.finfo(v.dtype).eps)
    assert not v.requires_grad

    truth = case.true_curvature(v)
    assert truth <= -result.gamma / 2.0
    (measurement,) = result.measurements
    assert result.curvature == measurement.curvature
    assert abs(measurement.curvature - truth) <= measurement.error
    assert measurement.consistent
    assert measurement.error <= max(result.gamma, abs(result.curvature)) / 2.0


@pytest.mark.slow
@pytest.mark.parametrize("case", _cases("minimum", points=1))
def test_at_a_minimum_nothing_is_found(case: Case) -> None:
    before, books = case.x.clone(), Counting(case.problem.objective)
    result = case.ask(books)
    _check_what_holds_everywhere(case, result, books, before)
    assert result.status is Status.NOTHING_FOUND
    assert not result.measurements


@pytest.mark.parametrize("case", _cases("degenerate"))
def test_at_a_degenerate_point_nothing_is_claimed(case: Case) -> None:
    before, books = case.x.clone(), Counting(case.problem.objective)
    result = case.ask(books)
    _check_what_holds_everywhere(case, result, books, before)
    assert result.status is Status.NOTHING_FOUND


@pytest.mark.slow
@pytest.mark.parametrize("case", _cases(None, points=1, problems=4))
def test_the_same_seed_repeats_the_result_and_another_starts_elsewhere(case: Case) -> None:
    books = [Counting(case.problem.objective) for _ in range(3)]
    first, again, _ = (case.ask(b, seed=seed, keep_history=True) for b, seed in zip(books, (1, 1, 2), strict=True))
    assert again.status is first.status
    assert again.cost == first.cost
    assert again.history == first.history
    assert (again.curvature == first.curvature) or (math.isnan(again.curvature) and math.isnan(first.curvature))
    if first.direction is None:
        assert again.direction is None
    else:
        assert again.direction is not None
        assert torch.equal(again.direction, first.direction)
    a, b, c = (torch.stack(book.asked[:4]) for book in books)
    assert torch.equal(a, b)
    assert not torch.equal(a, c)
