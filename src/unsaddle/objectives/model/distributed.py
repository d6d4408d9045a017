"""Helpers for models that torch.distributed wraps: DDP and FSDP2."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from unsaddle.ranks import is_sharded


def replicas(model: nn.Module) -> Iterator[Any]:
    """The DistributedDataParallel modules in a model. Usually this is the model itself."""
    return (module for module in model.modules() if isinstance(module, DistributedDataParallel))


def process_group(model: nn.Module) -> Any:
    """The process group of a DDP model; None for any other."""
    return next((module.process_group for module in replicas(model)), None)


def is_wrapped(model: nn.Module) -> bool:
    """Whether a class of torch.distributed or torch.nn.parallel wraps any module. It may replace `.grad`."""
    classes = {kind for module in model.modules() for kind in type(module).__mro__}
    return any(kind.__module__.startswith(("torch.distributed", "torch.nn.parallel")) for kind in classes)


def sharded(modules: Iterable[nn.Module]) -> list[Any]:
    """Those of the modules, without their children, that FSDP2 has sharded."""
    # The class is asked: a module's own search for a missing attribute is slow.
    return [m for m in modules if hasattr(type(m), "reshard") and hasattr(type(m), "unshard")]


def reshard(modules: Iterable[Any]) -> None:
    """Make FSDP2 free the gathered parameters of modules that it has `sharded`.

    A forward without a backward leaves the root module gathered. It would then ignore new values in the shards, and
    parameters() would return other tensors.
    """
    for module in modules:
        module.reshard()


def without_reduction(model: nn.Module) -> contextlib.AbstractContextManager[object]:
    """Inside, DDP adds up gradients on each rank; the next backward outside reduces them once.

    This does not change FSDP2, which would have to hold all gradients unsharded.
    """
    stack = contextlib.ExitStack()
    for module in replicas(model):
        stack.enter_context(module.no_sync())
    return stack


def is_view_of_a_bucket(grad: Tensor | None) -> bool:
    """Whether a `.grad` is part of a larger block that the next backward overwrites (DDP: gradient_as_bucket_view)."""
    if grad is None or is_sharded(grad) or grad.layout is not torch.strided:
        return False
    return grad.untyped_storage().nbytes() > grad.numel() * grad.element_size()
