"""Probes that come nearer to x until its two sides agree."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from unsaddle import Function, negative_curvature
from unsaddle.measure.between_kinks import Gap, along, excludes_stairs, gap, holds_far_out, measured, opposite
from unsaddle.objective import SampledFunction

DOUBLE = torch.float64
KINK = 3e-10
"""The distance of the kink along the first variable."""


def kinked(distance: float = KINK, dtype: torch.dtype = DOUBLE) -> tuple[SampledFunction, Tensor, Tensor]:
    """x₀² − x₁²/2 + |x₀ − 1 − distance|, its point (1, 1), and the gradient there."""

    def fun(x: Tensor) -> Tensor:
        return x[0] ** 2 - x[1] ** 2 / 2.0 + (x[0] - 1.0 - distance).abs()

    f, x = Function(fun).sample(), torch.ones(2, dtype=dtype)
    return f, x, f.grad(x).clone()


def unit(index: int, size: int = 2) -> Tensor:
    return torch.eye(size, dtype=DOUBLE)[index]


WIDE = Gap(radius=1e-8, nearest=1e-15, level=1e-15)


def test_probes_halve_their_radius_until_no_kink_is_between_them() -> None:
    f, x, grad0 = kinked()
    before = f.ledger.gradients
    probes = opposite(f, x, unit(0), grad0, WIDE)
    halvings = math.ceil(math.log2(WIDE.radius / KINK))
    assert probes.clean
    assert probes.radius == WIDE.radius / 2**halvings < KINK
    assert f.ledger.gradients - before == 2 * (halvings + 1)


def test_along_a_direction_without_kinks_the_first_radius_is_kept() -> None:
    f, x, grad0 = kinked()
    assert opposite(f, x, unit(1), grad0, WIDE).radius == WIDE.radius


def test_the_curvature_between_kinks_is_that_at_x() -> None:
    f, x, grad0 = kinked()
    seen = along(f, x, unit(0), grad0, WIDE)
    assert seen.curvature == pytest.approx(2.0, rel=1e-5)
    assert seen.nearer == pytest.approx(2.0, rel=1e-5)
    down = measured(f, x, unit(1), grad0, WIDE, claimed=-1.0, smoothness=2.0)
    assert down.is_negative
    assert down.curvature == pytest.approx(-1.0, rel=1e-5)


def test_a_claim_that_is_not_borne_out_is_in_the_error() -> None:
    f, x, grad0 = kinked()
    seen = measured(f, x, unit(1), grad0, WIDE, claimed=-2.0, smoothness=2.0)
    assert seen.error > 2.9
    assert not seen.is_negative


def test_without_a_claim_the_nearer_radius_stands_for_it() -> None:
    f, x, grad0 = kinked()
    seen = measured(f, x, unit(1), grad0, WIDE, claimed=None, smoothness=2.0)
    assert seen.is_negative
    assert seen.error < 1e-4


def test_a_direction_is_measured_farther_out_than_the_gap_if_its_kinks_allow() -> None:
    """Rounding falls with the radius. The gap is that of a random direction, which had met the kink."""
    f, x, grad0 = kinked()
    narrow = Gap(radius=1e-10, nearest=1e-15, level=1e-15, farthest=1e-8)
    assert along(f, x, unit(1), grad0, narrow).radius == pytest.approx(8e-10)
    assert along(f, x, unit(0), grad0, narrow).radius == pytest.approx(2e-10)
    assert narrow.wider(1e-8, 2.0).radius == narrow.farthest
    assert WIDE.wider(1e-7, 2.0).radius == WIDE.radius


def test_a_kink_that_is_too_small_to_be_seen_is_in_the_error() -> None:
    """It jumps by 2e-12 at 3e-10, along v: less than what counts as rounding, and 1e-4 of curvature."""
    f = Function(lambda x: -(x[1] ** 2) / 2.0 + 1e-12 * (x[1] - 1.0 - KINK).abs()).sample()
    x = torch.ones(2, dtype=DOUBLE)
    seen = measured(
        f, x, unit(1), f.grad(x).clone(), Gap(radius=1e-8, nearest=1e-15, level=1e-11), claimed=-1.0, smoothness=1.0
    )
    assert abs(seen.curvature + 1.0) > 9e-5
    assert seen.error > abs(seen.curvature + 1.0)


def test_clean_products_in_many_dimensions_exclude_that_x_is_rounded_inside() -> None:
    """In 10⁴ dimensions two probes at 1e-5 of ‖x‖ cross some 26 steps of bfloat16 or more; in ten mostly none."""
    g = torch.Generator().manual_seed(0)
    for d, excluded in ((10, False), (10_000, True)):
        x, q = torch.randn(2, d, generator=g, dtype=DOUBLE).div_(math.sqrt(d))
        radius = 1e-5 * float(x.norm())
        within, step = Gap(radius=radius, nearest=1e-8, level=1e-12), radius * q / q.norm()
        crossed = int(((x + step).bfloat16() != (x - step).bfloat16()).sum())
        assert excludes_stairs(x, within, radius, 1) is excluded is (crossed > 10)
        assert not excludes_stairs(x, within, 1.5e-8, 10**9)  # At the nearest radius the sides may have differed.
        assert not excludes_stairs(torch.zeros_like(x), within, radius, 10**9)


def test_the_gap_ends_at_the_kink_and_there_is_none_at_a_kink() -> None:
    f, x, grad0 = kinked()
    found = gap(f, x, math.sqrt(2.0), grad0, torch.Generator().manual_seed(0))
    assert found is not None
    assert not found.smooth
    assert found.nearest < found.radius < 1e-8
    f, x, grad0 = kinked(distance=0.0)
    assert gap(f, x, math.sqrt(2.0), grad0, torch.Generator().manual_seed(0)) is None


def test_a_kink_right_beside_x_is_told_and_the_other_side_is_measured() -> None:
    """It is nearer than any number beside x: F bends down towards smaller numbers, and rises towards larger ones."""
    f = Function(lambda x: -(x[0] ** 2) / 2.0 + x[0] + 2.0 * (x[0] - 1.0).relu() + x[1] ** 2).sample()
    x = torch.ones(2, dtype=DOUBLE)
    seen = measured(f, x, unit(0), f.grad(x).clone(), WIDE, claimed=-1.0, smoothness=2.0)
    assert seen.sided
    assert seen.curvature == pytest.approx(-1.0, rel=0.2)
    g, y, grad0 = kinked()
    assert not measured(g, y, unit(1), grad0, WIDE, claimed=-1.0, smoothness=2.0).sided


def test_truncation_is_told_from_kinks() -> None:
    """Around zero, x³/w has even parts that fall to a quarter at half the distance."""
    f = Function(lambda x: x[0] ** 2 + (x**3).sum() / 1e-7).sample()
    x = torch.zeros(2, dtype=DOUBLE)
    found = gap(f, x, 0.0, f.grad(x).clone(), torch.Generator().manual_seed(0))
    assert found is not None
    assert found.smooth


def test_a_curvature_next_to_x_only_does_not_hold_far_out() -> None:
    f = Function(lambda x: -(x[0] ** 2) + 1e6 * x[0] ** 4 - x[1] ** 2).sample()
    x = torch.zeros(2, dtype=DOUBLE)
    assert holds_far_out(f, x, unit(1), -2.0)
    assert not holds_far_out(f, x, unit(0), -2.0)


@pytest.mark.parametrize("seed", range(4))
def test_a_float32_relu_network_is_searched_between_its_kinks(seed: int) -> None:
    """3000 ReLU units on 32 rows: kinks are everywhere. The truth is an exact product in float64."""
    g = torch.Generator().manual_seed(seed)
    rows, targets = torch.randn(256, 40, generator=g, dtype=DOUBLE), torch.randn(256, generator=g, dtype=DOUBLE)
    outer = torch.randn(60, generator=g, dtype=DOUBLE)

    def loss(x: Tensor) -> Tensor:
        inner, last = x[: 60 * 40].view(60, 40), x[60 * 40 :]
        out = torch.relu(rows.to(x.dtype) @ inner.T) @ (last + outer.to(x.dtype))
        return (out - targets.to(x.dtype)).square().mean() / 2.0

    x = torch.randn(60 * 41, generator=g, dtype=DOUBLE)
    found = negative_curvature(Function(loss), x.float(), seed=seed)
    assert found.direction is not None
    v = found.direction.double()
    _, product = torch.autograd.functional.hvp(loss, x.float().double(), v)
    assert found.curvature == pytest.approx(float(v @ product), rel=0.05)
