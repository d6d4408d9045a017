"""Small classifiers of scikit-learn's data sets, whose weights are one vector, and how they are trained."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import torch
from torch import Tensor, nn


@functools.cache
def _data(index: int) -> tuple[Tensor, Tensor]:
    """All rows of a data set in float64, each column of mean 0 and variance 1; and their classes."""
    from sklearn import datasets

    load = (datasets.load_breast_cancer, datasets.load_wine, datasets.load_iris)[index]
    inputs, labels = load(return_X_y=True)
    return torch.from_numpy((inputs - inputs.mean(0)) / inputs.std(0)), torch.from_numpy(labels)


class Classifier:
    """Breast cancer, wine or iris, with one to three hidden layers, and a weight decay."""

    def __init__(self, index: int, activation: type[nn.Module], decay: float, *, normalised: bool = False) -> None:
        self.inputs, self.labels = _data(index % 3)
        self._decay = decay
        hidden = ((8, 4), (16,), (6, 6, 6))[index // 3 % 3]
        sizes = (self.inputs.shape[1], *hidden, int(self.labels.max()) + 1)
        layers: list[nn.Module] = []
        with torch.random.fork_rng():
            torch.manual_seed(index)
            for a, b in itertools.pairwise(sizes):
                norm = [nn.LayerNorm(b)] if normalised and b != sizes[-1] else []
                layers += [nn.Linear(a, b), *norm, activation()]
        self.module = nn.Sequential(*layers[:-1]).double()
        self._shapes = [(name, p.shape) for name, p in self.module.named_parameters()]

    def named(self, x: Tensor) -> dict[str, Tensor]:
        """The parameters, by name, of a vector."""
        parts = x.split([shape.numel() for _, shape in self._shapes])
        return {name: part.view(shape) for (name, shape), part in zip(self._shapes, parts, strict=True)}

    def loss(self, x: Tensor) -> Tensor:
        outputs = torch.func.functional_call(self.module, self.named(x), self.inputs.to(x.dtype))
        return nn.functional.cross_entropy(outputs, self.labels) + self._decay * x.square().sum()

    def trained(self, *, adam: int = 0, lbfgs: int = 0) -> Tensor:
        """The weights after so many steps of Adam, and then of L-BFGS, in float64 on all rows."""
        x = nn.utils.parameters_to_vector(self.module.parameters()).detach().clone().requires_grad_()
        how = {"line_search_fn": "strong_wolfe", "tolerance_grad": 1e-10, "tolerance_change": 1e-14}

        def closure() -> Tensor:
            x.grad = None
            loss = self.loss(x)
            loss.backward()
            return loss

        first: Any = torch.optim.Adam([x], lr=1e-2)
        for _ in range(adam):
            first.step(closure)
        if lbfgs:
            torch.optim.LBFGS([x], max_iter=lbfgs, **how).step(closure)
        return x.detach()
