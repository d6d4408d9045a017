"""The loop of train.py on several ranks, each with a replica of the model and batches of its own.

    torchrun --nproc-per-node 2 examples/train_ddp.py [--plain] [--epochs N]

Neon needs no word about it: losses are averaged over the ranks, so that all of them look, and jump, at the same step.
"""

from __future__ import annotations

import argparse
import gc

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import unsaddle


def main(plain: bool = False, epochs: int = 60) -> None:
    """Train, print what Neon sees, and ask at the end whether this is a minimum."""
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    rows = torch.randn(1024, 16) @ torch.diag(torch.linspace(2.0, 0.1, 16))
    data = TensorDataset(rows)
    sampler = DistributedSampler(data, seed=0)
    loader = DataLoader(data, batch_size=32, sampler=sampler)
    model = nn.Sequential(nn.Linear(16, 4, bias=False), nn.Linear(4, 16, bias=False))
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    model = DistributedDataParallel(model)

    say = print if dist.get_rank() == 0 else lambda *_: None
    optimizer: torch.optim.Optimizer = torch.optim.Adam(model.parameters(), lr=3e-2)
    if not plain:
        optimizer = unsaddle.Neon(optimizer, callback=say)  # The one line.
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)

    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for (batch,) in loader:

            def closure(batch: torch.Tensor = batch) -> torch.Tensor:
                optimizer.zero_grad()
                loss = reconstruction(model, [batch])
                loss.backward()
                return loss

            optimizer.step(closure)
        scheduler.step()

    # The same question of the whole data set: all ranks ask it together, each evaluates its own rows.
    say(unsaddle.is_minimum(unsaddle.ModelObjective(model, reconstruction, loader)))
    dist.barrier()  # A rank that leaves while another still sends can take gloo's threads down with it.
    dist.destroy_process_group()


def reconstruction(model: nn.Module, batch: list[torch.Tensor]) -> torch.Tensor:
    """Mean squared distance of a row from its image."""
    return (model(batch[0]) - batch[0]).square().sum(dim=1).mean()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plain", action="store_true", help="without Neon")
    parser.add_argument("--epochs", type=int, default=60)
    chosen = parser.parse_args()
    main(chosen.plain, chosen.epochs)
    gc.collect()  # Without it gloo's threads now and then abort a Python that shuts down.
