"""Further searches, in float64 and between kinks: when they are made, and along what."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from tests.objectives.in_float32 import InFloat32
from tests.spectrum.networks import network, objective, rectified
from unsaddle import Function, eigenpairs
from unsaddle.cost import Ledger
from unsaddle.objective import as_objective
from unsaddle.spectrum.hessian import Hessian, Inexact, hessian_at
from unsaddle.spectrum.result import Status
from unsaddle.spectrum.second_look import looked_again
from unsaddle.vectors import random_direction


@dataclass(frozen=True)
class Answer:
    status: Status
    share: float
    between: bool


def looks(
    hessian: Hessian, status: Status, *, has_worst: bool = True, inexact: bool = False
) -> tuple[Answer, list[Hessian]]:
    """The answer of a search that always has this status, or raises Inexact where it may; and the Hessians searched."""
    generator, searches = torch.Generator().manual_seed(0), list[Hessian]()

    def search(h: Hessian) -> Answer:
        searches.append(h)
        if inexact and h.wary:
            raise Inexact
        return Answer(status, h.share, h.between is not None)

    v = random_direction(hessian.x, generator)
    found, last = looked_again(hessian, search, lambda _: v if has_worst else None, generator)
    assert last is searches[-1]
    return found, searches


@pytest.fixture
def kinked() -> Hessian:
    """Its first comparison, which a small budget leaves out, has not found the kinks."""
    F = as_objective(rectified(torch.float64)[0])
    return hessian_at(F, F.point, None, torch.Generator().manual_seed(0), Ledger(), 20)


@pytest.fixture
def wary() -> Hessian:
    """A smooth network in float32, which may be copied."""
    F = as_objective(objective(network(torch.float32).eval(), torch.float32))
    return hessian_at(F, F.point, None, torch.Generator().manual_seed(0), Ledger())


def test_what_is_inaccurate_is_looked_at_again_in_float64(wary: Hessian) -> None:
    assert wary.wary
    found, searches = looks(wary, Status.INACCURATE)
    assert (found.share, searches[0]) == (1.0, wary)
    double = searches[1]
    assert double.x.dtype is torch.float64
    assert double.in_float64
    assert double.dtype is torch.float32
    assert double.ledger is wary.ledger


@pytest.mark.parametrize("known", [True, False])
def test_an_answer_in_float64_that_is_made_of_the_first_one_spares_the_search(wary: Hessian, known: bool) -> None:
    better, searches = Answer(Status.CONVERGED, 1.0, False), list[Hessian]()

    def search(h: Hessian) -> Answer:
        searches.append(h)
        return Answer(Status.INACCURATE, h.share, False)

    generator = torch.Generator().manual_seed(0)
    v = random_direction(wary.x, generator)
    found, last = looked_again(
        wary, search, lambda _: v, generator, lambda h, nearly: better if known and nearly.share == 0.0 else None
    )
    assert (found is better, len(searches) == 1) == (known, known)
    assert last.in_float64


def test_what_is_inexact_is_searched_in_float64_at_once(wary: Hessian) -> None:
    found, searches = looks(wary, Status.CONVERGED, inexact=True)
    assert (found, len(searches)) == (Answer(Status.CONVERGED, 1.0, False), 2)


def test_what_is_inexact_and_has_no_copy_is_searched_as_it_is(wary: Hessian) -> None:
    """A function that asks for float32: only the copy tells."""

    def fun(x: torch.Tensor) -> torch.Tensor:
        if x.dtype is not torch.float32:
            raise RuntimeError("float32 only")
        return (x**4).sum()

    alone = hessian_at(Function(fun), torch.ones(90), None, torch.Generator().manual_seed(0), Ledger())
    assert alone.wary
    found, searches = looks(alone, Status.CONVERGED, inexact=True)
    assert (found, len(searches)) == (Answer(Status.CONVERGED, 0.0, False), 2)


def test_what_is_inaccurate_at_kinks_and_has_no_copy_is_looked_at_again_between_them(kinked: Hessian) -> None:
    found, searches = looks(kinked, Status.INACCURATE)
    assert (found, len(searches)) == (Answer(Status.INACCURATE, 0.0, True), 2)


@pytest.mark.parametrize("status", [Status.CONVERGED, Status.BUDGET_SPENT, Status.NOT_FINITE])
def test_any_other_answer_stands(kinked: Hessian, status: Status) -> None:
    assert looks(kinked, status) == (Answer(status, 0.0, False), [kinked])


def test_without_a_vector_the_answer_stands(kinked: Hessian) -> None:
    assert looks(kinked, Status.INACCURATE, has_worst=False) == (Answer(Status.INACCURATE, 0.0, False), [kinked])


def test_where_products_are_between_kinks_already_there_is_no_third_look() -> None:
    F = InFloat32(rectified(torch.float64)[0])
    assert F.point is not None
    hessian = hessian_at(F, F.point, None, torch.Generator().manual_seed(0), Ledger())
    assert hessian.between is not None
    assert len(looks(hessian, Status.INACCURATE)[1]) == 1


def test_what_fails_in_float64_beside_x_alone_is_answered_in_float32() -> None:
    x, refused = torch.full((40,), 30.0), []

    def fun(y: Tensor) -> Tensor:
        if y.dtype is torch.float64 and bool((y != x).any()):
            refused.append(1)
            raise RuntimeError("float32 only, but at x itself")
        u = y - 30.0
        kinks = (u + 1e-6 * torch.arange(1, 41)).abs().sum() - u.sum()
        return (u**2).sum() - 1.5 * u[0] ** 2 + 0.1 * kinks

    assert not eigenpairs(Function(fun), x, lowest=1, highest=1).in_float64
    assert refused
