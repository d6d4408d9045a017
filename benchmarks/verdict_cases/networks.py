"""Small networks of `torch.nn`, at stationary points that Newton's method found in float64."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks.verdict_cases.case import DTYPES, Case, normal, randomness
from benchmarks.verdict_cases.stationary import Array, dense_case, derivatives, descended, is_saddle, newton
from unsaddle import Function


def _module(index: int, g: torch.Generator) -> tuple[torch.nn.Module, Tensor]:
    """A network of torch's own layers in float64, and its inputs."""
    with torch.random.fork_rng():
        torch.manual_seed(index)
        smooth = (torch.nn.Tanh, torch.nn.GELU, torch.nn.Softplus, torch.nn.SiLU)[index // 8 % 4]
        if index // 2 % 4 == 0:
            net: torch.nn.Module = torch.nn.Sequential(
                torch.nn.Linear(3, 4), smooth(), torch.nn.Linear(4, 4), smooth(), torch.nn.Linear(4, 1)
            )
            return net.double(), normal(g, 20, 3)
        if index // 2 % 4 == 1:
            net = torch.nn.Sequential(torch.nn.Linear(3, 6), smooth(), torch.nn.Linear(6, 1))
            return net.double(), normal(g, 20, 3)
        if index // 2 % 4 == 2:
            net = torch.nn.Sequential(torch.nn.Conv1d(2, 3, 3), smooth(), torch.nn.Flatten(), torch.nn.Linear(9, 1))
            return net.double(), normal(g, 20, 2, 5)
        net = torch.nn.Sequential(torch.nn.Bilinear(2, 3, 4), smooth(), torch.nn.Linear(4, 1))
        return _Pair(net).double(), normal(g, 20, 5)


class _Pair(torch.nn.Module):
    """`Bilinear` takes two inputs."""

    def __init__(self, net: torch.nn.Sequential) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        first, *rest = self.net
        out = first(x[:, :2], x[:, 2:])
        for layer in rest:
            out = layer(out)
        return out


@functools.cache
def _network_point(index: int) -> tuple[Callable[[Tensor], Tensor], Array]:
    """Mean squared error or logistic loss with a weight decay, and a stationary point."""
    for attempt in range(100):
        g = randomness("network", 1000 * index + attempt)
        net, inputs = _module(index, g)
        labels = normal(g, 20)
        names = [(name, p.shape) for name, p in net.named_parameters()]
        start = torch.cat([p.detach().flatten() for p in net.parameters()])
        loss_of = (
            torch.nn.functional.mse_loss if index // 4 % 2 else torch.nn.functional.binary_cross_entropy_with_logits
        )
        if not index // 4 % 2:
            labels = (labels > 0.0).double()

        def loss(
            x: Tensor,
            net: Any = net,
            inputs: Tensor = inputs,
            labels: Tensor = labels,
            names: Any = names,
            of: Any = loss_of,
        ) -> Tensor:
            parts = x.split([shape.numel() for _, shape in names])
            parameters = {name: part.view(shape) for (name, shape), part in zip(names, parts, strict=True)}
            outputs = torch.func.functional_call(net, parameters, inputs.to(x.dtype))[:, 0]
            return of(outputs, labels.to(x.dtype)) + 0.01 * x.square().sum()

        fun, gradient, hessian = derivatives(loss)
        x0 = start.numpy()
        x = newton(gradient, hessian, x0, uphill=True) if index % 2 else descended(fun, gradient, hessian, 3.0 * x0)
        if x is None:
            continue
        if is_saddle(hessian(x), 1e-3) == bool(index % 2):
            return loss, x
    raise RuntimeError(f"no stationary point found for network {index}")


def network(index: int, precision: str, seed: int) -> Case:
    loss, x = _network_point(index)
    point = torch.from_numpy(x).to(DTYPES[precision])
    hessian = torch.func.hessian(loss)(point.double()).detach().numpy()
    norm = float(torch.func.grad(loss)(point.double()).norm())
    return dense_case(Function(loss), point, hessian, norm, seed)
