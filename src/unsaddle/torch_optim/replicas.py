"""The DDP modules that a training uses, and that none of them is inside `join()`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.nn.parallel import DistributedDataParallel


class Replicas:
    """Notes the DDP modules of the first step. An optimizer knows parameters only."""

    def __init__(self) -> None:
        self._seen: list[Any] | None = None

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """Notes what runs inside, the first time; then checks that none of it is inside `join()`."""
        if self._seen is not None:
            yield
        else:
            seen: list[Any] = []

            def note(module: nn.Module, args: Any) -> None:
                if isinstance(module, DistributedDataParallel):
                    seen.append(module)

            handle = register_module_forward_pre_hook(note)
            try:
                yield
            finally:
                handle.remove()
            self._seen = seen
        if any(module._join_config.enable for module in self._seen):
            raise ValueError(
                "the model is inside join(), which lets ranks end at different steps, and ranks with a Neon decide "
                "together in every step: expected as many batches on each rank, as DistributedSampler draws them; "
                "leave join() out, or use the optimizer without Neon"
            )
