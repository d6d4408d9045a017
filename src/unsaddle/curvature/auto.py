"""`extractor="auto"`: chooses the extractor and the size of its basis by the free memory.

The rule is measured: `benchmarks.extraction` and `benchmarks.networks --basis N` print the counts, docs/krylov.md has
them. `krylov` takes the fewest gradients in either precision and dimension, and needs no constants. A basis of 20
vectors, compared with an unlimited one, costs a few gradients more to find a direction below −γ/2, and a quarter more
to follow λ_min of a transformer to 2 %. A basis of 10 costs another eighth. So the choice is `krylov` with 20 vectors:
with up to 64 if they take at most 64 MB, and with fewer if 20 do not fit into half of the free memory. If not even 8
fit, the choice is renormalised NEON⁺, which holds five.
"""

from __future__ import annotations

import os

import torch
from torch import Tensor

from unsaddle import ranks

BASIS = 20
"""Vectors of a basis if memory is neither plentiful nor short."""
LARGEST_BASIS = 64
PLENTIFUL_BYTES = 64 << 20
SMALLEST_BASIS = 8
OTHER_VECTORS = 4
"""x + rq, ∇f(x), a gradient, and the next basis vector."""
FALLBACK = "neon+-renormalised"


def basis_size(x: Tensor, free_bytes: int | None) -> int:
    """How many vectors like x a Krylov basis should hold.

    >>> basis_size(torch.zeros(1000), free_bytes=None), basis_size(torch.zeros(500_000), free_bytes=None)
    (64, 33)
    >>> basis_size(torch.zeros(2_000_000), free_bytes=1 << 30), basis_size(torch.zeros(2_000_000), free_bytes=1 << 28)
    (20, 12)
    """
    bytes_each = max(1, x.numel()) * x.element_size()
    size = max(BASIS, min(LARGEST_BASIS, PLENTIFUL_BYTES // bytes_each))
    if free_bytes is not None:
        size = min(size, free_bytes // 2 // bytes_each - OTHER_VECTORS)
    team = ranks.current()
    return size if team is None else team.smallest(size)  # Ranks differ in memory, but must choose the same.


def choose(x: Tensor, free_bytes: int | None) -> str:
    """The extractor that fits into the free memory.

    >>> choose(torch.zeros(1000), free_bytes=100_000), choose(torch.zeros(1000), free_bytes=50_000)
    ('krylov', 'neon+-renormalised')
    """
    return "krylov" if basis_size(x, free_bytes) >= SMALLEST_BASIS else FALLBACK


def free_memory(device: torch.device) -> int | None:
    """Free bytes on the device; None if it does not say."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    if device.type == "cpu" and hasattr(os, "sysconf") and "SC_AVPHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None
