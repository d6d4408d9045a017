"""Training with `Neon` and a checkpoint every few steps, which `benchmarks.kill` hits.

`torchrun --standalone --nproc-per-node N benchmarks/kill_training.py FOLDER` runs it on N ranks.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from unsaddle import Neon

PATIENCE = timedelta(seconds=30)
"""That ranks wait for each other. One that is hit before all have met keeps the others waiting for as long."""
STEPS = 60


def train(folder: Path, rank: int, count: int) -> None:
    """Goes on from the checkpoint in `folder`, if there is one; leaves the weights there."""
    data = torch.randn(64, 4, generator=torch.Generator().manual_seed(3)) * torch.linspace(2.0, 0.5, 4)
    model: nn.Module = nn.Sequential(nn.Linear(4, 2, bias=False), nn.Linear(2, 4, bias=False))
    for p in model.parameters():
        nn.init.zeros_(p)
    if count > 1:
        # Else DDP orders its buckets anew after the first step of every run, and sums four ranks in another order then:
        # a resumed run is off by a rounding, with any optimizer.
        model = DistributedDataParallel(model, find_unused_parameters=True)
    neon = Neon(torch.optim.Adam(model.parameters(), lr=0.02), every=10)
    saved, begun = folder / "saved.pt", 0
    if saved.exists():
        state = torch.load(saved, weights_only=True)
        model.load_state_dict(state["model"])
        neon.load_state_dict(state["neon"])
        begun = state["step"]
    for step in range(begun, STEPS):
        batch = data[torch.randperm(64, generator=torch.Generator().manual_seed(step))[:16]].chunk(count)[rank]

        def closure(batch: Tensor = batch) -> Tensor:
            neon.zero_grad()
            loss = (model(batch) - batch).square().mean()
            loss.backward()
            return loss

        neon.step(closure)
        if step % 3 == 2 and rank == 0:
            beside = saved.with_suffix(".tmp")
            torch.save({"model": model.state_dict(), "neon": neon.state_dict(), "step": step + 1}, beside)
            beside.replace(saved)
    if rank == 0:
        torch.save([p.detach() for p in model.parameters()], folder / "weights.tmp")
        (folder / "weights.tmp").replace(folder / "weights.pt")


def main() -> None:
    """One rank of torchrun. FOLDER/rank R holds its process id, and FOLDER/ended R is there once it has trained.

    Then it waits for torchrun to let it go. A waiting rank that is killed keeps torchrun waiting for it, without
    end: so it does with ranks that are forks, whatever they have done before.
    """
    if multiprocessing.parent_process():
        threading.Thread(target=_follow, daemon=True).start()
    folder, rank = Path(sys.argv[1]), int(os.environ["RANK"])
    beside = folder / f"{rank}.tmp"
    beside.write_text(str(os.getpid()))
    beside.replace(folder / f"rank {rank}")
    dist.init_process_group("gloo", timeout=4 * PATIENCE)  # If one fails, torchrun ends the others before that.
    train(folder, rank, dist.get_world_size())
    dist.barrier()
    dist.destroy_process_group()
    (folder / f"ended {rank}").touch()


def _follow() -> None:
    """Interrupts a rank when torchrun is gone, as the system does when torchrun is its parent and no server is."""
    multiprocessing.parent_process().join()
    os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)  # Else torchrun takes a fork that was interrupted for one that has ended well, and waits on.
