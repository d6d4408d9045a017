"""Finds the Neon inside the wrappers of a trainer."""

from __future__ import annotations

from typing import Any

from unsaddle.torch_optim import Neon


def neon_in(optimizer: Any) -> Neon | None:
    """The optimizer if it is a Neon, or the Neon in its attribute `optimizer` (as in Accelerate's wrapper), or None."""
    seen: set[int] = set()
    while optimizer is not None and id(optimizer) not in seen:
        if isinstance(optimizer, Neon):
            return optimizer
        seen.add(id(optimizer))
        optimizer = getattr(optimizer, "optimizer", None)
    return None
