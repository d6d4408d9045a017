"""ReLU classifiers of scikit-learn's data sets, where L-BFGS or Adam left them: kinks lie right beside such points.

The Hessian that counts is that of the piece between kinks; beyond it, values count (`benchmarks.verdict_cases.kinks`).
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.verdict_cases.case import DTYPES, Case
from benchmarks.verdict_cases.kinks import ROUNDING, kinked
from unsaddle import Function

POINTS = 60
"""Trained networks. Further indices take them again, with another seed."""

DECAY = 1e-3


@functools.cache
def _data(index: int) -> tuple[Tensor, Tensor]:
    """All rows of a data set in float64, each column of mean 0 and variance 1; and their classes."""
    from sklearn import datasets

    load = (datasets.load_breast_cancer, datasets.load_wine, datasets.load_iris)[index % 3]
    inputs, labels = load(return_X_y=True)
    return torch.from_numpy((inputs - inputs.mean(0)) / inputs.std(0)), torch.from_numpy(labels)


class _Network:
    """A classifier whose weights are one vector."""

    def __init__(self, index: int) -> None:
        self.inputs, self.labels = _data(index)
        hidden = ((8, 4), (16,), (6, 6, 6))[index // 3 % 3]
        sizes = (self.inputs.shape[1], *hidden, int(self.labels.max()) + 1)
        layers: list[nn.Module] = []
        for a, b in itertools.pairwise(sizes):
            layers += [nn.Linear(a, b), nn.ReLU()]
        self.module = nn.Sequential(*layers[:-1]).double()
        self._shapes = [(name, p.shape) for name, p in self.module.named_parameters()]

    def _named(self, x: Tensor) -> dict[str, Tensor]:
        parts = x.split([shape.numel() for _, shape in self._shapes])
        return {name: part.view(shape) for (name, shape), part in zip(self._shapes, parts, strict=True)}

    def loss(self, x: Tensor) -> Tensor:
        outputs = torch.func.functional_call(self.module, self._named(x), self.inputs.to(x.dtype))
        return nn.functional.cross_entropy(outputs, self.labels) + DECAY * x.square().sum()

    def before_relu(self, x: Tensor) -> Tensor:
        """What goes into each ReLU, for each row, in one vector."""
        named, seen, h = self._named(x), list[Tensor](), self.inputs
        for k in range(0, len(self.module) - 1, 2):
            h = h @ named[f"{k}.weight"].T + named[f"{k}.bias"]
            seen.append(h.flatten())
            h = torch.relu(h)
        return torch.cat(seen)


@functools.cache
def _trained(index: int) -> tuple[_Network, Tensor]:
    with torch.random.fork_rng():
        torch.manual_seed(index)
        network = _Network(index)
    x = nn.utils.parameters_to_vector(network.module.parameters()).detach().clone().requires_grad_()
    optimizer: Any
    if index % 2:
        optimizer, rounds = torch.optim.Adam([x], lr=1e-2), 1000
    else:
        how = {"line_search_fn": "strong_wolfe", "tolerance_grad": 1e-10, "tolerance_change": 1e-14}
        optimizer, rounds = torch.optim.LBFGS([x], max_iter=500, **how), 1

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = network.loss(x)
        loss.backward()
        return loss

    for _ in range(rounds):
        optimizer.step(closure)
    return network, x.detach()


def trained_relu(index: int, precision: str) -> Case:
    """Breast cancer, wine and iris; one to three hidden layers; L-BFGS or Adam, in float64 on all rows."""
    network, weights = _trained(index % POINTS)
    x0 = weights.to(DTYPES[precision])
    x = x0.double()
    hessian = torch.func.hessian(network.loss)(x)
    here, inputs = float(network.loss(x)), network.before_relu(x)
    slopes = torch.func.jacrev(network.before_relu, chunk_size=500)(x)
    gradient = torch.func.grad(network.loss)(x)
    return kinked(
        Function(network.loss),
        x0,
        precision,
        (hessian + hessian.T) / 2.0,
        float((inputs.abs() / slopes.norm(dim=1)).min()),
        lambda v: float((inputs / (slopes @ v)).abs().min()),
        lambda z: float(network.loss(x + z)) - here,
        ROUNDING * abs(here),
        lambda z: torch.func.grad(network.loss)(x + z),
        -gradient,
        seed=index,
    )
