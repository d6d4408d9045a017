"""What is measured again, farther out and from both sides."""

from __future__ import annotations

import math

import numpy as np
import torch

from unsaddle import Function
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
