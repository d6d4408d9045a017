"""A small network with every kind of trace that probing could leave, and its dense Hessian."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from unsaddle import Function, ModelObjective

ROWS = 60


class Net(nn.Module):
    """Convolution, BatchNorm, dropout and two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(1, 4, 3), nn.BatchNorm1d(4), nn.Tanh(), nn.Flatten(), nn.Dropout(0.2), nn.Linear(24, 6), nn.Tanh()
        )
        self.head = nn.Linear(6, 3)

    def forward(self, rows: Tensor) -> Tensor:
        return self.head(self.body(rows.unsqueeze(1)))


def rows(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    return torch.randn(ROWS, 8, generator=generator).to(dtype), torch.randint(3, (ROWS,), generator=generator)


def loss(model: nn.Module, batch: Any) -> Tensor:
    return nn.functional.cross_entropy(model(batch[0]), batch[1])


def network(dtype: torch.dtype = torch.float64) -> Net:
    torch.manual_seed(0)
    model = Net().to(dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(20):
        optimizer.zero_grad()
        loss(model, rows(dtype)).backward()
        optimizer.step()
    return model


def objective(model: nn.Module, dtype: torch.dtype = torch.float64, **how: Any) -> ModelObjective:
    return ModelObjective(model, how.pop("loss", loss), TensorDataset(*rows(dtype)), micro_batch=ROWS, **how)


def dense(model: nn.Module) -> Tensor:
    """The Hessian of the loss over all rows by autograd, in float64."""
    named = {name: p.detach().double() for name, p in model.named_parameters()}
    buffers = {name: b.double() if b.is_floating_point() else b for name, b in model.named_buffers()}
    flat = torch.cat([p.flatten() for p in named.values()])

    def at(x: Tensor) -> Tensor:
        pieces = x.split([p.numel() for p in named.values()])
        values = {name: piece.view(p.shape) for (name, p), piece in zip(named.items(), pieces, strict=True)}
        inputs, labels = rows()
        return nn.functional.cross_entropy(torch.func.functional_call(model, (values, buffers), (inputs,)), labels)

    hessian = torch.autograd.functional.hessian(at, flat)
    return (hessian + hessian.T) / 2.0


def rectified(dtype: torch.dtype, seed: int = 0) -> tuple[ModelObjective, Tensor]:
    """A ReLU network at its random start, and its Hessian by autograd in float64: that of the piece that it is in."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)).to(dtype)
    inputs = torch.randn(100, 6, generator=torch.Generator().manual_seed(1)).to(dtype)
    labels = (inputs[:, 0] * inputs[:, 1] > 0.0).long()
    objective = ModelObjective(model, loss, TensorDataset(inputs, labels))
    shapes = [(name, p.shape) for name, p in model.named_parameters()]

    def at(x: Tensor) -> Tensor:
        pieces = x.split([shape.numel() for _, shape in shapes])
        values = {name: piece.view(shape) for (name, shape), piece in zip(shapes, pieces, strict=True)}
        return nn.functional.cross_entropy(torch.func.functional_call(model, values, (inputs.double(),)), labels)

    hessian = torch.autograd.functional.hessian(at, objective.point.double())
    return objective, (hessian + hessian.T) / 2.0


def pooled() -> tuple[nn.Module, ModelObjective, Tensor]:
    """A trained conv net with ReLU and max-pooling in float32, and its eigenvalues by autograd in float64."""
    torch.manual_seed(1)
    data, labels = torch.rand(64, 1, 8, 8), torch.randint(10, (64,))
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(200):
        optimizer.zero_grad()
        loss(model, (data, labels)).backward()
        optimizer.step()
    shapes = [(name, p.shape) for name, p in model.named_parameters()]

    def at(x: Tensor) -> Tensor:
        pieces = x.split([shape.numel() for _, shape in shapes])
        values = {name: piece.view(shape) for (name, shape), piece in zip(shapes, pieces, strict=True)}
        return nn.functional.cross_entropy(torch.func.functional_call(model, values, (data.double(),)), labels)

    F = ModelObjective(model, loss, TensorDataset(data, labels))
    return model, F, torch.linalg.eigvalsh(torch.autograd.functional.hessian(at, F.point.double()))


def crowded(d: int = 400) -> Function:
    """½Σaᵢxᵢ², aᵢ from 0 to 1, and kinks on both sides of 0 at every scale: no room between them. In float64."""
    sizes = torch.linspace(0.0, 1.0, d, dtype=torch.float64)
    at = torch.cat([sign * 10.0 ** torch.arange(-17.0, 0.0, 0.25, dtype=torch.float64) for sign in (1.0, -1.0)])

    def value_and_grad(x: Tensor) -> tuple[Tensor, Tensor]:
        above, jumps = x[:, None] - at, at.abs()
        value = 0.5 * (sizes * x * x).sum() + (jumps * above.abs()).sum()
        return value, sizes * x + (jumps * above.sign()).sum(dim=1)

    return Function(value_and_grad, gradient=True)
