"""Small trainings that the tests of Neon share."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from unsaddle import Neon


def closure_over(optimizer: torch.optim.Optimizer, loss_of: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """A training step's closure, with a count of its calls."""

    def closure() -> Tensor:
        closure.calls += 1  # type: ignore[attr-defined]
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        return loss

    closure.calls = 0  # type: ignore[attr-defined]
    return closure


class Saddle(nn.Module):
    """Rows' mean of x₀² − x₁² + x₁⁴/4 with noise on the slopes: a saddle at 0, minima at x₁ = ±√2 of −1."""

    def __init__(self, size: int = 2, noise: float = 0.0) -> None:
        super().__init__()
        self.x, self.noise = nn.Parameter(torch.zeros(size)), noise

    def forward(self, batch: Tensor) -> Tensor:
        x = self.x
        return x[:-1].square().sum() - x[-1] ** 2 + x[-1] ** 4 / 4 + self.noise * (batch.mean(dim=0) @ x)


def batches(seed: int, size: int = 2, rows: int = 16) -> Iterator[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield torch.randn(rows, size, generator=generator)


def train(optimizer: torch.optim.Optimizer, model: nn.Module, stream: Iterator[Tensor], steps: int) -> Tensor:
    loss = torch.tensor(0.0)
    for _ in range(steps):
        batch = next(stream)
        loss = optimizer.step(closure_over(optimizer, lambda batch=batch: model(batch)))  # type: ignore[misc]
    return loss.detach()


def at_a_saddle(every: int = 10, **settings: object) -> tuple[Neon, Saddle]:
    model = Saddle(3)
    return Neon(torch.optim.SGD(model.parameters(), lr=0.05), every=every, **settings), model  # type: ignore[arg-type]
