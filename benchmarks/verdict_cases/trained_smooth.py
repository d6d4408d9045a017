"""Smooth classifiers where Adam or L-BFGS left them, half of them with a loss of nearly zero.

Without weight decay the loss ends at 1e-3 to 1e-11. There the Hessian is as small, F grows e times within a part of
‖x‖, and some terms of the gradient are below the rounding of others.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor, nn

from benchmarks.verdict_cases.case import DTYPES, Case
from benchmarks.verdict_cases.classifiers import Classifier
from unsaddle import Function

POINTS = 60
"""Trained networks. Further indices take them again, with another seed."""

ACTIVATIONS = (nn.Tanh, nn.GELU, nn.SiLU, nn.Softplus, nn.Sigmoid)

STEPS = ({"adam": 400}, {"lbfgs": 500}, {"adam": 400, "lbfgs": 500})


@functools.cache
def _trained(index: int) -> tuple[Classifier, Tensor]:
    decay = 1e-3 * (index // 30 % 2)
    network = Classifier(index, ACTIVATIONS[index % 5], decay, normalised=index // 15 % 2 == 1)
    x = network.trained(**STEPS[index // 2 % 3])
    return network, x


def trained_smooth(index: int, precision: str) -> Case:
    """Breast cancer, wine and iris; five activations, with and without layer norm and decay; Adam, L-BFGS or both."""
    network, weights = _trained(index % POINTS)
    x0 = weights.to(DTYPES[precision])
    x = x0.double()
    hessian = torch.autograd.functional.hessian(network.loss, x)  # torch.func's is off by 0.2 % with layer norm.
    hessian = (hessian + hessian.T) / 2.0
    eigenvalues = torch.linalg.eigvalsh(hessian)
    return Case(
        objective=Function(network.loss),
        x=x0,
        lowest=float(eigenvalues[0]),
        largest=float(eigenvalues.abs().max()),
        curvature=lambda v: float(v @ hessian @ v),
        gradient_norm=float(torch.func.grad(network.loss)(x).norm()),
        seed=index,
    )
