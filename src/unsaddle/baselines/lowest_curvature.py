"""The lowest curvature by Hessian products, and how far samples agree about it."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.baselines.samples import batch
from unsaddle.curvature.krylov.lanczos import LanczosSettings, lanczos
from unsaddle.curvature.power import second_order
from unsaddle.curvature.result import Status
from unsaddle.measure.batches import mean_curvature
from unsaddle.objective import SampledFunction
from unsaddle.run import Ending, Run, RunEnded
from unsaddle.theory import extraction

CHUNKS = 8
"""Fresh batches by which a curvature is measured again."""


class Lowest(NamedTuple):
    """The lowest curvature that Lanczos sees, and along what."""

    curvature: float
    direction: Tensor


def lowest_curvature(
    f: SampledFunction, x: Tensor, *, smoothness: float, accuracy: float, delta: float, generator: torch.Generator
) -> Lowest:
    """vᵀ∇²f(x)v ≤ λ_min + accuracy with probability 1 − δ, by Lanczos with Hessian products (Kuczyński–Woźniakowski).

    An L1 that proves too small by half is doubled, and the products are taken again.
    """
    last: list[Tensor] = []
    while True:
        steps = extraction.lanczos_num_steps(
            smoothness=smoothness, accuracy=accuracy, dimension=vectors.dimension(x), delta=delta
        )
        settings = LanczosSettings(num_steps=steps, target=math.inf, largest=2.0 * smoothness)

        def keep(_: int, v: Tensor) -> None:
            last[:] = [v]

        found = lanczos(second_order(f), x, settings, generator, observer=keep)
        if found.status is Status.NOT_FINITE:
            raise RunEnded(Ending.DIVERGED)
        if found.status is not Status.SMOOTHNESS_EXCEEDED:
            return Lowest(found.lowest, last[0])
        smoothness *= 2.0


def fresh_curvature(run: Run, x: Tensor, v: Tensor, size: int) -> tuple[float, float]:
    """vᵀ∇²F(x)v on `size` samples that v has not seen, in eight batches, and its standard error."""
    functions = [second_order(batch(run, max(1, size // CHUNKS), hessian=True)) for _ in range(CHUNKS)]
    seen = mean_curvature([vectors.dots((v, f.hvp(x, v)))[0] for f in functions], functions[0].size)
    return seen.mean, seen.standard_error
