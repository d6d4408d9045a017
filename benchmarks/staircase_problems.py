"""Trainings in which one saddle follows another: from a small start, the loss falls in steps, and waits on each.

Each problem is a model at a small start, a loss, a stream of batches, a fixed set to judge by, and the losses half-way
between two stairs. The stairs of the linear models are known in closed form.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.stuck_problems import Batch, generator_of, seeded


@dataclass(frozen=True, kw_only=True)
class Staircase:
    """A model, its batches, and the losses that count as levels."""

    name: str
    make: Callable[[int], nn.Module]
    """seed → the model at its small start."""
    loss: Callable[[nn.Module, Batch], Tensor]
    batches: Callable[[int], Iterator[Batch]]
    """seed → batches without end."""
    judged: Callable[[int], Batch]
    """seed → the rows that levels are measured on."""
    levels: tuple[float, ...]
    """Losses, falling: a level is reached when the loss is below."""
    rates: dict[str, float]
    steps: int


def between(stairs: list[float]) -> tuple[float, ...]:
    """The geometric means of neighbours."""
    return tuple(math.sqrt(a * b) for a, b in itertools.pairwise(stairs))


def small(model: nn.Module, scale: float) -> nn.Module:
    """All weights normal, of this size."""
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=scale)
    return model


SINGULAR = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003)


class Product(nn.Module):
    """The product of two square factors."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.left, self.right = nn.Parameter(torch.zeros(size, size)), nn.Parameter(torch.zeros(size, size))

    def forward(self) -> Tensor:
        return self.left @ self.right.T


def factorisation(size: int = 30) -> Staircase:
    """½‖UVᵀ − M‖², without batches. Along the k-th singular value, curvature on the stair before it is −σ_k."""

    def target(seed: int) -> Batch:
        g = generator_of(7000 + seed)
        u, v = (torch.linalg.qr(torch.randn(size, size, generator=g))[0][:, : len(SINGULAR)] for _ in range(2))
        return ((u * torch.tensor(SINGULAR)) @ v.T,)

    squares = [s * s / 2.0 for s in SINGULAR]
    left = [sum(squares[k:]) for k in range(len(squares))]
    return Staircase(
        name="matrix factorisation",
        make=lambda seed: seeded(seed, lambda: small(Product(size), 1e-6)),
        loss=lambda model, batch: (model() - batch[0]).square().sum() / 2.0,
        batches=lambda seed: itertools.repeat(target(seed)),
        judged=target,
        levels=(*between(left), left[-1] / 10.0),
        rates={"sgd": 0.1, "adamw": 1e-2},
        steps=6000,
    )


DEVIATIONS = (2.0, 1.4, 1.0, 0.7)


def autoencoder(size: int = 16, rest: float = 0.1) -> Staircase:
    """Three linear layers of 16, 4 and 16 on rows with four large directions."""

    def rows(generator: torch.Generator, count: int) -> Batch:
        scales = torch.tensor([*DEVIATIONS, *(rest for _ in range(size - len(DEVIATIONS)))])
        return (torch.randn(count, size, generator=generator) * scales,)

    def batches(seed: int) -> Iterator[Batch]:
        g = generator_of(8000 + seed)
        while True:
            yield rows(g, 64)

    variances = [d * d for d in DEVIATIONS] + [rest * rest] * (size - len(DEVIATIONS))
    left = [sum(variances[k:]) for k in range(len(DEVIATIONS) + 1)]
    return Staircase(
        name="deep linear autoencoder",
        make=lambda seed: seeded(
            seed,
            lambda: small(
                nn.Sequential(
                    nn.Linear(size, 4, bias=False), nn.Linear(4, 4, bias=False), nn.Linear(4, size, bias=False)
                ),
                0.05,
            ),
        ),
        loss=lambda model, batch: (model(batch[0]) - batch[0]).square().sum(dim=1).mean(),
        batches=batches,
        judged=lambda seed: rows(generator_of(8500 + seed), 1024),
        levels=between(left),
        rates={"sgd": 1e-3, "adamw": 1e-3},
        steps=1500,
    )


class LinearAttention(nn.Module):
    """Heads of rank one without softmax: Σ_h v_h (k_hᵀβ)(q_hᵀx), with β = (1/N)Σ_i y_i x_i of the context."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.zeros(heads))
        self.key, self.query = nn.Parameter(torch.zeros(heads, size)), nn.Parameter(torch.zeros(heads, size))

    def forward(self, context: Tensor, answers: Tensor, x: Tensor) -> Tensor:
        beta = (answers.unsqueeze(-1) * context).mean(dim=1)
        return ((beta @ self.key.T) * (x @ self.query.T)) @ self.value


EIGENVALUES = (1.0, 0.5, 0.25, 0.12)
CONTEXT = 31


def linear_attention() -> Staircase:
    """In-context regression y = wᵀx with x ~ N(0, Λ): one head after the other learns one eigenvector of Λ."""
    size = len(EIGENVALUES)

    def rows(g: torch.Generator, count: int) -> Batch:
        x = torch.randn(count, CONTEXT + 1, size, generator=g) * torch.tensor(EIGENVALUES).sqrt()
        y = (x @ torch.randn(count, size, 1, generator=g)).squeeze(-1)
        return x[:, :-1], y[:, :-1], x[:, -1], y[:, -1]

    def batches(seed: int) -> Iterator[Batch]:
        g = generator_of(9000 + seed)
        while True:
            yield rows(g, 64)

    trace = sum(EIGENVALUES)
    learned = [e / (1.0 + (1.0 + trace / e) / CONTEXT) for e in EIGENVALUES]
    left = [trace - sum(learned[:k]) for k in range(size + 1)]
    return Staircase(
        name="linear attention",
        make=lambda seed: seeded(seed, lambda: small(LinearAttention(size, 8), 0.05)),
        loss=lambda model, batch: (model(*batch[:3]) - batch[3]).square().mean(),
        batches=batches,
        judged=lambda seed: rows(generator_of(9500 + seed), 2048),
        levels=between(left),
        rates={"sgd": 1e-2, "adamw": 1e-3},
        steps=1500,
    )


def modular_addition(modulus: int = 11, hidden: int = 64) -> Staircase:
    """(a + b) mod p from two one-hot vectors by a small ReLU network, all pairs in every batch."""

    def pairs(seed: int) -> Batch:
        a, b = (n.flatten() for n in torch.meshgrid(torch.arange(modulus), torch.arange(modulus), indexing="ij"))
        x = torch.cat([functional.one_hot(a, modulus), functional.one_hot(b, modulus)], dim=1).float()
        return x, (a + b) % modulus

    chance = math.log(modulus)
    return Staircase(
        name="modular addition",
        make=lambda seed: seeded(
            seed,
            lambda: small(nn.Sequential(nn.Linear(2 * modulus, hidden), nn.ReLU(), nn.Linear(hidden, modulus)), 0.01),
        ),
        loss=lambda model, batch: functional.cross_entropy(model(batch[0]), batch[1]),
        batches=lambda seed: itertools.repeat(pairs(seed)),
        judged=pairs,
        levels=(0.95 * chance, 0.5 * chance, 0.1 * chance),
        rates={"sgd": 0.1, "adamw": 1e-3},
        steps=1500,
    )


STAIRCASES = (factorisation, autoencoder, linear_attention, modular_addition)
