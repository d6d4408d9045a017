"""A network that is stuck, for `unsaddle check examples/stuck.py`: it has model, loss and data, and nothing else.

All weights are zero. No gradient leads away from there, and training does not move.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 3, bias=False), nn.Tanh(), nn.Linear(3, 8, bias=False))
for parameter in model.parameters():
    nn.init.zeros_(parameter)
data = TensorDataset(torch.randn(512, 8))


def loss(model: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
    """The mean squared error of an autoencoder."""
    return (model(batch[0]) - batch[0]).square().mean()
