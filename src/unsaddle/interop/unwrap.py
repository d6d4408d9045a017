"""The Neon inside what a trainer made of it."""

from __future__ import annotations

from typing import Any

from unsaddle.torch_optim import Neon


def neon_in(optimizer: Any) -> Neon | None:
    """The optimizer itself, or the one inside wrappers that call it `optimizer`, as Accelerate's does; else None."""
    seen: set[int] = set()
    while optimizer is not None and id(optimizer) not in seen:
        if isinstance(optimizer, Neon):
            return optimizer
        seen.add(id(optimizer))
        optimizer = getattr(optimizer, "optimizer", None)
    return None
