"""Classifiers with all weights zero: a saddle that gradients do not leave, for several activations and batch sizes.

With one hidden layer at zero each layer hides the other from its gradient, and only the last bias moves. The data are
small images of eight classes, three patterns a class, with noise.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from benchmarks.stuck_problems import RATES, Batch, Problem, at_zero, generator_of, seeded

SIDE, CLASSES, PATTERNS, NOISE = 8, 8, 3, 1.5
BATCH_SIZES = (8, 16, 64, 256)
ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {"Tanh": nn.Tanh, "ReLU": nn.ReLU, "GELU": nn.GELU}


def images(seed: int, rows: int = 2000) -> Batch:
    """Images of one channel, and their classes."""
    g = generator_of(6000 + seed)
    patterns = torch.randn(PATTERNS * CLASSES, 1, SIDE, SIDE, generator=g)
    which = torch.randint(PATTERNS * CLASSES, (rows,), generator=g)
    return patterns[which] + NOISE * torch.randn(rows, 1, SIDE, SIDE, generator=g), which % CLASSES


def perceptron(activation: str) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(SIDE * SIDE, 128), ACTIVATIONS[activation](), nn.Linear(128, CLASSES))


def conv_net(activation: str) -> nn.Module:
    layers = nn.Conv2d(1, 16, 3, padding=1), ACTIVATIONS[activation](), nn.AvgPool2d(2), nn.Flatten()
    return nn.Sequential(*layers, nn.Linear(16 * (SIDE // 2) ** 2, CLASSES))


MODELS = {"MLP": perceptron, "conv net": conv_net}


def classifier(model: str, activation: str, batch_size: int) -> Problem:
    """The classifier with all weights zero, trained on batches of this size."""

    def make(seed: int, stuck: bool) -> nn.Module:
        made = seeded(seed, lambda: MODELS[model](activation))
        return at_zero(made) if stuck else made

    return Problem(
        name=f"{model}, {activation}, batch {batch_size}",
        make=make,
        loss=lambda model, batch: functional.cross_entropy(model(batch[0]), batch[1]),
        data=images,
        rates=RATES,
        batch_size=batch_size,
    )
