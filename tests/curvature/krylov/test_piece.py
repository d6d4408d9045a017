"""The search in the piece between kinks: right on trained ReLU networks, silent where a lower precision is inside."""

from __future__ import annotations

import functools

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from unsaddle import ModelObjective, is_minimum, negative_curvature

DECAY = 1e-3


def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    decay = sum((p.square().sum() for p in model.parameters()), torch.zeros(()))
    return nn.functional.cross_entropy(model(batch[0]), batch[1]) + DECAY * decay


@functools.cache
def trained(seed: int) -> tuple[ModelObjective, Tensor]:
    """A ReLU classifier where L-BFGS left it, in float64, and its Hessian by autograd: that of the piece it is in."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(200, 6, generator=generator).double()
    labels = (inputs[:, 0] * inputs[:, 1] + 0.5 * torch.randn(200, generator=generator) > 0.0).long()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 2)).double()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=200, line_search_fn="strong_wolfe", tolerance_change=0.0)

    def closure() -> Tensor:
        optimizer.zero_grad()
        value = loss(model, (inputs, labels))
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimizer.step(closure)
    shapes = [(name, p.shape) for name, p in model.named_parameters()]

    def at(x: Tensor) -> Tensor:
        pieces = x.split([shape.numel() for _, shape in shapes])
        values = {name: piece.view(shape) for (name, shape), piece in zip(shapes, pieces, strict=True)}
        outputs = torch.func.functional_call(model, values, (inputs,))
        return nn.functional.cross_entropy(outputs, labels) + DECAY * x.square().sum()

    F = ModelObjective(model, loss, TensorDataset(inputs, labels), micro_batch=200)
    hessian = torch.autograd.functional.hessian(at, F.point)
    return F, (hessian + hessian.T) / 2.0


@pytest.mark.parametrize("seed", range(6))
def test_a_trained_relu_network_is_decided_by_the_piece_that_it_lies_in(seed: int) -> None:
    F, hessian = trained(seed)
    found = is_minimum(F)
    assert found.kind != "undecided"
    assert found.evidence.piece > 0.0
    assert "the piece of F between them" in found.reason
    lowest = float(torch.linalg.eigvalsh(hessian)[0])
    assert lowest >= -found.bound
    if found.direction is not None:
        v = found.direction
        assert abs(float(v @ hessian @ v) - found.curvature) <= 1e-6
    if found.kind == "minimum":
        assert lowest >= -found.gamma
    else:
        assert found.gradient_norm > found.eps


def test_negative_curvature_tells_that_nothing_was_found_between_kinks() -> None:
    F, hessian = trained(0)
    found = negative_curvature(F)
    assert found.piece > 0.0
    assert found.bound <= found.gamma
    assert float(torch.linalg.eigvalsh(hessian)[0]) >= -found.bound
    assert found.smoothness == pytest.approx(float(torch.linalg.eigvalsh(hessian)[-1]), rel=0.02)
