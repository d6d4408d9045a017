"""A character transformer trained on a text of yours: what `benchmarks.networks` measures, on it.

    python -m benchmarks.transformer --text FILE [--peer]

Trains for a few hundred steps, with the default attention kernel of torch. `negative_curvature` and `is_minimum` then
look at one frozen batch by default, beside exact products in float64 and, with `--peer`, beside hessian-eigenthings.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.environment import ROOT, Report
from benchmarks.networks import arguments, look, note, tables
from benchmarks.trained_networks import Network, trained

CONTEXT, WIDTH, HEADS, LAYERS, BATCH = 64, 96, 4, 3, 32
CHARACTERS, WINDOWS = 200_000, 2048
"""Of the text: how many are read, and how many windows the rows are."""


class Block(nn.Module):
    """Attention and a feed-forward layer."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        heads = self.qkv(self.norm1(x)).view(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class CharacterModel(nn.Module):
    """A causal transformer over characters."""

    def __init__(self, characters: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(characters, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, characters)

    def forward(self, text: Tensor) -> Tensor:
        x = self.tokens(text) + self.places.weight[: text.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


Batch = tuple[Tensor, Tensor]


def loss(model: nn.Module, batch: Batch) -> Tensor:
    logits = model(batch[0])
    return functional.cross_entropy(logits.flatten(0, 1), batch[1].flatten())


def batches(text: Tensor, generator: torch.Generator, size: int = BATCH) -> Batch:
    starts = torch.randint(len(text) - CONTEXT - 1, (size,), generator=generator)
    windows = torch.stack([text[s : s + CONTEXT + 1] for s in starts])
    return windows[:, :-1], windows[:, 1:]


def characters(text: Path) -> tuple[Tensor, int]:
    """The first characters of a file as numbers, and how many different ones the file has."""
    raw = text.read_text()
    known = sorted(set(raw))
    return torch.tensor([known.index(c) for c in raw[:CHARACTERS]]), len(known)


def main(given: Sequence[str] | None = None) -> int:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--text", type=Path, default=ROOT.parent / "shared" / "data" / "tinyshakespeare.txt")
    chosen = parser.parse_args(given)
    report = Report.begin("transformer", chosen)
    text, known = characters(chosen.text)
    rows = [batches(text, torch.Generator().manual_seed(chosen.seed + i)) for i in range(WINDOWS // BATCH)]
    torch.manual_seed(chosen.seed)
    network = Network(CharacterModel(known), tuple(map(torch.cat, zip(*rows, strict=True))), loss)
    trained(network, chosen.steps, chosen.seed)
    seen = look(network, "character transformer", "one batch", BATCH, chosen)
    note(report, seen)
    tables([seen])
    return report.end(chosen.out)


if __name__ == "__main__":
    raise SystemExit(main())
