"""Spectra for `prescribed_spectrum`: float64 vectors, smallest first, each with one difficulty."""

from __future__ import annotations

import torch
from torch import Tensor

from unsaddle import checks
from unsaddle.problems.arguments import generator


def random_spectrum(dimension: int, *, lowest: float, largest: float, seed: int = 0) -> Tensor:
    """Eigenvalues uniform between λ_min = `lowest` and λ_max = `largest`, both attained.

    >>> random_spectrum(4, lowest=-1.0, largest=2.0)[[0, -1]].tolist()
    [-1.0, 2.0]
    """
    checks.count(dimension, "dimension", at_least=2)
    if not lowest < largest:
        raise ValueError(f"lowest must be below largest, got {lowest} and {largest}")
    return _with_ends(torch.rand(dimension, generator=generator(seed), dtype=torch.float64), lowest, largest)


def near_ties(
    dimension: int, *, lowest: float, largest: float, ties: int = 5, gap: float = 1e-3, seed: int = 0
) -> Tensor:
    """λ_min = `lowest`, and `ties` − 1 others above it in steps of `gap`. The rest is uniform in [0, `largest`].

    No method separates the tied eigenvectors quickly, and none has to: each is a way down.

    >>> near_ties(5, lowest=-1.0, largest=2.0, ties=2, gap=0.25)[:2].tolist()
    [-1.0, -0.75]
    """
    ties = checks.count(ties, "ties", at_least=2)
    checks.count(dimension, "dimension", at_least=ties + 1)
    checks.positive(gap, "gap")
    checks.positive(largest, "largest")
    if lowest + (ties - 1) * gap >= 0.0:
        raise ValueError(f"the {ties} ties must stay below zero, got {lowest} + {ties - 1}·{gap}; lower lowest or gap")
    bottom = lowest + gap * torch.arange(ties, dtype=torch.float64)
    rest = torch.rand(dimension - ties, generator=generator(seed), dtype=torch.float64)
    return torch.cat([bottom, _with_ends(rest, 0.0, largest)])


def around_threshold(
    dimension: int, *, gamma: float, side: str, largest: float, margin: float = 0.1, seed: int = 0
) -> Tensor:
    """λ_min just on one side of −γ: −γ(1 + margin) for `side="below"`, −γ(1 − margin) for `side="above"`.

    The rest is uniform in [0, `largest`]. A search for curvature −γ must find λ_min below it, and need not above.

    >>> around_threshold(3, gamma=1.0, side="below", largest=2.0)[0].item()
    -1.1
    """
    checks.count(dimension, "dimension", at_least=2)
    checks.probability(margin, "margin")
    sign = 1.0 if checks.choice(side, "side", ("below", "above")) == "below" else -1.0
    lowest = -checks.positive(gamma, "gamma") * (1.0 + sign * margin)
    return rank_one_negative(dimension, lowest=lowest, largest=largest, seed=seed)


def rank_one_negative(dimension: int, *, lowest: float, largest: float, seed: int = 0) -> Tensor:
    """One negative eigenvalue, `lowest`. The rest is uniform in [0, `largest`].

    >>> (rank_one_negative(100, lowest=-0.1, largest=1.0) < 0).sum().item()
    1
    """
    checks.count(dimension, "dimension", at_least=2)
    checks.positive(largest, "largest")
    if not lowest < 0.0:
        raise ValueError(
            f"lowest must be < 0, got {lowest}; use positive_semidefinite for a spectrum without a way down"
        )
    rest = torch.rand(dimension - 1, generator=generator(seed), dtype=torch.float64)
    return torch.cat([torch.tensor([lowest], dtype=torch.float64), _with_ends(rest, 0.0, largest)])


def positive_semidefinite(dimension: int, *, largest: float, zeros: int = 1, seed: int = 0) -> Tensor:
    """`zeros` exact zeros. The rest is uniform in (0, `largest`], so there is nothing to find.

    >>> positive_semidefinite(3, largest=1.0, zeros=2).tolist()
    [0.0, 0.0, 1.0]
    """
    checks.positive(largest, "largest")
    zeros = checks.count(zeros, "zeros", at_least=0)
    checks.count(dimension, "dimension", at_least=zeros + 1)
    # The rest starts at a hundredth of the largest, so that none of it is zero.
    rest = torch.rand(dimension - zeros, generator=generator(seed), dtype=torch.float64)
    return torch.cat([torch.zeros(zeros, dtype=torch.float64), _with_top(0.01 + 0.99 * rest, largest)])


def _with_ends(fractions: Tensor, lowest: float, largest: float) -> Tensor:
    """Fractions in [0, 1] stretched over [lowest, largest]. Both ends are attained. A single entry is the largest."""
    spectrum = _with_top(lowest + (largest - lowest) * fractions, largest)
    if spectrum.numel() > 1:
        spectrum[0] = lowest
    return spectrum


def _with_top(values: Tensor, largest: float) -> Tensor:
    spectrum = values.sort().values
    spectrum[-1] = largest
    return spectrum
