"""Jumps of the gradient at x: kinks told apart, with their normals, and what gradients on their sides share."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from unsaddle import Function
from unsaddle.measure.jumps import Kinks, kinks_at, smallest_gradient

ROUNDING = {torch.float64: 1e-14, torch.float32: 1e-6}
RADIUS = {torch.float64: 1e-11, torch.float32: 2e-5}


def normals(dtype: torch.dtype, count: int, d: int = 40) -> Tensor:
    w = torch.randn(count, d, generator=torch.Generator().manual_seed(count), dtype=torch.float64)
    return (w / w.norm(dim=1, keepdim=True)).to(dtype)


def with_kinks(w: Tensor, sizes: list[float], tilt: float = 0.0) -> tuple[Function, Tensor]:
    """A quadratic with its minimum at x, c·relu(wᵀ(y − x)) for each c, less tilt·wᵀ(y − x) for the first w; and x."""
    x = torch.randn(w.shape[1], generator=torch.Generator().manual_seed(0)).to(w)
    diagonal, c = torch.linspace(0.1, 1.0, w.shape[1]).to(w), torch.tensor(sizes).to(w)

    def value(y: Tensor) -> Tensor:
        t = w @ (y - x)
        return 0.5 * (diagonal * (y - x) ** 2).sum() + c @ torch.relu(t) - tilt * t[0]

    return Function(value), x


def found(F: Function, x: Tensor) -> Kinks:
    return kinks_at(F.sample(), x, RADIUS[x.dtype], ROUNDING[x.dtype], torch.Generator().manual_seed(1))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_each_kink_through_x_is_found_with_its_normal_and_the_way_that_f_bends(dtype: torch.dtype) -> None:
    w, sizes = normals(dtype, 3), [0.5, -0.2, 0.1]
    F, x = with_kinks(w, sizes)
    kinks = found(F, x)
    assert len(kinks) == 3
    for jump, down in zip(kinks.jumps, kinks.down, strict=True):
        cosines = (w @ jump / jump.norm()).abs()
        nearest = int(cosines.argmax())
        assert float(cosines[nearest]) > 1.0 - 1e-5
        assert float(jump.norm()) == pytest.approx(abs(sizes[nearest]), rel=1e-3)
        assert down == (sizes[nearest] < 0.0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_smooth_function_has_no_kinks(dtype: torch.dtype) -> None:
    F, x = with_kinks(normals(dtype, 1), [0.0])
    assert len(found(F, x)) == 0


def test_what_is_along_all_kinks_has_no_part_across_one() -> None:
    w = normals(torch.float64, 3)
    F, x = with_kinks(w, [0.5, 0.2, 0.1])
    kinks = found(F, x)
    v = kinks.along(torch.randn(40, generator=torch.Generator().manual_seed(2)).double())
    assert float((w @ v).abs().max()) < 1e-6
    across = kinks.across(0)
    others = [i for i in range(3) if abs(float(w[i] @ kinks.jumps[0]) / float(kinks.jumps[0].norm())) < 0.99]
    assert float((w[others] @ across).abs().max()) < 1e-6
    assert abs(float(kinks.jumps[0] @ across)) > 0.5 * float(kinks.jumps[0].norm())


@pytest.mark.parametrize(("tilt", "least"), [(0.3, 0.0), (0.9, 0.0), (1.2, 0.2), (-0.1, 0.1)])
def test_in_a_valley_the_sides_share_no_slope(tilt: float, least: float) -> None:
    """relu(t) − tilt·t has slopes −tilt and 1 − tilt: zero lies between them if 0 ≤ tilt ≤ 1."""
    F, x = with_kinks(normals(torch.float64, 1), [1.0], tilt)
    f = F.sample()
    shortest = smallest_gradient(f, x, f.grad(x).clone(), found(F, x), RADIUS[x.dtype])
    assert shortest == pytest.approx(least, abs=1e-9)


def test_a_ridge_has_no_smallest_gradient() -> None:
    F, x = with_kinks(normals(torch.float64, 1), [-1.0])
    f = F.sample()
    assert math.isnan(smallest_gradient(f, x, f.grad(x).clone(), found(F, x), RADIUS[x.dtype]))
