"""Small float32 networks of torch and transformers, with their data, and how they are trained."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

CONTEXT, BATCH = 32, 64


@dataclass(frozen=True)
class Network:
    """A network, its data, and its loss on a batch of rows."""

    model: nn.Module
    rows: tuple[Tensor, ...]
    loss: Callable[[nn.Module, Any], Tensor]


def characters(rows: int) -> tuple[Tensor, int]:
    """Windows of the source of torch.nn.Module, as numbers, and how many characters there are."""
    source = inspect.getsource(nn.modules.module)
    known = sorted(set(source))
    numbers = torch.tensor([known.index(c) for c in source])
    starts = torch.randint(len(numbers) - CONTEXT - 1, (rows,), generator=torch.Generator().manual_seed(0))
    return torch.stack([numbers[s : s + CONTEXT + 1] for s in starts]), len(known)


def next_character(model: nn.Module, batch: Any) -> Tensor:
    (text,) = batch
    logits = model(text[:, :-1])
    logits = getattr(logits, "logits", logits)
    return functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())


def digit(model: nn.Module, batch: Any) -> Tensor:
    images, labels = batch
    logits = model(images)
    return functional.cross_entropy(getattr(logits, "logits", logits), labels)


class Recurrent(nn.Module):
    """Embedding, torch's GRU or LSTM, and a linear layer."""

    def __init__(self, kind: type[nn.Module], known: int, width: int = 64) -> None:
        super().__init__()
        self.tokens, self.core, self.head = (
            nn.Embedding(known, width),
            kind(width, width, 2, batch_first=True),
            nn.Linear(width, known),
        )

    def forward(self, text: Tensor) -> Tensor:
        return self.head(self.core(self.tokens(text))[0])


class Encoder(nn.Module):
    """torch's TransformerEncoder, causal."""

    def __init__(self, known: int, activation: str, width: int = 64) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, 4, 128, dropout=0.0, activation=activation, batch_first=True)
        self.tokens, self.places = nn.Embedding(known, width), nn.Embedding(CONTEXT, width)
        self.core, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(width, known)

    def forward(self, text: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(text.shape[1], dtype=self.head.weight.dtype)
        x = self.tokens(text) + self.places.weight[: text.shape[1]]
        return self.head(self.core(x, mask=mask, is_causal=True))


def gpt2(known: int) -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = {"n_layer": 2, "n_embd": 64, "n_head": 4, "n_positions": CONTEXT, "vocab_size": known}
    return GPT2LMHeadModel(GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False, **sizes))


def vit() -> nn.Module:
    from transformers import ViTConfig, ViTForImageClassification

    sizes = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96}
    config = ViTConfig(image_size=8, patch_size=2, num_channels=1, num_labels=10, **sizes)
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
    return ViTForImageClassification(config)


def resnet() -> nn.Module:
    from transformers import ResNetConfig, ResNetForImageClassification

    sizes = {"num_channels": 1, "embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 1]}
    return ResNetForImageClassification(ResNetConfig(layer_type="basic", num_labels=10, **sizes))


def mobilenet() -> nn.Module:
    from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

    sizes = {"num_channels": 1, "depth_multiplier": 0.35, "min_depth": 8, "num_labels": 10}
    return MobileNetV2ForImageClassification(MobileNetV2Config(classifier_dropout_prob=0.0, **sizes))


def vgg() -> nn.Module:
    """VGG's pattern: convolution, batch norm, ReLU, max-pooling, three times."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise((1, 16, 32, 32)):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(32 * 9, 10))


def convolutional(activation: type[nn.Module], pool: type[nn.Module], side: int = 8) -> nn.Module:
    """Two convolutions and two linear layers, for square images."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), activation(), pool(2), nn.Conv2d(16, 32, 3, padding=1), activation(), pool(2),
        nn.Flatten(), nn.Linear(32 * (side // 4) ** 2, 64), activation(), nn.Linear(64, 10),
    )  # fmt: skip


def perceptron(*widths: int) -> nn.Module:
    """Linear layers of these widths with ReLU between them, for images."""
    layers = [nn.Flatten(), nn.Linear(*widths[:2])]
    for pair in pairwise(widths[1:]):
        layers += [nn.ReLU(), nn.Linear(*pair)]
    return nn.Sequential(*layers)


def networks() -> dict[str, Callable[[], Network]]:
    """Every network by name, made when it is wanted."""
    text, known = characters(2048)

    def images(side: int = 8) -> tuple[Tensor, Tensor]:
        """scikit-learn's digits, 8 by 8, or drawn larger."""
        from sklearn.datasets import load_digits

        data = load_digits()
        small = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1) / 16.0
        drawn = small if side == 8 else functional.interpolate(small, size=(side, side), mode="bilinear")
        return drawn, torch.tensor(data.target)

    def convolution(activation: type[nn.Module], pool: type[nn.Module], side: int) -> Network:
        return Network(convolutional(activation, pool, side), images(side), digit)

    return {
        "GPT-2 (transformers), GELU": lambda: Network(gpt2(known), (text,), next_character),
        "TransformerEncoder, ReLU": lambda: Network(Encoder(known, "relu"), (text,), next_character),
        "TransformerEncoder, GELU": lambda: Network(Encoder(known, "gelu"), (text,), next_character),
        "GRU": lambda: Network(Recurrent(nn.GRU, known), (text,), next_character),
        "LSTM": lambda: Network(Recurrent(nn.LSTM, known), (text,), next_character),
        "conv, ReLU, max-pooling": lambda: convolution(nn.ReLU, nn.MaxPool2d, 8),
        "conv, GELU, mean pooling": lambda: convolution(nn.GELU, nn.AvgPool2d, 8),
        "conv 28x28, ReLU, max-pooling": lambda: convolution(nn.ReLU, nn.MaxPool2d, 28),
        "conv 28x28, GELU, mean pooling": lambda: convolution(nn.GELU, nn.AvgPool2d, 28),
        "MLP, ReLU": lambda: Network(perceptron(64, 64, 32, 10), images(), digit),
        "ViT (transformers), GELU": lambda: Network(vit(), images(), digit),
        "ResNet (transformers), batch norm": lambda: Network(resnet(), images(28), digit),
        "MobileNetV2 (transformers), batch norm": lambda: Network(mobilenet(), images(28), digit),
        "VGG, batch norm": lambda: Network(vgg(), images(28), digit),
    }


def trained(network: Network, steps: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(network.model.parameters(), lr=1e-3)
    for _ in range(steps):
        chosen = torch.randint(len(network.rows[0]), (BATCH,), generator=generator)
        optimizer.zero_grad()
        network.loss(network.model, tuple(part[chosen] for part in network.rows)).backward()
        optimizer.step()
