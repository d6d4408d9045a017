"""Points on the floor of a valley: the gradient is small beside the stiff walls, and the lowest point may be far away.

A minimum is false where that point is farther away than a fifth of max(1, ‖x‖), or than a fiftieth if F falls to there
by a fiftieth of |F(x)|. "Not stationary" is false where it is nearer than a twentieth, or than a hundredth if F falls
by a hundredth. In between either is right.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from benchmarks.verdict_cases.case import DTYPES, Case, dimension, integer, normal, randomness, uniform
from benchmarks.verdict_cases.classifiers import Classifier
from unsaddle import Function, Verdict

FAR, FAR_DOWN = 0.2, 0.02
"""From these distances on a minimum is false, and the second if F falls by that share, too."""

NEAR, NEAR_DOWN = 0.05, 0.01
"""Below these distances "not stationary" is false; where F falls by the second share, only below the second."""

Loss = Callable[[Tensor], Tensor]

STEPS = (50, 200, 1000)
"""Of Adam. Without weight decay a classifier's loss then goes on falling, to zero."""


def valleys(index: int, precision: str) -> Case:
    """Quadratics with soft directions and a quartic; Rosenbrock's chain; classifiers in the middle of training."""
    g = randomness("valleys", index)
    fun, x, rest = (_quadratic, _rosenbrock, _classifier)[index % 3](g, index)
    x0 = x.to(DTYPES[precision])
    x = x0.double()
    hessian = torch.autograd.functional.hessian(fun, x)
    hessian = (hessian + hessian.T) / 2.0
    eigenvalues = torch.linalg.eigvalsh(hessian)
    distance = math.inf if rest is None else float((x - rest).norm()) / max(1.0, float(x.norm()))
    here = float(fun(x))
    fall = 1.0 if rest is None or here == 0.0 else 1.0 - float(fun(rest)) / here

    def judge(verdict: Verdict) -> str:
        if verdict.kind == "minimum":
            far = distance > FAR or min(distance, fall) > FAR_DOWN
            return "false minimum" if far or eigenvalues[0] < -verdict.gamma else "right"
        if verdict.kind == "not stationary":
            return "right" if distance >= NEAR or min(distance, fall) >= NEAR_DOWN else "false not stationary"
        assert verdict.direction is not None
        v = verdict.direction.double()
        return "right" if float(v @ hessian @ v) < 0.0 else "false saddle"

    return Case(
        objective=Function(fun),
        x=x0,
        lowest=float(eigenvalues[0]),
        largest=float(eigenvalues.abs().max()),
        curvature=lambda v: float(v @ hessian @ v),
        gradient_norm=float(torch.func.grad(fun)(x).norm()),
        seed=index,
        judge=judge,
    )


def _quadratic(g: torch.Generator, index: int) -> tuple[Loss, Tensor, Tensor]:
    """One to three directions that are 2e-3 to 1e-5 as stiff as the others, along which x is off."""
    d = dimension(g, 3, 200)
    soft = integer(g, 1, min(3, d - 1))
    sizes = torch.logspace(0.0, -1.5, d, dtype=torch.float64)
    sizes[-soft:] = torch.tensor([10.0 ** uniform(g, -5.0, -2.7) for _ in range(soft)], dtype=torch.float64)
    sizes *= 10.0 ** uniform(g, -3.0, 3.0)
    basis = torch.linalg.qr(normal(g, d, d)).Q
    center = normal(g, d) * 10.0 ** uniform(g, -2.0, 1.0) / math.sqrt(d)
    off = torch.zeros(d, dtype=torch.float64)
    off[-soft:] = normal(g, soft)
    off *= max(1.0, float(center.norm())) * 10.0 ** uniform(g, -3.0, 0.0) / off.norm()
    quartic = float(sizes[-soft:].min()) * 10.0 ** uniform(g, -3.0, 0.0)

    def fun(x: Tensor) -> Tensor:
        z = (x - center.to(x.dtype)) @ basis.to(x.dtype)
        return (sizes.to(x.dtype) * z**2).sum() / 2.0 + quartic * (z**4).sum()

    return fun, center + basis @ off, center


def _rosenbrock(g: torch.Generator, index: int) -> tuple[Loss, Tensor, Tensor]:
    """The chain in 2 to 20 dimensions, on the curve x[k+1] = x[k]² from the lowest point on."""
    d = integer(g, 2, 20)

    def fun(x: Tensor) -> Tensor:
        return (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2).sum()

    first = 1.0 - 10.0 ** uniform(g, -4.0, -0.1) / 2 ** (d - 1)
    powers = 2.0 ** torch.arange(d, dtype=torch.float64)
    return fun, first**powers, torch.ones(d, dtype=torch.float64)


def _classifier(g: torch.Generator, index: int) -> tuple[Loss, Tensor, None]:
    network = Classifier(index, (nn.Tanh, nn.GELU, nn.SiLU)[integer(g, 0, 2)], 0.0)
    return network.loss, network.trained(adam=STEPS[integer(g, 0, 2)]), None
