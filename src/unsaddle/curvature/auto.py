"""`method="auto"`: which extractor, by what memory allows.

Measured rule (`python -m benchmarks.extraction` prints the counts, docs/krylov.md quotes them): `krylov` takes the
fewest gradients in either precision and at either dimension, and needs no constants; a basis of 20 costs it a few
gradients against an unlimited one, one of 10 about an eighth more. So it is `krylov` with as large a basis up to 20 as
fits into half of the memory that is free, and, where not even 8 vectors fit, renormalised NEON⁺, which holds five.
"""

from __future__ import annotations

import os

import torch
from torch import Tensor

BASIS = 20
"""Vectors of a full basis."""
SMALLEST_BASIS = 8
OTHER_VECTORS = 4
"""x + rq, ∇f(x), a gradient, and the basis' next vector."""
FALLBACK = "neon+-renormalised"


def choose(x: Tensor, free_bytes: int | None) -> tuple[str, int]:
    """The extractor and, for `krylov`, its basis.

    >>> choose(torch.zeros(1000), free_bytes=1 << 30)
    ('krylov', 20)
    >>> choose(torch.zeros(1000), free_bytes=100_000)
    ('krylov', 8)
    >>> choose(torch.zeros(1000), free_bytes=50_000)
    ('neon+-renormalised', 20)
    """
    if free_bytes is None:
        return "krylov", BASIS
    basis = free_bytes // 2 // (x.numel() * x.element_size()) - OTHER_VECTORS
    return ("krylov", min(basis, BASIS)) if basis >= SMALLEST_BASIS else (FALLBACK, BASIS)


def free_memory(device: torch.device) -> int | None:
    """Bytes free where x lives, if that can be told."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    if device.type == "cpu" and hasattr(os, "sysconf") and "SC_AVPHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None
