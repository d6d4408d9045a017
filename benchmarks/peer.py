"""The time of `negative_curvature` on a network, beside one gradient and beside hessian-eigenthings by differences.

Everything is timed in one run, interleaved, and the median of the rounds' ratios counts. Ours is the public call with
its defaults: the gradient at x, noise, search and confirmation. The peer is told the fewest steps that suffice, by
exact products in float64, to come as low as ours did. Both begin at random, so several seeds are summed.
"""

from __future__ import annotations

import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from unsaddle import negative_curvature
from unsaddle.objective import Objective

NAME = "hessian-eigenthings==1.0.0a5"
RADII = (5e-3, 5e-4, 5e-5)
"""Its `fd_eps`: the default in float32, and shorter ones, of which it is given the best. Its default is too long for
some networks, which it then never gets right."""
ALIKE = 0.01
"""The peer suffices if its curvature is above ours by at most this share."""
MOST_STEPS = 60
FASTER, STEP_OVER_GRADIENT = 1.5, 1.15
"""What is wanted: times faster than the peer, and the time of one of our gradients in plain gradients."""


@dataclass(frozen=True)
class Case:
    """A network on its rows, in batches for the peer, and the curvature in float64 along a direction."""

    model: nn.Module
    loss: Callable[[nn.Module, Any], Tensor]
    batches: Sequence[Any]
    objective: Objective
    along: Callable[[Tensor], float]
    metric: Any = None
    """In which our search runs; the peer's has none."""


@dataclass(frozen=True)
class Seed:
    """One start: gradients of our call, steps of the peer (two gradients each), and curvatures in float64."""

    seed: int
    gradients: int
    steps: int | None
    """None if the peer does not come as low as ours, at any of its radii, in `MOST_STEPS`."""
    radius: float
    ours: float
    theirs: float


@dataclass(frozen=True)
class Times:
    """Medians over the rounds, of wall time and of the processor's."""

    threads: int
    gradient: float
    """Seconds of one plain gradient, by autograd alone."""
    step: tuple[float, float]
    """Time of our call over its gradients, in plain gradients."""
    faster: tuple[float, float]
    """Time of the peer over ours."""


def eigenthings() -> Any:
    """The peer, installed into a folder of its own."""
    folder = Path(tempfile.gettempdir()) / "unsaddle-peer"
    if not folder.exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
        subprocess.run([*pip, NAME, "tqdm"], check=True)
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    import hessian_eigenthings

    return hessian_eigenthings


def operator(case: Case, radius: float) -> Any:
    how = {"method": "finite_difference", "fd_eps": radius}
    return eigenthings().HessianOperator(case.model, case.batches, case.loss, **how)


def theirs(case: Case, radius: float, steps: int, seed: int) -> Tensor:
    """The peer's lowest eigenvector after some steps."""
    return eigenthings().lanczos(operator(case, radius), k=1, max_iter=steps, which="SA", seed=seed).eigenvectors[0]


def fewest_steps(case: Case, radius: float, wanted: float, seed: int) -> int | None:
    """The fewest steps after which the peer's direction has a curvature of `wanted` or below, in float64."""
    from hessian_eigenthings.algorithms.lanczos import lanczos_tridiagonal

    h = operator(case, radius)
    start = torch.randn(h.size, dtype=h.dtype, generator=torch.Generator().manual_seed(seed))
    run = lanczos_tridiagonal(h, start, MOST_STEPS)  # The first steps of a longer run are those of a shorter one.
    for steps in range(1, run.iterations + 1):
        m = torch.diag(run.alphas[:steps])
        m += torch.diag(run.betas[: steps - 1], 1) + torch.diag(run.betas[: steps - 1], -1)
        values, pairs = torch.linalg.eigh(m)
        if float(values[0]) > wanted / 2.0:
            continue  # Far from it: no need to ask float64.
        v = torch.stack(run.basis[:steps]).T @ pairs[:, 0]
        if case.along(v / v.norm()) <= wanted:
            return steps
    return None


def compare(case: Case, seeds: int) -> list[Seed]:
    """What each start takes, for the peer and for us. Starts from which one of both finds nothing are not timed."""
    eigenthings()
    rows = []
    for seed in range(seeds):
        found = negative_curvature(case.objective, metric=case.metric, seed=seed)
        if found.direction is None:
            continue
        ours = case.along(found.direction)
        tried = {radius: fewest_steps(case, radius, (1.0 - ALIKE) * ours, seed) for radius in RADII}
        radius = min(tried, key=lambda radius: tried[radius] or math.inf)
        steps = tried[radius]
        reached = math.nan if steps is None else case.along(theirs(case, radius, steps, seed))
        rows.append(Seed(seed, found.cost.gradients, steps, radius, ours, reached))
    return rows


def timed(run: Callable[[], object]) -> tuple[float, float]:
    wall, processor = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - wall, time.process_time() - processor


def times(case: Case, rows: Sequence[Seed], threads: int, rounds: int) -> Times:
    """Gradient, ours and the peer, one after the other, in each round."""
    parameters = [p for p in case.model.parameters() if p.requires_grad]

    def gradients() -> None:
        for _ in range(10):
            for batch in case.batches:
                torch.autograd.grad(case.loss(case.model, batch), parameters)

    def ours() -> None:
        for row in rows:
            negative_curvature(case.objective, metric=case.metric, seed=row.seed)

    def peers() -> None:
        for row in rows:
            assert row.steps is not None
            theirs(case, row.radius, row.steps, row.seed)

    torch.set_num_threads(threads)
    runs = [[timed(run) for run in (gradients, ours, peers)] for _ in range(rounds)]
    count = sum(row.gradients for row in rows)

    def medians(ratio: Callable[[float, float, float], float]) -> tuple[float, float]:
        wall, processor = (statistics.median(ratio(g[i], a[i], b[i]) for g, a, b in runs) for i in (0, 1))
        return wall, processor

    return Times(
        threads=threads,
        gradient=medians(lambda g, _a, _b: g / 10.0)[0],
        step=medians(lambda g, a, _b: a / count / (g / 10.0)),
        faster=medians(lambda _g, a, b: b / a),
    )
