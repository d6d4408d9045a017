"""A small network that regresses, and its rows."""

import torch
from torch import nn
from torch.utils.data import TensorDataset


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def regress(model, batch):
    return (model(batch[0]) - batch[1]).square().mean()


def network(*extra: nn.Module) -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(3, 4), *extra, nn.Tanh(), nn.Linear(4, 1))


X, Y = torch.randn(20, 3, generator=rng(1)), torch.randn(20, 1, generator=rng(2))
DATA = TensorDataset(X, Y)


def gradient(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    grads = torch.autograd.grad(regress(model, (x, y)), list(model.parameters()))
    return torch.cat([g.flatten() for g in grads])
