"""Where training is really stuck: models that start exactly on a saddle, and some that only look like it.

Each problem is a model at its bad start, a loss, and a stream of batches. At a *stuck* start every gradient that could
break the symmetry is exactly zero on every batch, so that no optimizer which follows gradients ever leaves.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

Batch = tuple[Tensor, ...]


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A model and the batches that it is trained on."""

    name: str
    make: Callable[[int, bool], nn.Module]
    """(seed, stuck) → the model at its stuck start, or at a random one."""
    loss: Callable[[nn.Module, Batch], Tensor]
    data: Callable[[int], Batch]
    """seed → all rows."""
    rates: dict[str, float]
    """Learning rate by optimizer."""
    verdict: str = "saddle"
    batch_size: int = 64


def batches(problem: Problem, data: Batch, seed: int) -> Iterator[Batch]:
    """Random batches without end."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        rows = torch.randint(len(data[0]), (problem.batch_size,), generator=generator)
        yield tuple(part[rows] for part in data)


RATES = {"sgd": 0.1, "momentum": 0.02, "adam": 3e-3, "adamw": 3e-3}


def generator_of(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def seeded(seed: int, make: Callable[[], nn.Module]) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()


def at_zero(model: nn.Module) -> nn.Module:
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    return model


def _clusters(seed: int, rows: int = 2000, inputs: int = 20, classes: int = 8) -> Batch:
    """Classes that are several clusters each, so that one hidden unit cannot tell them apart."""
    g = generator_of(1000 + seed)
    centres = 2.0 * torch.randn(3 * classes, inputs, generator=g)
    which = torch.randint(3 * classes, (rows,), generator=g)
    return centres[which] + 0.5 * torch.randn(rows, inputs, generator=g), which % classes


def equal_units() -> Problem:
    """An MLP whose hidden units are copies of one: they get equal gradients and stay equal, one unit in effect."""

    def make(seed: int, stuck: bool) -> nn.Module:
        model = seeded(seed, lambda: nn.Sequential(nn.Linear(20, 32), nn.Tanh(), nn.Linear(32, 8)))
        if stuck:
            with torch.no_grad():
                model[0].weight.copy_(model[0].weight[:1].expand(32, -1).clone())  # type: ignore[index]
                model[0].bias.copy_(model[0].bias[:1].expand(32).clone())  # type: ignore[index]
                model[2].weight.copy_(model[2].weight[:, :1].expand(-1, 32).clone())  # type: ignore[index]
        return model

    return Problem(
        name="equal hidden units",
        make=make,
        loss=lambda model, batch: functional.cross_entropy(model(batch[0]), batch[1]),
        data=_clusters,
        rates=RATES,
    )


class LoRA(nn.Module):
    """A frozen linear layer with a low-rank correction BA."""

    def __init__(self, inputs: int, outputs: int, rank: int) -> None:
        super().__init__()
        self.frozen = nn.Linear(inputs, outputs).requires_grad_(False)
        self.a, self.b = nn.Parameter(torch.randn(rank, inputs) / inputs**0.5), nn.Parameter(torch.zeros(outputs, rank))

    def forward(self, x: Tensor) -> Tensor:
        return self.frozen(x) + x @ self.a.T @ self.b.T


def lora() -> Problem:
    """LoRA with A = B = 0, where one of them should be random: each hides the other from its gradient."""

    def make(seed: int, stuck: bool) -> nn.Module:
        model = seeded(seed, lambda: LoRA(20, 8, 6))
        if stuck:
            nn.init.zeros_(model.a)  # type: ignore[arg-type]
        return model

    return Problem(
        name="LoRA, A = B = 0",
        make=make,
        loss=lambda model, batch: functional.cross_entropy(model(batch[0]), batch[1]),
        data=lambda seed: _linear_classes(seed),
        rates=RATES,
    )


def _linear_classes(seed: int, rows: int = 2000, inputs: int = 20, classes: int = 8) -> Batch:
    g = generator_of(2000 + seed)
    x = torch.randn(rows, inputs, generator=g)
    return x, (x @ torch.randn(inputs, classes, generator=g)).argmax(dim=1)


def _low_rank(seed: int, rows: int = 2000, inputs: int = 16) -> Batch:
    """Rows with a few strong directions."""
    g = generator_of(3000 + seed)
    scales = torch.tensor([2.0, 1.6, 1.3, 1.0] + [0.1] * (inputs - 4))
    mixing = torch.linalg.qr(torch.randn(inputs, inputs, generator=g))[0]
    return ((torch.randn(rows, inputs, generator=g) * scales) @ mixing,)


def _linear(sizes: tuple[int, ...]) -> nn.Module:
    return nn.Sequential(*(nn.Linear(i, o, bias=False) for i, o in itertools.pairwise(sizes)))


def _reconstruction(model: nn.Module, batch: Batch) -> Tensor:
    return (model(batch[0]) - batch[0]).square().sum(dim=1).mean()


def autoencoder() -> Problem:
    """A two-layer linear autoencoder at zero."""

    def make(seed: int, stuck: bool) -> nn.Module:
        model = seeded(seed, lambda: _linear((16, 4, 16)))
        return at_zero(model) if stuck else model

    return Problem(
        name="linear autoencoder at 0",
        make=make,
        loss=_reconstruction,
        data=_low_rank,
        rates={"sgd": 0.02, "momentum": 0.005, "adam": 3e-3, "adamw": 3e-3},
    )


class Factors(nn.Module):
    """A matrix of given entries as a product of two factors, or the scores of pairs."""

    def __init__(self, rows: int, columns: int, rank: int) -> None:
        super().__init__()
        self.left, self.right = nn.Embedding(rows, rank), nn.Embedding(columns, rank)
        for table in (self.left, self.right):
            nn.init.normal_(table.weight, std=0.3)

    def forward(self, i: Tensor, j: Tensor) -> Tensor:
        return (self.left(i) * self.right(j)).sum(dim=1)


def factorisation() -> Problem:
    """Matrix factorisation from observed entries, both factors zero."""

    def data(seed: int, size: int = 24, rank: int = 3, rows: int = 4000) -> Batch:
        g = generator_of(4000 + seed)
        u, v = torch.randn(size, rank, generator=g), torch.randn(size, rank, generator=g)
        i, j = torch.randint(size, (2, rows), generator=g)
        return i, j, (u[i] * v[j]).sum(dim=1)

    def make(seed: int, stuck: bool) -> nn.Module:
        model = seeded(seed, lambda: Factors(24, 24, 3))
        return at_zero(model) if stuck else model

    return Problem(
        name="matrix factorisation at 0",
        make=make,
        loss=lambda model, batch: (model(batch[0], batch[1]) - batch[2]).square().mean(),
        data=data,
        rates={"sgd": 1.0, "momentum": 0.2, "adam": 1e-2, "adamw": 1e-2},
        batch_size=256,
    )


def skip_gram() -> Problem:
    """Skip-gram with negative sampling on a text of topics, both tables zero."""

    def data(seed: int, words: int = 60, topics: int = 6, rows: int = 6000) -> Batch:
        g = generator_of(5000 + seed)
        topic = torch.randint(topics, (rows,), generator=g)
        per = words // topics
        centre = topic * per + torch.randint(per, (rows,), generator=g)
        near = topic * per + torch.randint(per, (rows,), generator=g)
        far = torch.randint(words, (rows,), generator=g)
        return centre, near, far

    def loss(model: nn.Module, batch: Batch) -> Tensor:
        centre, near, far = batch
        return functional.softplus(-model(centre, near)).mean() + functional.softplus(model(centre, far)).mean()

    def make(seed: int, stuck: bool) -> nn.Module:
        model = seeded(seed, lambda: Factors(60, 60, 8))
        return at_zero(model) if stuck else model

    return Problem(
        name="skip-gram at 0",
        make=make,
        loss=loss,
        data=data,
        rates={"sgd": 5.0, "momentum": 1.0, "adam": 1e-2, "adamw": 1e-2},
        batch_size=256,
    )


def dead_relu() -> Problem:
    """Every hidden unit is off on every sample: no gradient, no curvature."""

    def make(seed: int, stuck: bool) -> nn.Module:
        model = seeded(seed, lambda: nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 8)))
        if stuck:
            nn.init.constant_(model[0].bias, -100.0)  # type: ignore[index]
        return model

    return Problem(
        name="dead ReLUs",
        make=make,
        loss=lambda model, batch: functional.cross_entropy(model(batch[0]), batch[1]),
        data=_clusters,
        rates=RATES,
        verdict="flat",
    )


def saturated() -> Problem:
    """Hidden sigmoids far out on either side."""

    def make(seed: int, stuck: bool) -> nn.Module:
        model = seeded(seed, lambda: nn.Sequential(nn.Linear(20, 32), nn.Sigmoid(), nn.Linear(32, 8), nn.Sigmoid()))
        if stuck:
            with torch.no_grad():
                model[0].bias.fill_(60.0)  # type: ignore[index]
                model[2].bias.fill_(60.0)  # type: ignore[index]
        return model

    return Problem(
        name="saturated sigmoids",
        make=make,
        loss=lambda model, batch: (model(batch[0]) - functional.one_hot(batch[1], 8)).square().mean(),
        data=_clusters,
        rates=RATES,
        verdict="flat",
    )


def three_layers() -> Problem:
    """A three-layer linear autoencoder at zero: the Hessian is zero too, and decides nothing."""

    def make(seed: int, stuck: bool) -> nn.Module:
        model = seeded(seed, lambda: _linear((16, 4, 4, 16)))
        return at_zero(model) if stuck else model

    return Problem(
        name="three linear layers at 0",
        make=make,
        loss=_reconstruction,
        data=_low_rank,
        rates={"sgd": 0.02, "momentum": 0.005, "adam": 3e-3, "adamw": 3e-3},
        verdict="undecided",
    )


STUCK = (equal_units, lora, autoencoder, factorisation, skip_gram)
NOT_SADDLES = (dead_relu, saturated, three_layers)

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": lambda parameters, lr: torch.optim.SGD(parameters, lr=lr),
    "momentum": lambda parameters, lr: torch.optim.SGD(parameters, lr=lr, momentum=0.9),
    "adam": lambda parameters, lr: torch.optim.Adam(parameters, lr=lr),
    "adamw": lambda parameters, lr: torch.optim.AdamW(parameters, lr=lr),
}
