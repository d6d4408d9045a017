"""From vectors that a search has found to values with errors and a status."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from unsaddle import Function
from unsaddle.cost import Ledger
from unsaddle.spectrum.answer import EVERYWHERE, Found, answer, room
from unsaddle.spectrum.ends import NO_OTHERS, Goal, Stop
from unsaddle.spectrum.hessian import Hessian, hessian_at
from unsaddle.spectrum.result import Status

SIZES = torch.tensor([-1.0, -0.9, 1.0, 9.0], dtype=torch.float64)
LOWEST = Goal(lowest=1, tolerance=1e-2)


def hessian() -> Hessian:
    F = Function(lambda x: 0.5 * (SIZES * x * x).sum())
    return hessian_at(F, torch.ones(4, dtype=torch.float64), None, torch.Generator().manual_seed(0), Ledger())


def found(angle: float, **known: object) -> Found:
    """The lowest eigenvector, turned towards the next one."""
    v = torch.tensor([np.cos(angle), np.sin(angle), 0.0, 0.0], dtype=torch.float64)
    first = Found(
        vectors=[v],
        values=np.array([float(v @ (SIZES * v))]),
        others=NO_OTHERS,
        bound=EVERYWHERE,
        stop=Stop.DONE,
        largest=9.0,
        memory=3,
        dimension=4,
    )
    return replace(first, **known)  # type: ignore[arg-type]


def test_what_is_known_to_the_tolerance_has_converged() -> None:
    seen = answer(hessian(), LOWEST, found(0.0), None, None, torch.Generator())
    assert (seen.status, seen.memory, seen.dimension, seen.bound) == (Status.CONVERGED, 3, 4, EVERYWHERE)
    assert seen.values == pytest.approx([-1.0], abs=1e-6)


@pytest.mark.parametrize(("others", "least"), [((-0.9, 9.0), 8e-3), (EVERYWHERE, 2.5e-2)])
def test_a_neighbour_that_is_not_among_the_values_is_in_the_error(others: tuple[float, float], least: float) -> None:
    """Turned by 0.3: the value is off by 0.009. Where the neighbour may be anywhere, the residual tells."""
    seen = answer(hessian(), LOWEST, found(0.3, others=others), None, None, torch.Generator())
    assert seen.errors[0] >= max(least, abs(float(seen.values[0]) + 1.0))
    blind = answer(hessian(), LOWEST, found(0.3), None, None, torch.Generator())
    assert blind.errors[0] < abs(float(blind.values[0]) + 1.0)


def test_a_search_that_met_nan_or_found_nothing_has_no_values() -> None:
    for nothing in (found(0.0, stop=Stop.NOT_FINITE), found(0.0, vectors=[])):
        seen = answer(hessian(), LOWEST, nothing, None, None, torch.Generator())
        assert (seen.status, len(seen.values), seen.bound) == (Status.NOT_FINITE, 0, EVERYWHERE)


def test_a_budget_that_ended_the_search_is_said() -> None:
    seen = answer(hessian(), LOWEST, found(0.0, stop=Stop.STEPS), None, 100, torch.Generator())
    assert seen.status is Status.BUDGET_SPENT


def test_small_values_are_allowed_a_share_of_the_largest() -> None:
    assert room(LOWEST, 10.0, np.array([-5.0, 1e-9])).tolist() == pytest.approx([0.05, 1e-4])
    assert room(LOWEST, 10.0, np.array([1e-9]), floor=1e-2).tolist() == pytest.approx([1e-3])
