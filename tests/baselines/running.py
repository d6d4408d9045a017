"""Running one rival on a problem, and the truth about where it ended."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from unsaddle import FiniteSum, Stream, minimize
from unsaddle.objective import Objective, SecondOrderFunction
from unsaddle.options import Options
from unsaddle.run import Callback, Run, Solution

DOUBLE = torch.float64


def options(
    eps: float = 1e-3, gamma: float | None = None, theory: bool = False, extractor: str = "auto", **settings: Any
) -> Options:
    return Options(eps=eps, gamma=gamma, delta=0.05, extractor=extractor, theory=theory, method_settings=settings)


def new_run(
    objective: Objective, x0: Tensor, *, eps: float = 1e-3, max_samples: int | None = 10**6, seed: int = 0
) -> Run:
    return Run(objective, x0, method="the method", eps=eps, max_samples=max_samples, seed=seed)


def solve(
    method: ModuleType | str,
    objective: Objective,
    x0: Tensor,
    *,
    eps: float = 1e-3,
    gamma: float | None = None,
    theory: bool = False,
    max_samples: int | None = 10**6,
    seed: int = 0,
    callback: Callback | None = None,
    **settings: Any,
) -> Solution:
    """`minimize`, with the module of a method, or its name, in the place of the method."""
    name = method if isinstance(method, str) else method.__name__.rpartition(".")[2]
    return minimize(
        objective,
        x0,
        method=name.replace("_", "-"),
        eps=eps,
        gamma=gamma,
        settings="theory" if theory else "practical",
        max_samples=max_samples,
        seed=seed,
        callback=callback,
        **settings,
    )


def truth(objective: Objective, x: Tensor) -> tuple[float, float]:
    """‖∇F(x)‖ and λ_min(∇²F(x)), from the dense Hessian."""
    f = objective.sample(hessian=True)
    assert isinstance(f, SecondOrderFunction)
    hessian = torch.stack([f.hvp(x, e) for e in torch.eye(x.numel(), dtype=x.dtype)])
    return float(f.grad(x).norm()), float(torch.linalg.eigvalsh(0.5 * (hessian + hessian.T))[0])


def bowl_sum(n: int = 100, d: int = 3) -> FiniteSum:
    """(1/n) Σ ½‖x − z_i‖² with Σ z_i = 0: every Hessian is the identity, and the minimum is at 0."""
    z = torch.randn(n, d, generator=torch.Generator().manual_seed(3), dtype=DOUBLE)
    z -= z.mean(0)

    def value_and_grad(x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        return 0.5 * ((x - rows) ** 2).sum(1).mean(), x - rows.mean(0)

    return FiniteSum(value_and_grad, z, gradient=True, hvp=lambda x, v, rows: v.clone())


SPECTRUM = torch.tensor([-1.0, 0.3, 0.5, 1.0, 2.0], dtype=DOUBLE)


def noisy_stream(gradient_noise: float = 0.1, hessian_noise: float = 0.2, *, products: bool = True) -> Stream:
    """½Σ(s_i + w_i)x_i² + ¼Σx_i⁴ + z·x with normal z and w: a saddle at 0 on average, wells at x_1 = ±1."""

    def draw(size: int, generator: torch.Generator) -> tuple[Tensor, ...]:
        z, w = torch.randn(2, size, SPECTRUM.numel(), generator=generator, dtype=DOUBLE)
        return gradient_noise * z, hessian_noise * w

    def value_and_grad(x: Tensor, z: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        s, slope = SPECTRUM + w.mean(0), z.mean(0)
        return 0.5 * (s * x * x).sum() + 0.25 * (x**4).sum() + slope @ x, s * x + x**3 + slope

    def hvp(x: Tensor, v: Tensor, z: Tensor, w: Tensor) -> Tensor:
        return (SPECTRUM + w.mean(0) + 3.0 * x * x) * v

    return Stream(value_and_grad, draw, gradient=True, hvp=hvp if products else None)


def stream_truth(x: Tensor) -> tuple[float, float]:
    """The same of `noisy_stream`'s expectation."""
    return float((SPECTRUM * x + x**3).norm()), float((SPECTRUM + 3.0 * x * x).min())
