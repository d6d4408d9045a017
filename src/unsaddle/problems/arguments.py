"""Shared by the constructors of problems: checks of arguments, and random data that do not depend on the dtype."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from unsaddle import checks


def expect_dimension(x: Tensor, dimension: int, name: str = "x") -> Tensor:
    """`x`, if it has the dimension of the problem."""
    if x.numel() != dimension:
        raise ValueError(f"{name} must have {dimension} coordinates, the dimension of the problem, got {x.numel()}")
    return x


def float_type(dtype: torch.dtype) -> torch.dtype:
    """`dtype`, if it is one that points can have."""
    if dtype not in checks.FLOATS:
        raise ValueError(f"dtype must be torch.float32 or torch.float64, got {dtype}")
    return dtype


def numbers(values: Tensor | Sequence[float], name: str) -> Tensor:
    """`values` as a float64 vector of finite numbers."""
    vector = torch.as_tensor(values, dtype=torch.float64).detach().cpu()
    if vector.ndim != 1 or vector.numel() == 0:
        raise ValueError(f"{name} must be a vector with at least one entry, got shape {tuple(vector.shape)}")
    if not bool(torch.isfinite(vector).all()):
        raise ValueError(f"{name} must be finite, got {vector[~torch.isfinite(vector)][0].item()} among its entries")
    return vector


def decreasing_positive(values: Tensor | Sequence[float], name: str) -> Tensor:
    """`values` as a float64 vector of positive numbers, largest first."""
    vector = numbers(values, name)
    if bool((vector <= 0.0).any()) or bool((vector.diff() > 0.0).any()):
        raise ValueError(f"{name} must be positive and sorted from large to small, got {vector.tolist()}")
    return vector


def generator(seed: int) -> torch.Generator:
    """A new generator: the same seed gives the same problem everywhere."""
    return torch.Generator().manual_seed(checks.seed(seed))


def normal(*shape: int, random: torch.Generator) -> Tensor:
    """Standard normal numbers in float64. A float32 problem rounds them, so it is the same problem."""
    return torch.randn(*shape, generator=random, dtype=torch.float64)


def orthonormal(rows: int, columns: int, random: torch.Generator) -> Tensor:
    """A random matrix with orthonormal columns."""
    Q: Tensor = torch.linalg.qr(normal(rows, columns, random=random)).Q
    return Q
