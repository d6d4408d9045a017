"""A plain training loop with one line more: Neon around the optimizer.

    python examples/train.py [--plain]

The model is an autoencoder whose weights were all set to zero, a start from which no gradient leads away. Checkpoints,
the scheduler and the loop are as they would be without Neon.
"""

from __future__ import annotations

import argparse
import itertools

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import unsaddle


def main(plain: bool = False, epochs: int = 20) -> float:
    """Train, print what Neon sees, and return the last loss."""
    torch.manual_seed(0)
    rows = torch.randn(1024, 16) @ torch.diag(torch.linspace(2.0, 0.1, 16))
    loader = DataLoader(TensorDataset(rows), batch_size=64, shuffle=True)
    model = nn.Sequential(nn.Linear(16, 4, bias=False), nn.Linear(4, 16, bias=False))
    for parameter in model.parameters():
        nn.init.zeros_(parameter)

    optimizer: torch.optim.Optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    if not plain:
        optimizer = unsaddle.Neon(optimizer, callback=print)  # The one line.
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)

    loss = torch.tensor(float("nan"))
    for epoch in range(epochs):
        for (batch,) in loader:

            def closure(batch: torch.Tensor = batch) -> torch.Tensor:
                optimizer.zero_grad()
                loss = (model(batch) - batch).square().sum(dim=1).mean()
                loss.backward()
                return loss

            loss = optimizer.step(closure)  # type: ignore[assignment]
        scheduler.step()
        if epoch in itertools.chain(range(0, epochs, 5), [epochs - 1]):
            print(f"epoch {epoch}: loss {loss.item():.3f}")
    return loss.item()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plain", action="store_true", help="without Neon")
    main(plain=parser.parse_args().plain)
