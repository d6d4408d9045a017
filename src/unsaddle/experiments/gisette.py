"""Data like gisette, made from MNIST's 4s and 9s."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

NEGATIVE, POSITIVE = 4, 9
IMAGES = 3000
"""Images of each class: n = 6000 in all, as in gisette's training set."""
LIT = 0.02
"""A pixel is used if it is nonzero in more than this share of the images."""
LEVELS = 999
"""Values are rounded to 0 … 999."""


def gisette_from(
    images: np.ndarray, digits: np.ndarray, *, num_features: int = 5000, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Features (6000 × 5000, float64, in [−1, 1]) and labels (0 for a 4, 1 for a 9).

    Half of the features are pixels and products of random pairs of pixels. The other half are probes without
    information: columns of the first half with permuted rows. Values are rounded to 0 … 999. The columns are in random
    order, each mapped to [−1, 1] as in LIBSVM's gisette_scale. This is not gisette itself: which pixels, pairs and
    images its makers took is not known.

    Args:
        images: uint8, one image a row.
        digits: their classes.
        num_features: d, even.
        seed: which images, pairs, permutations and order.
    """
    random = torch.Generator().manual_seed(seed)
    classes = torch.from_numpy(np.asarray(digits).astype(np.int64))
    chosen = []
    for digit in (NEGATIVE, POSITIVE):
        those = (classes == digit).nonzero().flatten()
        if len(those) < 2:
            raise ValueError(f"gisette is made of images of {NEGATIVE} and {POSITIVE}, got {len(those)} of {digit}")
        chosen.append(those[torch.randperm(len(those), generator=random)[:IMAGES]])
    rows = torch.cat(chosen)
    rows = rows[torch.randperm(len(rows), generator=random)]
    pixels = torch.from_numpy(np.asarray(images).reshape(len(images), -1)[rows.numpy()]).to(torch.float64) / 255.0
    informative = _pixels_and_products(pixels, num_features // 2, random)
    probes = torch.empty_like(informative)
    for column in range(informative.shape[1]):
        probes[:, column] = informative[torch.randperm(len(rows), generator=random), column]
    features = torch.cat([informative, probes], dim=1)
    del informative, probes
    features = features[:, torch.randperm(features.shape[1], generator=random)]
    features.mul_(LEVELS / features.amax(dim=0)).round_()
    low, high = features.amin(dim=0), features.amax(dim=0)
    return features.sub_(low).div_((high - low) / 2.0).sub_(1.0), (classes[rows] == POSITIVE).long()


def _pixels_and_products(pixels: Tensor, count: int, random: torch.Generator) -> Tensor:
    """`count` columns: the pixels that are lit often enough, and products of random pairs of them."""
    lit = (pixels > 0.0).to(torch.float64)
    often = lit.mean(dim=0) > LIT
    pixels, lit = pixels[:, often], lit[:, often]
    if pixels.shape[1] == 0:
        raise ValueError("no pixel is lit in more than 2 % of the images; expected images of handwritten digits")
    together = lit.T @ lit / len(lit)
    # More pairs than needed, since those that are never lit together fall out.
    first, second = torch.randint(pixels.shape[1], (2, 4 * count), generator=random)
    kept = ((together[first, second] > 0.0) & (first != second)).nonzero().flatten()[: max(0, count - pixels.shape[1])]
    columns = torch.cat([pixels, pixels[:, first[kept]] * pixels[:, second[kept]]], dim=1)
    if columns.shape[1] < count:
        raise ValueError(f"{count} informative features were wanted, the images give {columns.shape[1]}; use fewer")
    return columns[:, torch.randperm(columns.shape[1], generator=random)[:count]]
