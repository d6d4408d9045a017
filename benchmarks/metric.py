"""Searches in the metric of Adam's second moments, on a transformer at three stages of training.

    python -m benchmarks.metric [--text FILE] [--peer]

A character transformer of 360 thousand parameters learns a text by AdamW, by default the source of torch.nn.Module. At
each stage of each training `negative_curvature` looks at one frozen batch in float32, from several random starts, with
`metric=optimizer` and without. What counts is the number of gradients, the first one included, until the lowest
curvature that the search sees is 0.9 of the lowest that there is: of S∇²F(x)S in the metric, of ∇²F(x) without. The
truth of both is a Lanczos run with exact products in float64. Its own steps to 0.9 are printed as well: they tell the
mathematics from the code.

With `--peer` the whole call is timed beside hessian-eigenthings by differences (`benchmarks.peer`). The peer is told
the fewest steps that suffice to come as low in x as the direction of our search in the metric does.

Wanted: at the median of stages and starts at most 0.6 of the gradients without; twice as fast as the peer.
"""

from __future__ import annotations

import copy
import math
import statistics
from argparse import Namespace
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.optim import AdamW, Optimizer
from torch.utils.data import TensorDataset

from benchmarks import peer, trained_networks, transformer
from benchmarks.environment import Report, options, table
from benchmarks.networks import along, in_double
from benchmarks.trained_networks import Network
from benchmarks.transformer import BATCH
from unsaddle import Curvature, ModelObjective, negative_curvature
from unsaddle.curvature.krylov.process import KrylovProcess
from unsaddle.metric.given import as_map
from unsaddle.objective import SecondOrderFunction

NEAR = 0.9
FEWER, FASTER = 0.6, 2.0
"""What is wanted: the share of the gradients without a metric, and times faster than the peer."""
WINDOWS = 2048


@dataclass(frozen=True)
class Truth:
    """The ends of the spectrum by exact products in float64, and the step at which 0.9 of the lowest was seen."""

    lowest: float
    highest: float
    steps: int


@dataclass(frozen=True)
class Run:
    """One call: gradients until 0.9 of the lowest curvature was seen, None if it never was; and the answer."""

    gradients: int | None
    found: Curvature
    own: float
    """The curvature in x along the direction, by an exact product in float64; nan without one."""


def truth(f: SecondOrderFunction, x: Tensor, sizes: Tensor, steps: int) -> Truth:
    def product(q: Tensor, out: Tensor) -> None:
        out.copy_(sizes * f.hvp(x, sizes * q))

    start = torch.randn(x.numel(), generator=torch.Generator().manual_seed(0), dtype=x.dtype)
    process, seen = KrylovProcess(product, start / start.norm(), steps + 1), list[float]()
    with sdpa_kernel(SDPBackend.MATH):
        for _ in range(steps):
            process.expand()
            seen.append(float(process.projection.values[0]))
    enough = next(i for i, value in enumerate(seen, 1) if value <= NEAR * seen[-1])
    return Truth(seen[-1], float(process.projection.values[-1]), enough)


def called(objective: ModelObjective, metric: Any, sizes: Tensor, real: Truth, exact: Any, seed: int) -> Run:
    """The public call with its defaults."""
    found = negative_curvature(objective, metric=metric, seed=seed, keep_history=True)
    if found.direction is None:
        return Run(None, found, math.nan)
    unit = float((found.direction.double() / sizes).norm()) ** 2  # The history is in units of the direction in x.
    spent = next((spent for spent, seen in found.history if seen <= NEAR * real.lowest * unit), None)
    return Run(spent, found, along(*exact, found.direction))


def train(network: Network, optimizer: Optimizer, steps: int, rows: int, generator: torch.Generator) -> None:
    for _ in range(steps):
        chosen = torch.randint(len(network.rows[0]), (rows,), generator=generator)
        optimizer.zero_grad()
        network.loss(network.model, tuple(part[chosen] for part in network.rows)).backward()
        optimizer.step()


def look(
    network: Network, optimizer: Optimizer, seed: int, stage: int, args: Namespace, report: Report
) -> list[list[str]]:
    """One stage of the training with a seed: a line without a metric, and one with."""
    batch = tuple(part[: args.rows] for part in network.rows)
    objective, exact = ModelObjective(network.model, network.loss, TensorDataset(*batch)), in_double(network, batch)
    scaling = as_map(optimizer, objective, objective.point)
    lines, medians, lowest = list[list[str]](), list[float](), math.nan
    for name, metric, sizes in (
        ("none", None, torch.ones_like(exact[1])),
        ("AdamW", optimizer, scaling.apply(torch.ones_like(exact[1]))),
    ):
        real = truth(*exact, sizes, args.lanczos)
        lowest = real.lowest if metric is None else lowest
        runs = [called(objective, metric, sizes, real, exact, start) for start in range(args.starts)]
        spent = [math.inf if run.gradients is None else run.gradients for run in runs]
        medians.append(statistics.median(spent))
        for start, run in enumerate(runs):
            settings = {"training": seed, "stage": stage, "metric": name, "start": start}
            measured = {"to_near": run.gradients, "gradients": run.found.cost.gradients, "curvature": run.own}
            report.row(settings=settings, status=run.found.status.name, **measured, lowest=real.lowest)
        lines.append(
            [
                f"{seed}, {stage}, {name}",
                f"{real.lowest:.3g}",
                f"{-real.lowest / real.highest:.3f}",
                f"{real.steps}",
                " ".join("-" if run.gradients is None else str(run.gradients) for run in runs),
                f"{medians[-1]:g}",
                " ".join(str(run.found.cost.gradients) for run in runs),
                f"{statistics.median(run.own / lowest for run in runs):.2f}",
            ]
        )
        print(lines[-1], flush=True)
    lines[-1].append(f"{medians[1] / medians[0]:.2f}")
    lines[0].append("")
    if args.peer:
        timed(network, objective, optimizer, exact, batch, stage, args, report)
    return lines


def timed(
    network: Network, objective: ModelObjective, metric: Any, exact: Any, batch: Any, stage: int, args: Any, report: Any
) -> None:
    model = copy.deepcopy(network.model)
    case = peer.Case(model, network.loss, [batch], objective, lambda v: along(*exact, v), metric)
    rows = peer.compare(case, args.starts)
    for row in rows:
        print(f"  {row}", flush=True)
        report.row(settings={"stage": stage, "start": row.seed}, status="compared", **asdict(row))
    both = [row for row in rows if row.steps is not None]
    if not both:
        return
    times = peer.times(case, both, 1, args.rounds)
    print(f"  {times}", flush=True)
    report.row(settings={"stage": stage}, status="timed", **asdict(times))
    report.want(f"step {stage}: times faster than the peer", times.faster[0], math.inf, FASTER)


def made(args: Namespace, seed: int) -> Network:
    """The transformer at its random start, and windows of the text."""
    if args.text is None:
        text, known = trained_networks.characters(WINDOWS)
        rows = text[:, :-1], text[:, 1:]
    else:
        numbers, known = transformer.characters(args.text)
        batches = [transformer.batches(numbers, torch.Generator().manual_seed(i)) for i in range(WINDOWS // BATCH)]
        rows = tuple(map(torch.cat, zip(*batches, strict=True)))
    torch.manual_seed(seed)
    return Network(transformer.CharacterModel(known), rows, transformer.loss)


def main() -> int:
    parser = options("Gradients to 0.9 of the lowest curvature of a transformer, in the metric of Adam and without.")
    parser.add_argument("--text", type=Path, default=None, help="that is learnt")
    parser.add_argument("--stages", type=int, nargs="+", default=[20, 100, 300], help="steps of training")
    parser.add_argument("--rows", type=int, default=16, help="of a batch")
    parser.add_argument("--trainings", type=int, default=1, help="from other weights, on other batches")
    parser.add_argument("--starts", type=int, default=5, help="random starts")
    parser.add_argument("--lanczos", type=int, default=40, help="exact products of each truth")
    parser.add_argument("--peer", action="store_true", help=f"install {peer.NAME}, and compare times")
    parser.add_argument("--rounds", type=int, default=3, help="of timing")
    args = parser.parse_args()
    report = Report.begin("metric", args)
    lines = list[list[str]]()
    for seed in range(args.seed, args.seed + args.trainings):
        network, done = made(args, seed), 0
        optimizer, generator = AdamW(network.model.parameters(), lr=1e-3), torch.Generator().manual_seed(seed)
        for stage in args.stages:
            train(network, optimizer, stage - done, args.rows, generator)
            done = stage
            lines += look(network, optimizer, seed, stage, args, report)
    heads = [
        "training, step, metric",
        "lowest",
        "-lowest/highest",
        "exact steps",
        "gradients to 0.9",
        "median",
        "of the whole call",
    ]
    table("a transformer in training", [*heads, "curvature in x over its lowest", "ratio"], lines)
    ratio = statistics.median(float(line[-1]) for line in lines if line[-1])
    report.want("gradients with the metric over those without, median of stages and trainings", ratio, FEWER)
    return report.end(args.out)


if __name__ == "__main__":
    raise SystemExit(main())
