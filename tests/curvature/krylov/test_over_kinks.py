"""Over many kinks F bends as the mean of them does, and that is found; a few kinks are no mean."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from tests.curvature.krylov.test_steep import network, train
from unsaddle import Function, ModelObjective, is_minimum
from unsaddle.cost import Ledger
from unsaddle.curvature.extract import prepare
from unsaddle.curvature.krylov.certificate import KrylovCandidate
from unsaddle.curvature.krylov.over_kinks import search_over_kinks
from unsaddle.curvature.krylov.surroundings import surveyed
from unsaddle.curvature.question import Question
from unsaddle.curvature.result import Status

D = 30
X = torch.randn(D, generator=torch.Generator().manual_seed(5))


def bent(lowest: float, kinks: int = 20000, height: float = 0.02) -> Function:
    """½zᵀHz with z = x − X, the lowest eigenvalue of H as given, the others 0.2 to 1; and the mean of many |wᵀz − b|.

    Half of the kinks bend up and half down. So their mean has no curvature, but a few of them have.
    """
    g = torch.Generator().manual_seed(1)
    basis, _ = torch.linalg.qr(torch.randn(D, D, generator=g))
    spectrum = torch.linspace(0.2, 1.0, D)
    spectrum[0] = lowest
    h, w, b = (
        basis @ torch.diag(spectrum) @ basis.T,
        torch.randn(kinks, D, generator=g),
        torch.randn(kinks, generator=g),
    )
    signs = torch.where(torch.arange(kinks) % 2 == 0, 1.0, -1.0)

    def value_and_grad(x: Tensor) -> tuple[Tensor, Tensor]:
        z = x - X
        inside = w @ z - b
        value = 0.5 * z @ (h @ z) + height * (signs * (inside.abs() - b.abs())).mean()
        return value, h @ z + height * (w.T @ (signs * (inside.sign() + b.sign()))) / kinks

    return Function(value_and_grad, gradient=True)


def searched(f: Function, jumps: bool = True) -> KrylovCandidate | None:
    search, _ = prepare(f, X, Question(seen_counts=True), Ledger(), ExitStack())
    around = replace(surveyed(search), jumps=jumps)
    failed = KrylovCandidate(vector=None, status=Status.NOT_CONFIRMED, scale=search.scale)
    return search_over_kinks(search, failed, around)


@pytest.mark.parametrize("lowest", [-0.1, -0.5])
def test_a_fall_over_many_kinks_is_found_and_measured(lowest: float) -> None:
    found = searched(bent(lowest))
    assert found is not None
    assert found.status is Status.FOUND
    assert found.measured is not None
    assert abs(found.measured.curvature - lowest) <= max(found.measured.error, 0.05 * abs(lowest))


def test_nothing_over_many_kinks_counts_where_every_value_is_higher() -> None:
    found = searched(bent(0.2))
    assert found is not None
    assert found.status is Status.NOTHING_FOUND
    assert found.lowest > -found.scale.gamma


def test_a_few_kinks_and_half_precision_are_left_alone() -> None:
    assert searched(bent(0.2, kinks=10, height=1.0)) is None
    assert searched(bent(0.2), jumps=False) is None


@pytest.mark.slow
def test_a_network_at_rest_among_kinks_is_a_minimum_over_a_distance() -> None:
    """Batch norm, ReLU and max-pooling in float32, after Adam with ever shorter steps: F rises to all sides."""
    model, loss, data = network(normalised=True)
    train(model, loss, data, 400, rate=1e-2)
    verdict = is_minimum(ModelObjective(model, loss, data, micro_batch=500))
    assert verdict.kind == "minimum"
    assert f"This holds over a distance of {verdict.resolution:.1g}" in verdict.reason
