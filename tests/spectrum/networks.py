"""A small network with every kind of trace that probing could leave, and its dense Hessian."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from unsaddle import ModelObjective

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
