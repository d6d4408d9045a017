"""The second look between kinks: when it is taken, and along what."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from tests.spectrum.networks import network, objective, rectified
from unsaddle.cost import Ledger
from unsaddle.objective import as_objective
from unsaddle.spectrum.hessian import Hessian, hessian_at
from unsaddle.spectrum.result import Status
from unsaddle.spectrum.second_look import looked_again
from unsaddle.vectors import random_direction


@dataclass(frozen=True)
class Answer:
    status: Status
    between: bool


def looks(hessian: Hessian, status: Status, *, has_worst: bool = True) -> tuple[Answer, int]:
    """The answer of a search that always has this status, and how many searches there were."""
    generator, searches = torch.Generator().manual_seed(0), list[Hessian]()

    def search(h: Hessian) -> Answer:
        searches.append(h)
        return Answer(status, h.between is not None)

    v = random_direction(hessian.x, generator)
    return looked_again(hessian, search, lambda _: v if has_worst else None, generator), len(searches)


@pytest.fixture
def kinked() -> Hessian:
    """Its first comparison, which a small budget leaves out, has not found the kinks."""
    F = as_objective(rectified(torch.float64)[0])
    return hessian_at(F, F.point, None, torch.Generator().manual_seed(0), Ledger(), 20)


def test_what_is_inaccurate_at_kinks_is_looked_at_again_between_them(kinked: Hessian) -> None:
    assert looks(kinked, Status.INACCURATE) == (Answer(Status.INACCURATE, True), 2)


@pytest.mark.parametrize("status", [Status.CONVERGED, Status.BUDGET_SPENT, Status.NOT_FINITE])
def test_any_other_answer_stands(kinked: Hessian, status: Status) -> None:
    assert looks(kinked, status) == (Answer(status, False), 1)


def test_without_a_vector_the_answer_stands(kinked: Hessian) -> None:
    assert looks(kinked, Status.INACCURATE, has_worst=False) == (Answer(Status.INACCURATE, False), 1)


def test_where_products_are_between_kinks_already_there_is_no_third_look() -> None:
    F = as_objective(rectified(torch.float64)[0])
    hessian = hessian_at(F, F.point, None, torch.Generator().manual_seed(0), Ledger())
    if hessian.between is None:
        pytest.skip("the first comparison met no kink")
    assert looks(hessian, Status.INACCURATE)[1] == 1


def test_a_smooth_network_is_searched_with_its_own_products() -> None:
    F = as_objective(objective(network().eval()))
    hessian = hessian_at(F, F.point, None, torch.Generator().manual_seed(0), Ledger(), 20)
    assert looks(hessian, Status.CONVERGED) == (Answer(Status.CONVERGED, False), 1)
