"""Drawing rows, with or without replacement, and gathering them."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from unsaddle import checks

FEW = 128
"""Up to this many indices, a dictionary finds repeats faster than torch, which has to sort."""


def draw_indices(n: int, size: int, generator: torch.Generator | None, replacement: bool) -> Tensor:
    """`size` indices below `n`, distinct unless `replacement`."""
    size = checks.count(size, "size")
    if not replacement and size > n:
        raise ValueError(
            f"size must be at most n={n} when samples are distinct, got {size}; "
            "leave it out to take everything, or pass replacement=True"
        )
    generator = checks.generator(generator)
    if replacement:
        return _uniform(n, size, generator)
    if size > n // 8:
        return torch.randperm(n, generator=generator, device=generator.device)[:size]
    # Few out of many: drop repeats from independent draws. This is uniform, too, and costs O(size), not O(n).
    if size <= FEW and generator.device.type == "cpu":
        seen: dict[int, None] = {}  # It keeps the order of the draws, so both ways give the same indices.
        while len(seen) < size:
            seen |= dict.fromkeys(_uniform(n, size + size // 8 + 4, generator).tolist())
        return torch.tensor(list(seen)[:size])
    chosen = torch.empty(0, dtype=torch.long, device=generator.device)
    while chosen.numel() < size:
        drawn = torch.cat([chosen, _uniform(n, size + size // 8 + 4, generator)])
        chosen = drawn[_first_occurrences(drawn)]
    return chosen[:size]


def take_rows(tensor: Tensor, index: Tensor) -> Tensor:
    """Copies of the rows of a tensor, dense or sparse, as one tensor."""
    index = index.to(tensor.device)
    return _take_csr_rows(tensor, index) if tensor.layout is torch.sparse_csr else tensor.index_select(0, index)


def _uniform(n: int, size: int, generator: torch.Generator) -> Tensor:
    return torch.randint(n, (size,), generator=generator, device=generator.device)


def _first_occurrences(values: Tensor) -> Tensor:
    _, inverse = torch.unique(values, return_inverse=True)
    order = torch.arange(values.numel(), device=values.device)
    first = torch.full((int(inverse.max()) + 1,), values.numel(), device=values.device)
    return first.scatter_reduce(0, inverse, order, reduce="amin").sort().values


def _take_csr_rows(matrix: Tensor, index: Tensor) -> Tensor:
    starts = matrix.crow_indices()[:-1][index]
    lengths = matrix.crow_indices()[1:][index] - starts
    offsets = torch.cat([lengths.new_zeros(1), lengths.cumsum(0, dtype=lengths.dtype)])
    entries = torch.arange(int(offsets[-1]), device=index.device) + (starts - offsets[:-1]).repeat_interleave(lengths)
    col, values = matrix.col_indices()[entries], matrix.values()[entries]
    return csr_tensor(offsets, col, values, (index.numel(), matrix.shape[1]))


def csr_tensor(crow: Tensor, col: Tensor, values: Tensor, size: tuple[int, int]) -> Tensor:
    """A CSR tensor from valid indices, without torch's warning that the layout is in beta."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta", category=UserWarning)
        return torch.sparse_csr_tensor(crow, col, values, size=size, check_invariants=False)
