"""Data like the paper's gisette, made from the digits of scikit-learn."""

from __future__ import annotations

import torch
from torch import Tensor

from unsaddle import checks
from unsaddle.problems.arguments import float_type, generator

LIT = 0.02
"""Pixels and products that are nonzero in a smaller share of the images are left out: they say almost nothing."""


def embedded_digits(
    *, num_features: int = 5000, seed: int = 0, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor]:
    """Features (1797 × 5000, dense) and labels (0 for even, 1 for odd digits) for `sigmoid_least_squares`.

    gisette, the data of the paper's simulation, was made from handwritten 4s and 9s. This does the same to the 8 × 8
    images of all ten digits in scikit-learn, so nothing is downloaded. Half of the features are pixels and products of
    random pairs of pixels. The other half are probes without information: columns of the first half, with permuted
    rows. All columns are in random order, each mapped to [−1, 1].

    At x ~ N(0, I) and λ = 3 the lowest eigenvalue of the Hessian is −3.4, −3.8 and −10.3 for x from the seeds 0, 1 and
    2. The regulariser alone would give −0.5.

    `num_features` is even and at least 120. `seed` draws the pairs, the permutations and the order.

    >>> features, labels = embedded_digits(num_features=200)
    >>> tuple(features.shape), float(features.min()), float(features.max()), labels.unique().tolist()
    ((1797, 200), -1.0, 1.0, [0, 1])
    """
    dtype = float_type(dtype)
    if checks.count(num_features, "num_features", at_least=120) % 2:
        raise ValueError(f"num_features must be even, half of them being probes, got {num_features}")
    images, digits = _digits()
    random, half = generator(seed), num_features // 2
    pixels = images[:, (images > 0.0).double().mean(dim=0) > LIT]
    lit = (pixels > 0.0).double()
    together = lit.T @ lit / len(images)
    # Many more pairs than needed, since pairs that are seldom lit together are dropped.
    first, second = torch.randint(pixels.shape[1], (2, 8 * half), generator=random)
    kept = (together[first, second] > LIT).nonzero().flatten()[: half - pixels.shape[1]]
    informative = torch.cat([pixels, pixels[:, first[kept]] * pixels[:, second[kept]]], dim=1)
    order = torch.stack([torch.randperm(len(images), generator=random) for _ in range(half)], dim=1)
    columns = torch.randperm(num_features, generator=random)
    features = torch.cat([informative, informative.gather(0, order)], dim=1)[:, columns]
    low, high = features.amin(dim=0), features.amax(dim=0)
    return features.sub_(low).div_((high - low) / 2.0).sub_(1.0).to(dtype), digits % 2


def _digits() -> tuple[Tensor, Tensor]:
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ImportError("embedded_digits needs scikit-learn for its images: pip install unsaddle[demo]") from error
    images, digits = load_digits(return_X_y=True)
    return torch.from_numpy(images).double(), torch.from_numpy(digits)
