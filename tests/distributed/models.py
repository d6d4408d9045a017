"""What all ranks work on: small networks, rows, and the ways to spread them."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import TensorDataset

from unsaddle import ModelObjective, ranks

WORLD = int(os.environ.get("WORLD_SIZE", "1"))
RANK = int(os.environ.get("RANK", "0"))
ROWS = 50
CUTS = {1: [0, 50], 2: [0, 17, 50], 4: [0, 17, 18, 40, 50]}
"""Uneven: one of four ranks has a single row."""


def network(dtype: torch.dtype) -> nn.Sequential:
    """Rows of 7, 3 and 1 do not divide by two or four: some ranks hold nothing of the last layer."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3), nn.Tanh(), nn.Linear(3, 1)).to(dtype)


def loss(model: nn.Module, batch: list[Tensor]) -> Tensor:
    return (model(batch[0]) - batch[1]).square().mean()


def rows(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x, y = torch.randn(ROWS, 5, generator=generator), torch.randn(ROWS, 1, generator=generator)
    return x.to(dtype), y.to(dtype)


def own_rows(dtype: torch.dtype) -> TensorDataset:
    first, last = CUTS[WORLD][RANK : RANK + 2]
    return TensorDataset(*(t[first:last] for t in rows(dtype)))


def wrap(model: nn.Module, kind: str) -> nn.Module:
    if WORLD == 1:
        return model
    if kind.startswith("ddp"):
        return DistributedDataParallel(model, gradient_as_bucket_view=kind == "ddp-views")
    mesh = init_device_mesh("cpu", (2, WORLD // 2), mesh_dim_names=("replicate", "shard"))
    if kind != "hsdp":
        mesh = init_device_mesh("cpu", (WORLD,))
    settings: dict[str, Any] = {"mesh": mesh}
    if kind == "fsdp-bf16":
        settings["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    if kind != "fsdp-root":
        for layer in model.children():
            if isinstance(layer, nn.Linear):
                fully_shard(layer, **settings)
    fully_shard(model, **settings)
    return model


def whole(v: Tensor | None, objective: ModelObjective) -> list[float] | None:
    """A vector that ranks hold together, from all of them."""
    if v is None or objective.ranks is None or objective.ranks.dimension is None:
        return None if v is None else v.tolist()
    full = torch.zeros(objective.ranks.dimension, dtype=torch.float64)
    offset = 0
    for first, length in objective.ranks.pieces:
        full[first : first + length] = v[offset : offset + length]
        offset += length
    return objective.ranks.sum(full).tolist()


def bits(model: nn.Module) -> list[Any]:
    state = [ranks.local(p).clone() for p in model.parameters()]
    grads = [None if p.grad is None else ranks.local(p.grad).clone() for p in model.parameters()]
    return [*state, *grads, *(b.clone() for b in model.buffers())]


def same(before: list[Any], after: list[Any]) -> bool:
    return all(a is b is None or torch.equal(a, b) for a, b in zip(before, after, strict=True))


def autoencoder() -> nn.Module:
    model = nn.Sequential(nn.Linear(8, 3, bias=False), nn.Linear(3, 8, bias=False))
    for p in model.parameters():
        nn.init.zeros_(p)
    return model
