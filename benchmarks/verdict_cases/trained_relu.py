"""ReLU classifiers of scikit-learn's data sets, where L-BFGS or Adam left them: kinks lie right beside such points.

The Hessian that counts is that of the piece between kinks; beyond it, values count (`benchmarks.verdict_cases.kinks`).
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor, nn

from benchmarks.verdict_cases.case import DTYPES, Case
from benchmarks.verdict_cases.classifiers import Classifier
from benchmarks.verdict_cases.kinks import ROUNDING, kinked
from unsaddle import Function

POINTS = 60
"""Trained networks. Further indices take them again, with another seed."""

DECAY = 1e-3


class _Network(Classifier):
    """A classifier with ReLU, whose kinks are known."""

    def before_relu(self, x: Tensor) -> Tensor:
        """What goes into each ReLU, for each row, in one vector."""
        named, seen, h = self.named(x), list[Tensor](), self.inputs
        for k in range(0, len(self.module) - 1, 2):
            h = h @ named[f"{k}.weight"].T + named[f"{k}.bias"]
            seen.append(h.flatten())
            h = torch.relu(h)
        return torch.cat(seen)


@functools.cache
def _trained(index: int) -> tuple[_Network, Tensor]:
    network = _Network(index, nn.ReLU, DECAY)
    return network, network.trained(adam=1000) if index % 2 else network.trained(lbfgs=500)


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
