"""The lowest curvature by Hessian products, and how well samples agree on it."""

from __future__ import annotations

from torch import Tensor

from unsaddle import vectors
from unsaddle.baselines.samples import batch
from unsaddle.curvature.krylov import lanczos
from unsaddle.curvature.krylov.lanczos import Lowest
from unsaddle.curvature.power import second_order
from unsaddle.measure.batches import mean_curvature
from unsaddle.objective import SampledFunction
from unsaddle.run import Ending, Run, RunEnded

CHUNKS = 8
"""Fresh batches on which a curvature is measured again."""


def lowest_curvature(run: Run, f: SampledFunction, x: Tensor, **how: float) -> Lowest:
    """v with vᵀ∇²f(x)v ≤ λ_min + accuracy, by `curvature.krylov.lanczos`. Ends the run if f is not finite."""
    found = lanczos.lowest_curvature(second_order(f), x, generator=run.generator, **how)
    if found is None:
        raise RunEnded(Ending.DIVERGED)
    return found


def fresh_curvature(run: Run, x: Tensor, v: Tensor, size: int) -> tuple[float, float]:
    """vᵀ∇²F(x)v with its standard error, on `size` samples that v was not found on, in eight batches."""
    functions = [second_order(batch(run, max(1, size // CHUNKS), hessian=True)) for _ in range(CHUNKS)]
    seen = mean_curvature([vectors.dots((v, f.hvp(x, v)))[0] for f in functions], functions[0].size)
    return seen.mean, seen.standard_error
