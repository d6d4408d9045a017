"""Eigenvectors that are nearly known: what they take to be known, and when they are given up."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.objectives.in_float32 import InFloat32
from unsaddle import Function, eigenpairs
from unsaddle.cost import Ledger
from unsaddle.spectrum import pairs
from unsaddle.spectrum.hessian import Hessian, hessian_at
from unsaddle.spectrum.refined import refined
from unsaddle.spectrum.result import Status
from unsaddle.vectors import Array

D = 120
SPECTRUM = torch.cat([torch.linspace(-3.0, -2.0, 5), torch.linspace(-0.5, 0.5, D - 9), torch.linspace(4.0, 9.0, 4)])


def hessian() -> Hessian:
    sizes = SPECTRUM.double()
    F = Function(lambda x: 0.5 * (sizes * x * x).sum())
    return hessian_at(F, torch.ones(D, dtype=torch.float64), None, torch.Generator().manual_seed(0), Ledger())


def nearly(noise: float, chosen: list[int]) -> list[Tensor]:
    """Unit vectors, each off by a random vector of this length."""
    off = torch.randn(D, D, generator=torch.Generator().manual_seed(1), dtype=torch.float64) / D**0.5
    return [row / row.norm() for row in (torch.eye(D, dtype=torch.float64) + noise * off)[chosen]]


def room(values: Array) -> Array:
    allowed: Array = 1e-2 * np.abs(values)
    return allowed


@pytest.mark.parametrize(("noise", "most"), [(1e-3, 7), (0.05, 21)])
def test_what_is_nearly_right_takes_a_product_a_vector_and_a_few(noise: float, most: int) -> None:
    H = hessian()
    before = H.ledger.gradients
    found = refined(H, nearly(noise, [0, 1, 2, D - 4, D - 3, D - 2, D - 1]), 3, 4, 9.0, room)
    assert found is not None
    ritz, values = found
    assert 7 <= H.ledger.gradients - before <= most
    assert values == pytest.approx(SPECTRUM[[0, 1, 2, -4, -3, -2, -1]].numpy(), rel=1e-2)
    assert float((torch.stack(ritz) @ torch.stack(ritz).T - torch.eye(7)).abs().max()) < 1e-12
    assert all(abs(float(v[i])) > 0.99 for v, i in zip(ritz, [0, 1, 2, -4, -3, -2, -1], strict=True))


def test_a_vector_that_is_mostly_another_one_is_put_right_by_its_residual() -> None:
    """The third lowest vector is not among them, but the fourth, which has a part of it."""
    mixed = nearly(0.0, [0, 1, 3])
    mixed[2][2] = 0.3
    found = refined(hessian(), mixed, 3, 0, 9.0, lambda values: 0.1 * room(values))
    assert found is not None
    assert found[1] == pytest.approx(SPECTRUM[:3].numpy(), rel=1e-3)


def test_far_too_large_residuals_are_given_up_at_once() -> None:
    H = hessian()
    before = H.ledger.gradients
    assert refined(H, nearly(10.0, [0, 1, D - 1]), 2, 1, 9.0, room) is None
    assert H.ledger.gradients - before == 3


def test_vectors_that_depend_on_each_other_are_too_few() -> None:
    first, second = nearly(0.0, [0, 1])
    assert refined(hessian(), [first, second, first], 3, 0, 9.0, room) is None


def test_what_float32_finds_roughly_is_made_exact_in_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products in float32 are off by more than is allowed, but the vectors are nearly right."""
    F, x = Function(lambda x: 0.5 * (SPECTRUM * x * x).sum()), torch.linspace(1.0, 9.0, D)
    assert eigenpairs(InFloat32(F), x, lowest=5, tolerance=1e-3).status is Status.INACCURATE
    found = eigenpairs(F, x, lowest=5, tolerance=1e-3)
    assert (found.status, found.in_float64) == (Status.CONVERGED, True)
    assert found.values == pytest.approx(SPECTRUM[:5].numpy(), rel=1e-3)
    assert (np.abs(found.values - SPECTRUM[:5].numpy()) <= found.errors + 1e-6).all()
    assert found.bound[0] <= float(SPECTRUM[5]) + 1e-6
    monkeypatch.setattr(pairs, "_refined", lambda *_: None)
    searched = eigenpairs(F, x, lowest=5, tolerance=1e-3)
    assert searched.status is Status.CONVERGED
    assert found.cost.gradients <= searched.cost.gradients - 10
