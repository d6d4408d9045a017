"""The measured L1: above ‖H‖, below 2‖H‖, for eight products."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from unsaddle.measure import smoothness

SPECTRA = {
    "spread": torch.linspace(-1.0, 3.0, 100, dtype=torch.float64),
    "negative at the top": torch.cat([torch.tensor([-5.0]), torch.linspace(0.0, 1.0, 99)]).double(),
    "needle among zeros": torch.cat([torch.zeros(99), torch.tensor([2.0])]).double(),
    "tiny": 1e-20 * torch.linspace(0.0, 1.0, 100, dtype=torch.float64),
    "huge": 1e20 * torch.linspace(0.0, 1.0, 100, dtype=torch.float64),
}


def _estimate(s: Tensor, seed: int, calls: list[float] | None = None) -> float:
    def product(v: Tensor) -> Tensor:
        if calls is not None:
            calls.append(float(v.norm()))
        return s * v

    return smoothness.smoothness(product, s, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("s", SPECTRA.values(), ids=SPECTRA)
def test_the_estimate_is_between_the_norm_and_twice_the_norm(s: Tensor) -> None:
    largest = float(s.abs().max())
    for seed in range(50):
        assert largest <= _estimate(s, seed) <= 2.0 * largest * (1 + 1e-12)


def test_it_holds_at_a_hundred_thousand_dimensions_for_the_worst_spectrum() -> None:
    """One eigenvalue at 1, all others where eight products make the growth seen smallest, about d^{-1/16} = 0.49.

    With probability at least 0.95 over the start the estimate is within a factor of two; 95 % of 40 runs, less the
    binomial slack: P(fewer than 30 of 40 | 0.95) < 1e-4.
    """
    assert sum(math.comb(40, i) * 0.95**i * 0.05 ** (40 - i) for i in range(30)) < 1e-4
    for rest in (0.0, 0.2, 0.4, 0.5):
        s = torch.full((100_000,), rest)
        s[0] = 1.0
        good = sum(_estimate(s, seed) >= 0.5 for seed in range(40))
        assert good >= 30


def test_eight_unit_vectors_are_multiplied() -> None:
    calls: list[float] = []
    _estimate(SPECTRA["spread"], 0, calls)
    assert calls == pytest.approx([1.0] * 8)


def test_a_zero_hessian_is_seen_at_once() -> None:
    calls: list[float] = []
    assert _estimate(torch.zeros(5), 0, calls) == 0.0
    assert len(calls) == 1


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_finite_is_handed_back(bad: float) -> None:
    assert not math.isfinite(_estimate(torch.full((5,), bad), 0))


def test_the_start_is_the_generators() -> None:
    s = SPECTRA["spread"]
    assert _estimate(s, 3) == _estimate(s, 3) != _estimate(s, 4)
