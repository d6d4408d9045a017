"""What torch.distributed wraps around a model, and what a probe has to know of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from unsaddle.ranks import is_sharded


def replicas(model: nn.Module) -> Iterator[Any]:
    """The DistributedDataParallel modules in a model, as a rule the model itself."""
    if not dist.is_available():
        return
    from torch.nn.parallel import DistributedDataParallel

    yield from (module for module in model.modules() if isinstance(module, DistributedDataParallel))


def process_group(model: nn.Module) -> Any:
    """The process group of a model that is wrapped for data parallelism; None for any other."""
    return next((module.process_group for module in replicas(model)), None)


def is_wrapped(model: nn.Module) -> bool:
    """Whether any module of a model is torch.distributed's, or of its kind, and may do what it likes with `.grad`."""
    theirs = ("torch.distributed", "torch.nn.parallel")
    classes = {kind for module in model.modules() for kind in type(module).__mro__}
    return any(kind.__module__.startswith(theirs) for kind in classes)


def reshard(modules: Iterable[nn.Module]) -> None:
    """Free what FSDP2 has gathered.

    A forward pass that no backward follows leaves the root module gathered: edits of the shards would go unseen, and
    parameters() would give other tensors.
    """
    for module in modules:
        for part in module.modules():
            if hasattr(part, "reshard") and hasattr(part, "unshard"):  # An FSDPModule.
                part.reshard()  # type: ignore[operator]


@contextlib.contextmanager
def without_reduction(model: nn.Module) -> Iterator[None]:
    """Inside, DDP adds gradients up on each rank; the next backward outside reduces them all at once.

    FSDP2 is left alone: it would hold gradients of all parameters in full.
    """
    with contextlib.ExitStack() as stack:
        for module in replicas(model):
            stack.enter_context(module.no_sync())
        yield


def is_view_of_a_bucket(grad: Tensor | None) -> bool:
    """Whether a `.grad` is part of a larger block that the next backward writes to: DDP's gradient_as_bucket_view."""
    if grad is None or is_sharded(grad) or grad.layout is not torch.strided:
        return False
    return grad.untyped_storage().nbytes() > grad.numel() * grad.element_size()
