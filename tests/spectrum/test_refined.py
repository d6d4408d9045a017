"""Eigenpairs that are nearly known: what they take to be known, and when they are given up."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.objectives.in_float32 import InFloat32
from unsaddle import Function, eigenpairs
from unsaddle.cost import Ledger
from unsaddle.spectrum import pairs
from unsaddle.spectrum.ends import Goal
from unsaddle.spectrum.hessian import Hessian, hessian_at
from unsaddle.spectrum.refined import refined
from unsaddle.spectrum.result import Eigenpairs, Status

D = 120
SPECTRUM = torch.cat([torch.linspace(-3.0, -2.0, 5), torch.linspace(-0.5, 0.5, D - 9), torch.linspace(4.0, 9.0, 4)])
ENDS = [0, 1, 2, 3, 4, D - 4, D - 3, D - 2, D - 1]
BEYOND = -2.0 + 0.15, 4.0 - 0.3
"""Proved of all others: within a tenth of the last values, −2 and 4."""


def hessian() -> Hessian:
    sizes = SPECTRUM.double()
    F = Function(lambda x: 0.5 * (sizes * x * x).sum())
    return hessian_at(F, torch.ones(D, dtype=torch.float64), None, torch.Generator().manual_seed(0), Ledger())


def nearly(noise: float) -> Tensor:
    """The five lowest and four highest eigenvectors, each off by a random vector of this length."""
    off = torch.randn(D, D, generator=torch.Generator().manual_seed(1), dtype=torch.float64) / D**0.5
    rows = (torch.eye(D, dtype=torch.float64) + noise * off)[ENDS]
    return rows / rows.norm(dim=1, keepdim=True)


def answer(found: Tensor, bound: tuple[float, float] = BEYOND) -> Eigenpairs:
    """What a first search has found."""
    x = torch.ones(D, dtype=torch.float64)
    any_pairs = eigenpairs(Function(lambda x: 0.5 * (SPECTRUM * x * x).sum()), x, lowest=1)
    values = SPECTRUM[ENDS].double().numpy()
    return replace(any_pairs, vectors=found, values=values, lowest=5, bound=bound, status=Status.INACCURATE)


def refine(first: Eigenpairs) -> tuple[Eigenpairs | None, int]:
    """The answer, and what it took."""
    H, goal = hessian(), Goal(lowest=5, highest=4)
    before = H.ledger.gradients
    return refined(H, first, goal, torch.Generator()), H.ledger.gradients - before


@pytest.mark.parametrize(("noise", "products"), [(1e-3, 9), (0.05, 18)])
def test_what_is_nearly_right_takes_a_product_a_vector_and_a_few(noise: float, products: int) -> None:
    """And one more for each, which measures it."""
    found, gradients = refine(answer(nearly(noise)))
    assert found is not None
    assert found.status is Status.CONVERGED
    assert gradients <= products + 9
    truth = SPECTRUM[ENDS].numpy()
    assert (np.abs(found.values - truth) <= found.errors + 1e-6).all()
    assert found.values == pytest.approx(truth, rel=1e-2)
    assert float((found.vectors @ found.vectors.T - torch.eye(9)).abs().max()) < 1e-12
    assert found.bound == BEYOND


def test_a_vector_that_is_mostly_another_one_is_put_right_by_its_residual() -> None:
    mixed = nearly(1e-3)
    mixed[2] = 0.95 * mixed[2] + 0.05 * torch.eye(D, dtype=torch.float64)[7] + 0.2 * mixed[1]
    found, _ = refine(answer(mixed))
    assert found is not None
    assert found.values == pytest.approx(SPECTRUM[ENDS].numpy(), rel=1e-3)
    assert abs(float(found.vectors[2, 2])) > 0.999


def test_far_too_large_residuals_are_given_up_at_once() -> None:
    assert refine(answer(nearly(10.0))) == (None, 9)


def test_vectors_that_depend_on_each_other_are_too_few() -> None:
    same = nearly(1e-3)
    same[2] = same[1]
    assert refine(answer(same)) == (None, 8)


def test_fewer_pairs_than_were_asked_for_are_left_to_a_search() -> None:
    first = answer(nearly(1e-3))
    assert refine(replace(first, vectors=first.vectors[:4], values=first.values[:4])) == (None, 0)


@pytest.mark.parametrize("bound", [(-math.inf, math.inf), (-2.3, 3.7), (-1.85, 4.5), (math.inf, -math.inf)])
def test_without_a_proof_of_all_others_there_may_be_more_and_nothing_is_spent(bound: tuple[float, float]) -> None:
    assert refine(answer(nearly(1e-3), bound)) == (None, 0)


@pytest.mark.parametrize("copies", [True, False])
@pytest.mark.parametrize("tolerance", [1e-2, 1e-3])
def test_a_close_neighbour_that_nobody_asked_for_is_in_the_error(copies: bool, tolerance: float) -> None:
    """Beside an eigenvalue of 1000, float32 sees little of eight within a tenth of the lowest."""
    generator, d = torch.Generator().manual_seed(0), 150
    Q, _ = torch.linalg.qr(torch.randn(d, d, generator=generator, dtype=torch.float64))
    spectrum = torch.cat([torch.linspace(-1, -0.9, 8), torch.linspace(-0.85, 0.5, d - 9), torch.tensor([1000.0])])
    H = (Q * spectrum.double()) @ Q.T
    x = 3.0 * torch.randn(d, generator=generator)
    found = eigenpairs(
        Function(lambda x: 0.5 * x @ (H.to(x.dtype) @ x)), x, lowest=1, copies=copies, tolerance=tolerance
    )
    assert found.status is Status.CONVERGED
    v, value = found.vectors[0].double(), float(found.values[0])
    assert abs(value + 1.0) <= found.errors[0] + 1e-5
    assert float((H @ v - value * v).norm()) < 0.1


def test_what_float32_finds_roughly_is_made_exact_in_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products in float32 are off by more than is allowed, but the vectors are nearly right."""
    F, x = Function(lambda x: 0.5 * (SPECTRUM * x * x).sum()), torch.linspace(1.0, 9.0, D)
    assert eigenpairs(InFloat32(F), x, lowest=5, tolerance=1e-3).status is Status.INACCURATE
    found = eigenpairs(F, x, lowest=5, tolerance=1e-3)
    assert (found.status, found.in_float64) == (Status.CONVERGED, True)
    assert found.values == pytest.approx(SPECTRUM[:5].numpy(), rel=1e-3)
    assert (np.abs(found.values - SPECTRUM[:5].numpy()) <= found.errors + 1e-6).all()
    assert found.bound[0] <= float(SPECTRUM[5]) + 1e-6
    monkeypatch.setattr(pairs, "refined", lambda *_: None)
    searched = eigenpairs(F, x, lowest=5, tolerance=1e-3)
    assert searched.status is Status.CONVERGED
    assert found.cost.gradients <= searched.cost.gradients - 10
