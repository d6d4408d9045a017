"""L1 at a point, by a few steps of the Krylov process."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.curvature.displaced import DisplacedFunction
from unsaddle.curvature.krylov.process import KrylovProcess
from unsaddle.objective import Objective

SAMPLES, STEPS = 256, 10
"""Samples and steps for a measurement of L1."""


def smoothness(objective: Objective, x: Tensor, generator: torch.Generator, samples: int = SAMPLES) -> float:
    """L1 at x: the largest |eigenvalue| that ten steps on some samples see; nan if f is not finite at x.

    Cost: eleven gradients. Memory: eleven vectors. `measure.smoothness` needs one vector, and sees less.

    >>> from unsaddle import Function
    >>> round(smoothness(Function(lambda x: 3 * x @ x / 2), torch.ones(5), torch.Generator().manual_seed(0)), 3)
    3.0
    """
    n = objective.num_samples
    f_hat = DisplacedFunction(objective.sample(None if n is not None and samples >= n else samples, generator), x)
    if not f_hat.is_finite:
        return math.nan
    radius = math.sqrt(torch.finfo(x.dtype).eps) * max(1.0, f_hat.x_norm)
    start = vectors.random_direction(x, generator)
    process = KrylovProcess(lambda q, out: f_hat.product(q, radius, out), start, capacity=STEPS)
    for _ in range(STEPS):
        if not process.expand() or process.exhausted:
            break
    return process.largest
