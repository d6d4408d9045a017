"""The maps S: symmetric, normalised, bounded."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from unsaddle.metric.maps import ORDERS, Map, dense, diagonal

D = 7


def some(kind: str, dtype: torch.dtype) -> tuple[Map, Tensor]:
    """A map, and its matrix from something else."""
    generator = torch.Generator().manual_seed(3)
    sizes = torch.rand(D, generator=generator, dtype=torch.float64) + 0.1
    if kind == "diagonal":
        matrix = torch.diag(sizes)
        return diagonal(sizes, dtype), matrix / sizes.log().mean().exp()
    axes, _ = torch.linalg.qr(torch.randn(D, D, generator=generator, dtype=torch.float64))
    like = torch.zeros(D, dtype=dtype)
    return dense(axes, sizes, like), axes @ torch.diag(sizes) @ axes.T / sizes.log().mean().exp()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", ["diagonal", "dense"])
def test_a_map_is_its_matrix_with_determinant_one(kind: str, dtype: torch.dtype) -> None:
    scaling, matrix = some(kind, dtype)
    tolerance = {"rtol": 1e-5, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 1e-12, "atol": 1e-12}
    v = torch.linspace(-1.0, 2.0, D, dtype=dtype)
    torch.testing.assert_close(scaling.apply(v).double(), matrix @ v.double(), **tolerance)
    torch.testing.assert_close(scaling.solve(scaling.apply(v)), v, **tolerance)
    values = torch.linalg.eigvalsh(matrix)
    assert math.isclose(float(values.prod()), 1.0, rel_tol=1e-12)
    assert math.isclose(scaling.smallest, float(values[0]), rel_tol=1e-6)
    assert math.isclose(scaling.largest, float(values[-1]), rel_tol=1e-6)
    w = scaling.stiffest(v)
    assert (w.dtype, w.shape) == (v.dtype, v.shape)
    assert math.isclose(float(w.norm()), 1.0, rel_tol=1e-6)
    assert math.isclose(float(scaling.apply(w).norm()), scaling.smallest, rel_tol=1e-6)


def test_sizes_range_over_ten_orders_of_magnitude_at_most() -> None:
    sizes = torch.tensor([1e-30, 1.0, 1.0, 1e30], dtype=torch.float64)
    scaling = diagonal(sizes)
    torch.testing.assert_close(
        scaling.apply(torch.ones_like(sizes)), torch.tensor([1e-5, 1.0, 1.0, 1e5], dtype=torch.float64)
    )
    assert scaling.largest / scaling.smallest <= 1e10 * (1.0 + 1e-9)


def test_only_ratios_of_sizes_matter() -> None:
    sizes = torch.tensor([0.5, 3.0, 8.0], dtype=torch.float64)
    one = torch.ones_like(sizes)
    torch.testing.assert_close(diagonal(1e7 * sizes).apply(one), diagonal(sizes).apply(one))


@pytest.mark.parametrize("far", [1e-20, 1e20])
def test_a_single_size_far_from_the_others_is_bounded_on_either_side(far: float) -> None:
    sizes = torch.ones(1000, dtype=torch.float64)
    sizes[0] = far
    applied = diagonal(sizes).apply(torch.ones(1000, dtype=torch.float64))
    assert abs(math.log10(float(applied[0]))) == pytest.approx(ORDERS / 2.0, abs=1e-9)
