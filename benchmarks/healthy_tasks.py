"""Small models that train well: a character transformer of torch's own layers, and a conv net on MNIST."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

Batch = tuple[Tensor, Tensor]
CONTEXT, WIDTH = 8, 32


@dataclass(frozen=True, kw_only=True)
class Task:
    """A model to train."""

    name: str
    make: Callable[[], nn.Module]
    loss: Callable[[nn.Module, Batch], Tensor]
    batches: Callable[[int, int], Iterator[Batch]]
    """(seed, rows) → batches without end."""
    held_out: list[Batch]


class CharacterModel(nn.Module):
    """One causal `nn.TransformerEncoderLayer` with dropout over characters."""

    def __init__(self, characters: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(characters, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.layer = nn.TransformerEncoderLayer(WIDTH, 2, 2 * WIDTH, batch_first=True, norm_first=True, dropout=0.1)
        self.head = nn.Linear(WIDTH, characters)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(CONTEXT))

    def forward(self, text: Tensor) -> Tensor:
        return self.head(self.layer(self.tokens(text) + self.places.weight, src_mask=self.mask, is_causal=True))


def text_task(path: Path) -> Task:
    raw = path.read_text()[:200_000]
    alphabet = sorted(set(raw))
    text = torch.tensor([alphabet.index(c) for c in raw])
    training, rest = text[:180_000], text[180_000:]

    def windows(part: Tensor, generator: torch.Generator, rows: int) -> Batch:
        starts = torch.randint(len(part) - CONTEXT - 1, (rows, 1), generator=generator)
        characters = part[starts + torch.arange(CONTEXT + 1)]
        return characters[:, :-1], characters[:, 1:]

    def endless(seed: int, rows: int) -> Iterator[Batch]:
        generator = torch.Generator().manual_seed(seed)
        while True:
            yield windows(training, generator, rows)

    return Task(
        name="transformer",
        make=lambda: CharacterModel(len(alphabet)),
        loss=lambda model, batch: functional.cross_entropy(model(batch[0]).flatten(0, 1), batch[1].flatten()),
        batches=endless,
        held_out=[windows(rest, torch.Generator().manual_seed(0), 2000)],
    )


def conv_net() -> nn.Module:
    """Two convolutions with batch normalisation, dropout, and a linear layer, for images of 14 × 14."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, stride=2, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(16 * 49, 10),
    )


def mnist_task(path: Path) -> Task:
    with np.load(path) as file:
        x, y = _images(file["x_train"], file["y_train"])
        held_out = _images(file["x_test"], file["y_test"])

    def endless(seed: int, rows: int) -> Iterator[Batch]:
        generator = torch.Generator().manual_seed(seed)
        while True:
            chosen = torch.randint(len(x), (rows,), generator=generator)
            yield x[chosen], y[chosen]

    return Task(
        name="conv net",
        make=conv_net,
        loss=lambda model, batch: functional.cross_entropy(model(batch[0]), batch[1]),
        batches=endless,
        held_out=[(held_out[0][:4000], held_out[1][:4000])],
    )


def _images(x: np.ndarray, y: np.ndarray) -> tuple[Tensor, Tensor]:
    images = torch.from_numpy(x).float().div_(255.0).unsqueeze(1)
    return functional.avg_pool2d(images, 2), torch.from_numpy(y.astype(np.int64))
