"""A space keeps what is in it orthogonal to what was locked, and zero outside its block."""

from __future__ import annotations

import torch

from unsaddle.spectrum.space import Space


def test_projections_and_random_vectors_are_in_the_space() -> None:
    like = torch.zeros(10, dtype=torch.float64)
    mask = torch.ones_like(like)
    mask[6:] = 0.0
    space = Space(like, mask)
    assert space.dimension == 6
    q, _ = torch.linalg.qr(torch.randn(6, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64))
    locked = [torch.cat([column, torch.zeros(4, dtype=torch.float64)]) for column in q.T]
    space.lock(locked[:3])
    space.lock(locked[3:])
    assert space.dimension == 1
    v = space.random(torch.Generator().manual_seed(1))
    assert abs(float(v.norm()) - 1.0) < 1e-14
    assert float((torch.stack(locked) @ v).abs().max()) < 1e-14
    assert torch.equal(v[6:], torch.zeros(4, dtype=torch.float64))
    space.replace(locked[:1])
    assert space.dimension == 5


def test_a_restricted_product_stays_in_the_block() -> None:
    space = Space(torch.zeros(3, dtype=torch.float64), torch.tensor([0.0, 1.0, 1.0], dtype=torch.float64))
    out = torch.empty(3, dtype=torch.float64)
    space.restricted(lambda q, out: out.copy_(2.0 * q))(torch.ones(3, dtype=torch.float64), out)
    assert out.tolist() == [0.0, 2.0, 2.0]
