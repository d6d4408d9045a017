"""float32 networks that others wrote: is their most negative curvature found, confirmed and right?

Trains small networks of torch and transformers for a few hundred steps: transformers (GELU, ReLU), GRU, LSTM, and
convolutions (ReLU with max-pooling, GELU). `negative_curvature` and `is_minimum` then look at each with their defaults,
on one frozen batch and on the whole data set. The truth is a Lanczos run with exact Hessian products of the same
network in float64.

Wanted, in every case with −λ_min ≥ 0.01·λ_max: found, confirmed, and within 5 % of the curvature that float64 sees
along the same direction.
"""

from __future__ import annotations

import copy
import inspect
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.data import TensorDataset

from benchmarks.environment import Report, options, table
from unsaddle import Function, ModelObjective, is_minimum, negative_curvature
from unsaddle.curvature.krylov.lanczos import ritz_pairs
from unsaddle.curvature.power import second_order
from unsaddle.objective import SecondOrderFunction

CONTEXT, BATCH, WITHIN = 32, 64, 0.05


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


def convolutional(activation: type[nn.Module], pool: type[nn.Module]) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), activation(), pool(2), nn.Conv2d(16, 32, 3, padding=1), activation(), pool(2),
        nn.Flatten(), nn.Linear(128, 64), activation(), nn.Linear(64, 10),
    )  # fmt: skip


def networks() -> dict[str, Callable[[], Network]]:
    """Every network by name, made when it is wanted."""
    text, known = characters(2048)

    def images() -> tuple[Tensor, Tensor]:
        from sklearn.datasets import load_digits

        data = load_digits()
        return torch.tensor(data.images, dtype=torch.float32).unsqueeze(1) / 16.0, torch.tensor(data.target)

    return {
        "GPT-2 (transformers), GELU": lambda: Network(gpt2(known), (text,), next_character),
        "TransformerEncoder, ReLU": lambda: Network(Encoder(known, "relu"), (text,), next_character),
        "TransformerEncoder, GELU": lambda: Network(Encoder(known, "gelu"), (text,), next_character),
        "GRU": lambda: Network(Recurrent(nn.GRU, known), (text,), next_character),
        "LSTM": lambda: Network(Recurrent(nn.LSTM, known), (text,), next_character),
        "conv, ReLU, max-pooling": lambda: Network(convolutional(nn.ReLU, nn.MaxPool2d), images(), digit),
        "conv, GELU, mean pooling": lambda: Network(convolutional(nn.GELU, nn.AvgPool2d), images(), digit),
        "ViT (transformers), GELU": lambda: Network(vit(), images(), digit),
    }


def trained(network: Network, steps: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(network.model.parameters(), lr=1e-3)
    for _ in range(steps):
        chosen = torch.randint(len(network.rows[0]), (BATCH,), generator=generator)
        optimizer.zero_grad()
        network.loss(network.model, tuple(part[chosen] for part in network.rows)).backward()
        optimizer.step()


def in_double(network: Network, rows: tuple[Tensor, ...]) -> tuple[SecondOrderFunction, Tensor]:
    """The loss in float64 as a function of one vector, with exact Hessian products, and the vector."""
    model = copy.deepcopy(network.model).double()
    rows = tuple(part.double() if part.is_floating_point() else part for part in rows)
    shapes = {name: p.shape for name, p in model.named_parameters()}

    class Called(nn.Module):
        def forward(self) -> Tensor:
            return network.loss(model, rows)

    called = Called()
    called.model = model

    def loss(x: Tensor) -> Tensor:
        pieces = x.split([shape.numel() for shape in shapes.values()])
        values = {
            f"model.{name}": piece.view(shape) for (name, shape), piece in zip(shapes.items(), pieces, strict=True)
        }
        return torch.func.functional_call(called, values, ())

    x = nn.utils.parameters_to_vector(p for _, p in model.named_parameters()).detach()
    return second_order(Function(loss).sample(hessian=True)), x


def truth(f: SecondOrderFunction, x: Tensor, steps: int) -> tuple[float, float]:
    """λ_min and λ_max by exact products in float64."""
    with sdpa_kernel(SDPBackend.MATH):
        start = torch.randn(x.numel(), generator=torch.Generator().manual_seed(0), dtype=x.dtype)
        *_, (process, _) = ritz_pairs(f, x, start / start.norm(), steps)
    return float(process.projection.values[0]), float(process.projection.values[-1])


def along(f: SecondOrderFunction, x: Tensor, v: Tensor) -> float:
    """The curvature along v by an exact product in float64."""
    with sdpa_kernel(SDPBackend.MATH):
        return float(v.double() @ f.hvp(x, v.double()))


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("--steps", type=int, default=300, help="of training")
    parser.add_argument("--lanczos", type=int, default=60, help="exact products of the truth")
    parser.add_argument("--only", nargs="*", default=None, metavar="PART", help="networks with this in their name")
    parser.add_argument("--whole", action="store_true", help="also on the whole data set")
    args = parser.parse_args()
    report = Report.begin("networks", args)
    rows = []
    for name, make in networks().items():
        if args.only is not None and not any(part in name for part in args.only):
            continue
        torch.manual_seed(args.seed)
        network = make()
        trained(network, args.steps, args.seed)
        for data, size in (("one batch", BATCH), *((("all", len(network.rows[0])),) if args.whole else ())):
            part = tuple(p[:size] for p in network.rows)
            exact = in_double(network, part)
            lowest, highest = truth(*exact, args.lanczos)
            objective = ModelObjective(network.model, network.loss, TensorDataset(*part))
            found = negative_curvature(objective, seed=args.seed)
            start = time.perf_counter()
            verdict = is_minimum(objective, seed=args.seed)
            seconds = time.perf_counter() - start
            v = found.direction
            off = float("nan") if v is None else abs(found.curvature / along(*exact, v) - 1.0)
            ratio = -lowest / highest
            x = objective.point
            cells = [f"{name}, {data}", f"{x.numel()}", f"{float(x.norm()):.0f}", f"{lowest:.4g}", f"{ratio:.3f}"]
            cells += [found.status.name, f"{found.curvature:.4g}", f"{off:.1e}", f"{found.cost.gradients}"]
            rows.append([*cells, str(verdict.kind), f"{verdict.cost.gradients}"])
            settings = {"network": name, "data": data}
            measured = {"lowest": lowest, "highest": highest, "curvature": found.curvature, "off": off}
            report.row(
                settings=settings, status=found.status.name, **measured, verdict=str(verdict.kind), seconds=seconds
            )
            print(rows[-1], verdict.reason, flush=True)
            if ratio >= 0.01:
                report.want(f"{name}, {data}: found, and off by", off if found.found else 1.0, WITHIN)
    heads = [
        "",
        "d",
        "‖x‖",
        "λ_min",
        "-λ_min/λ_max",
        "status",
        "curvature",
        "off by",
        "gradients",
        "verdict",
        "gradients",
    ]
    table("float32 networks, public calls with defaults", heads, rows)
    return report.end(args.out)


if __name__ == "__main__":
    raise SystemExit(main())
