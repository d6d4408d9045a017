"""Products along the kinks that x lies on: those of the Hessian, without its part across them."""

from __future__ import annotations

import pytest
import torch

from unsaddle import Function
from unsaddle.curvature.along_kinks import along_kinks, nearest_along, rounding_level
from unsaddle.curvature.displaced import DisplacedFunction
from unsaddle.measure.jumps import kinks_at


@pytest.mark.parametrize(("dtype", "precise"), [(torch.float64, 1e-6), (torch.float32, 5e-3)])
def test_products_are_those_of_the_hessian_along_the_kinks(dtype: torch.dtype, precise: float) -> None:
    g = torch.Generator().manual_seed(0)
    w = torch.randn(3, 60, generator=g, dtype=torch.float64)
    w = (w / w.norm(dim=1, keepdim=True)).to(dtype)
    x, diagonal = torch.randn(60, generator=g).to(dtype), torch.linspace(-0.5, 1.0, 60).to(dtype)
    F = Function(lambda y: 0.5 * (diagonal * (y - x) ** 2).sum() + 0.3 * torch.relu(w @ (y - x)).sum())
    f_hat = DisplacedFunction(F.sample(), x)
    level = rounding_level(f_hat, g)
    kinks = kinks_at(f_hat.f, x, nearest_along(f_hat), level, g)
    assert len(kinks) == 3
    v, q = (kinks.along(torch.randn(60, generator=g).to(dtype)) for _ in range(2))
    products, out = along_kinks(f_hat, v / v.norm(), g, max(level, kinks.inexact), kinks), torch.empty_like(q)
    q = q / q.norm()
    products.multiply(q, out)
    normals = torch.linalg.qr(w.double().T)[0]
    exact = diagonal.double() * q.double()
    exact = exact - normals @ (normals.T @ exact)
    assert float((out.double() - exact).norm()) <= precise


@pytest.mark.parametrize("d", [1, 2, 30])
def test_a_jump_of_the_hessian_is_no_rounding(d: int) -> None:
    x = torch.ones(d, dtype=torch.float64)
    F = Function(lambda y: ((y - x) * (y - x).abs()).sum())
    f_hat = DisplacedFunction(F.sample(), x)
    level = rounding_level(f_hat, torch.Generator().manual_seed(0))
    assert level < 0.1 * nearest_along(f_hat)


def test_of_a_quadratic_the_level_is_rounding() -> None:
    """Both sides are as far away: else the product itself, 1e3·r, would be left."""
    x = torch.ones(40, dtype=torch.float64)
    F = Function(lambda y: 1e3 * (y**2).sum() / 2.0)
    f_hat = DisplacedFunction(F.sample(), x)
    assert rounding_level(f_hat, torch.Generator().manual_seed(0)) < 1e-3 * 1e3 * nearest_along(f_hat)
