"""What is measured again, farther out and from both sides."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from unsaddle import Function, eigenpairs
from unsaddle.cost import Ledger
from unsaddle.spectrum.hessian import Hessian, hessian_at
from unsaddle.spectrum.measured import measured

SIZES = torch.tensor([-1.0, 1.0, 4.0, 9.0], dtype=torch.float64)


def hessian(function: Function) -> Hessian:
    return hessian_at(function, torch.ones(4, dtype=torch.float64), None, torch.Generator().manual_seed(0), Ledger())


def test_vectors_that_are_turned_are_turned_back() -> None:
    H = hessian(Function(lambda x: 0.5 * (SIZES * x * x).sum()))
    turn = torch.linalg.qr(torch.randn(2, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)).Q
    found = list(torch.cat([turn, torch.zeros(2, 2, dtype=torch.float64)], dim=1))
    claimed = np.array([float(v @ (SIZES * v)) for v in found])
    seen = measured(H, found, claimed, 9.0, None)
    assert np.allclose(seen.values, [-1.0, 1.0], atol=1e-6)
    assert (np.abs(seen.values - [-1.0, 1.0]) <= seen.errors + 1e-12).all()
    assert np.allclose([abs(float(v[i])) for i, v in enumerate(seen.vectors)], 1.0, atol=1e-6)


def test_a_claim_that_another_radius_contradicts_is_in_the_error() -> None:
    H = hessian(Function(lambda x: 0.5 * (SIZES * x * x).sum()))
    v = torch.eye(4, dtype=torch.float64)[0]
    seen = measured(H, [v], np.array([-0.9]), 9.0, None)
    assert abs(seen.values[0] + 1.0) < 0.1 <= seen.errors[0] / 2.0
    assert seen.disagreement[0] > 0.29


def test_what_is_not_finite_is_said() -> None:
    H = hessian(Function(lambda x: torch.where(x[0] > 1.0, x.sum() * math.inf, x.square().sum())))
    assert not measured(H, [torch.eye(4, dtype=torch.float64)[0]], np.zeros(1), 1.0, None).is_finite


def test_errors_without_room_are_measured_once_more_from_both_sides() -> None:
    """The third derivative is a large part of them."""
    truth = torch.tensor([2.0, 4.0, 6.0, 8.0, 10.0, 12.0])
    F, x = Function(lambda x: (torch.arange(1, 7) * x**3).sum() / 3.0), torch.ones(6)
    H = hessian_at(F, x, None, torch.Generator().manual_seed(0), Ledger())
    found, claimed = list(torch.eye(6)), np.empty(6)
    for i, v in enumerate(found):
        product = torch.empty(6)
        H.multiply(v, product, 12.0)
        claimed[i] = float(product[i])
    before, seen = H.ledger.gradients, []
    for share in (math.inf, 0.0):
        seen.append(measured(H, found, claimed, 12.0, None, lambda values, share=share: share * np.abs(values)))  # type: ignore[misc]
    assert H.ledger.gradients - before == 6 + 12
    assert (seen[1].errors < 0.7 * seen[0].errors).all()
    for one in seen:
        assert (np.abs(one.values - truth.numpy()) <= one.errors).all()


def test_errors_hold_where_two_radii_agree_by_chance() -> None:
    """Six values at each of eight points. Without the rounding along a vector, three errors were too small."""
    for seed in range(8):
        generator = torch.Generator().manual_seed(seed)
        d = 60 + 20 * seed
        rotation = torch.linalg.qr(torch.randn(d, d, generator=generator, dtype=torch.float64))[0]
        sizes, x = (torch.randn(d, generator=generator, dtype=torch.float64) for _ in range(2))
        y = rotation @ x

        def fun(point: Tensor, rotation: Tensor = rotation, sizes: Tensor = sizes) -> Tensor:
            z = rotation @ point
            return (0.5 * sizes * z**2 + z**3 / 3.0 + z**4 / 4.0).sum()

        found = eigenpairs(Function(fun), x, lowest=3, highest=3, seed=seed)
        truth = (sizes + 2.0 * y + 3.0 * y * y).numpy()
        off = np.abs(found.values[:, None] - truth[None]).min(axis=1)
        assert (off <= found.errors).all()
