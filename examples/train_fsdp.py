"""The loop of train.py with the model sharded over ranks by FSDP2, and checkpoints that any number of ranks can load.

    torchrun --nproc-per-node 2 examples/train_fsdp.py [--checkpoint DIR]

No rank holds a vector of all parameters, neither the model's nor one of Neon's.
"""

from __future__ import annotations

import argparse
import gc
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard

import unsaddle


def main(checkpoint: Path | None = None, steps: int = 320) -> None:
    """Train, go on from the checkpoint if there is one, and save at the end."""
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    rows = torch.randn(1024, 16) @ torch.diag(torch.linspace(2.0, 0.1, 16))
    own = rows.chunk(dist.get_world_size())[dist.get_rank()]
    model = nn.Sequential(nn.Linear(16, 4, bias=False), nn.Linear(4, 16, bias=False))
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    for layer in model.children():
        fully_shard(layer)
    fully_shard(model)

    say = print if dist.get_rank() == 0 else lambda *_: None
    neon = unsaddle.Neon(torch.optim.AdamW(model.parameters(), lr=3e-3), callback=say)
    begun = 0
    if checkpoint is not None and (checkpoint / ".metadata").exists():
        begun = load(checkpoint, model, neon)
        say(f"going on from step {begun}")

    for step in range(begun, steps):
        batch = own[torch.randint(len(own), (32,), generator=torch.Generator().manual_seed(step))]

        def closure(batch: torch.Tensor = batch) -> torch.Tensor:
            neon.zero_grad()
            loss = (model(batch) - batch).square().sum(dim=1).mean()
            loss.backward()
            return loss

        loss = neon.step(closure)
        if step % 80 == 0 or step == steps - 1:
            say(f"step {step}: loss {loss.item():.3f} on rank 0")
    if checkpoint is not None:
        dcp.save(everything(model, neon, steps), checkpoint_id=checkpoint)
    dist.barrier()  # A rank that leaves while another still sends can take gloo's threads down with it.
    dist.destroy_process_group()


def everything(model: nn.Module, neon: unsaddle.Neon, step: int) -> dict[str, object]:
    """What goes into a checkpoint: torch's own states, and Neon's."""
    weights, optimizer = get_state_dict(model, neon.base)
    return {"model": weights, "optimizer": optimizer, "neon": neon.sharded_state(), "step": torch.tensor(step)}


def load(checkpoint: Path, model: nn.Module, neon: unsaddle.Neon) -> int:
    """Load a checkpoint, of whatever number of ranks, and return its step."""
    state = everything(model, neon, 0)
    dcp.load(state, checkpoint_id=checkpoint)
    set_state_dict(model, neon.base, model_state_dict=state["model"], optim_state_dict=state["optimizer"])  # type: ignore[arg-type]
    return int(state["step"])  # type: ignore[call-overload]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkpoint", type=Path, default=None)
    parser.add_argument("--steps", type=int, default=320)
    chosen = parser.parse_args()
    main(chosen.checkpoint, chosen.steps)
    gc.collect()  # Without it gloo's threads now and then abort a Python that shuts down.
