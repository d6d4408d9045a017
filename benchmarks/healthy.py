"""Neon where training is not stuck: a character transformer and a conv net on MNIST, with Neon and without.

    python -m benchmarks.healthy [--only transformer] [--steps N] [--seeds N] [--batch-size N] [--figure]

Each model is trained twice from the same start on the same batches, by AdamW alone and by Neon around it at its
default budget. Printed, and kept with --out: every verdict; the overhead in gradients, and in time (what Neon's probes
took over all else, in one run); and the final loss on held-out data, both ways.

Then the first seed is trained once more, and `negative_curvature` looks on four batches at some steps along the way,
whatever the loss does: the curvature that it finds on them, and that along the same direction on fresh ones.
"""

from __future__ import annotations

import math
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks import transformer
from benchmarks.environment import ROOT, Report, options, table
from benchmarks.healthy_figure import Look, figure
from unsaddle import Event, ModelObjective, Neon, negative_curvature

DATA = ROOT.parent / "shared" / "data"
OVERHEAD = 0.05
WORSE = 0.02
"""How much higher the mean held-out loss may be, as a share; seeds differ by more."""
LOOKS = (0.0, 0.02, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
"""When to look along the way, as shares of the steps."""
LOOK_BATCHES = 4

Batch = tuple[Tensor, Tensor]


@dataclass(frozen=True, kw_only=True)
class Task:
    """A model to train."""

    name: str
    make: Callable[[], nn.Module]
    loss: Callable[[nn.Module, Batch], Tensor]
    batches: Callable[[int], Iterator[Batch]]
    held_out: list[Batch]


def text_task(path: Path, size: int) -> Task:
    raw = path.read_text()
    alphabet = sorted(set(raw))
    text = torch.tensor([alphabet.index(c) for c in raw[:500_000]])
    training, rest = text[:450_000], text[450_000:]

    def endless(seed: int) -> Iterator[Batch]:
        generator = torch.Generator().manual_seed(seed)
        while True:
            yield transformer.batches(training, generator, size)

    generator = torch.Generator().manual_seed(0)
    return Task(
        name="transformer",
        make=lambda: transformer.CharacterModel(len(alphabet)),
        loss=transformer.loss,
        batches=endless,
        held_out=[transformer.batches(rest, generator) for _ in range(20)],
    )


def conv_net() -> nn.Module:
    """Two convolutions with batch normalisation, dropout, and two linear layers."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 49, 64),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.Linear(64, 10),
    )


def mnist_task(path: Path, size: int) -> Task:
    with np.load(path) as file:
        x, y = _images(file["x_train"], file["y_train"])
        held_out = _images(file["x_test"], file["y_test"])

    def endless(seed: int) -> Iterator[Batch]:
        generator = torch.Generator().manual_seed(seed)
        while True:
            rows = torch.randint(len(x), (size,), generator=generator)
            yield x[rows], y[rows]

    return Task(
        name="conv net",
        make=conv_net,
        loss=lambda model, batch: functional.cross_entropy(model(batch[0]), batch[1]),
        batches=endless,
        held_out=list(zip(held_out[0].split(1000), held_out[1].split(1000), strict=True)),
    )


def _images(x: np.ndarray, y: np.ndarray) -> tuple[Tensor, Tensor]:
    return torch.from_numpy(x).float().div_(255.0).unsqueeze(1), torch.from_numpy(y.astype(np.int64))


class Timed(Neon):
    """Neon that knows how long its probes took."""

    seconds = 0.0

    def _advance(self, batch: Any, **how: Any) -> Event:
        start = time.perf_counter()
        event = super()._advance(batch, **how)
        self.seconds += time.perf_counter() - start
        return event


@dataclass(frozen=True, kw_only=True)
class Run:
    """One training."""

    held_out: float
    seconds: float
    probing: float
    gradients: int
    trained: int
    events: list[Event]
    losses: list[float]


def train(task: Task, seed: int, steps: int, neon: bool) -> Run:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = task.make()
        base = torch.optim.AdamW(model.parameters(), lr=1e-3)
        optimizer: torch.optim.Optimizer = Timed(base, seed=seed) if neon else base
        start = time.perf_counter()
        losses = []
        for _, batch in zip(range(steps), task.batches(seed), strict=False):
            loss = optimizer.step(closure_of(task, model, optimizer, batch))
            losses.append(float(loss.detach()))  # type: ignore[attr-defined]
        seconds = time.perf_counter() - start
        model.eval()
        with torch.no_grad():
            held_out = statistics.fmean(float(task.loss(model, batch)) for batch in task.held_out)
    if not isinstance(optimizer, Timed):
        return Run(
            held_out=held_out, seconds=seconds, probing=0.0, gradients=0, trained=steps, events=[], losses=losses
        )
    return Run(
        held_out=held_out,
        seconds=seconds,
        probing=optimizer.seconds,
        gradients=round(optimizer.overhead * steps),
        trained=steps,
        events=optimizer.events,
        losses=losses,
    )


def closure_of(task: Task, model: nn.Module, optimizer: torch.optim.Optimizer, batch: Batch) -> Callable[[], Tensor]:
    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = task.loss(model, batch)
        loss.backward()
        return loss

    return closure


def looks_along(task: Task, seed: int, steps: int) -> list[Look]:
    """What a look sees at some steps of a training by the base alone."""
    torch.manual_seed(seed)
    model = task.make()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    fresh = task.batches(seed + 1000)
    when = {round(share * steps) for share in LOOKS}
    looks = []
    for step, batch in zip(range(steps + 1), task.batches(seed), strict=False):
        if step in when:
            objective = ModelObjective(model, task.loss, [next(fresh) for _ in range(8 * LOOK_BATCHES)])
            found = negative_curvature(objective, objective.point, samples=LOOK_BATCHES, seed=seed)
            on = {measured.fresh: measured for measured in found.measurements}
            own, others = on.get(False), on.get(True)
            looks.append(
                Look(
                    step=step,
                    status=found.status.name,
                    smoothness=found.smoothness,
                    own=own.curvature if own else found.lowest,
                    fresh=others.curvature if others else math.nan,
                    error=others.error if others else math.nan,
                    gradients=found.cost.gradients,
                )
            )
        optimizer.step(closure_of(task, model, optimizer, batch))
    return looks


def study(report: Report, task: Task, seeds: int, steps: int) -> tuple[list[Run], list[Run], list[Look]]:
    rows, plain, promoted = [], [], []
    bare_runs, neon_runs = [], []
    verdicts: Counter[str] = Counter()
    for seed in range(report.seed, report.seed + seeds):
        without, with_neon = train(task, seed, steps, neon=False), train(task, seed, steps, neon=True)
        bare_runs.append(without)
        neon_runs.append(with_neon)
        for event in with_neon.events:
            print(f"  {task.name}, seed {seed}, {event}", flush=True)
        share = with_neon.gradients / with_neon.trained
        time_share = with_neon.probing / (with_neon.seconds - with_neon.probing)
        words = Counter(event.verdict for event in with_neon.events)
        jumps = sum(event.escaped for event in with_neon.events)
        verdicts += words
        plain.append(without.held_out)
        promoted.append(with_neon.held_out)
        rows.append(
            [
                str(seed),
                f"{without.held_out:.4f}",
                f"{with_neon.held_out:.4f}",
                f"{share:.1%}",
                f"{time_share:.1%}",
                str(jumps),
                ", ".join(f"{n} {word}" for word, n in words.items()),
            ]
        )
        report.row(
            settings={"task": task.name, "steps": steps},
            status="done",
            seed=seed,
            plain=without.held_out,
            neon=with_neon.held_out,
            overhead=share,
            time_overhead=time_share,
            jumps=jumps,
            events=[event.row() for event in with_neon.events],
        )
    table(
        f"{task.name}, {steps} steps of AdamW: held-out loss without Neon and with it",
        ["seed", "without", "with", "gradients", "time", "jumps", "verdicts"],
        rows,
    )
    overheads = [float(row[3].rstrip("%")) / 100.0 for row in rows]
    times = [float(row[4].rstrip("%")) / 100.0 for row in rows]
    mean_plain, mean_neon = statistics.fmean(plain), statistics.fmean(promoted)
    report.want(f"{task.name}: overhead in gradients, largest", max(overheads), at_most=OVERHEAD)
    report.want(f"{task.name}: overhead in time, median", statistics.median(times), at_most=OVERHEAD)
    report.want(f"{task.name}: mean held-out loss over that without Neon", mean_neon / mean_plain, at_most=1.0 + WORSE)
    looks = looks_along(task, report.seed, steps)
    for look in looks:
        report.row(settings={"task": task.name, "steps": steps}, status=look.status, look=asdict(look))
    table(
        f"{task.name}: looks on {LOOK_BATCHES} batches along training, seed {report.seed}",
        ["step", "status", "L1", "lowest on its batches", "along it on fresh ones", "gradients"],
        [look.cells() for look in looks],
    )
    return bare_runs, neon_runs, looks


def main(arguments: Sequence[str] | None = None) -> int:
    parser = options(__doc__.splitlines()[0])
    parser.add_argument("--text", type=Path, default=DATA / "tinyshakespeare.txt")
    parser.add_argument("--mnist", type=Path, default=DATA / "mnist.npz")
    parser.add_argument("--only", choices=["transformer", "conv net"], default=None)
    parser.add_argument("--steps", type=int, default=2500)
    parser.add_argument("--batch-size", type=int, default=None, help="32 for the transformer, 64 for the conv net")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument(
        "--figure", type=Path, nargs="?", default=None, const=ROOT / "docs" / "figures" / "healthy.svg", metavar="FILE"
    )
    chosen = parser.parse_args(arguments)
    report = Report.begin("healthy", chosen)
    panels = {}
    for name, make in (
        ("transformer", lambda: text_task(chosen.text, chosen.batch_size or 32)),
        ("conv net", lambda: mnist_task(chosen.mnist, chosen.batch_size or 64)),
    ):
        if chosen.only in (None, name):
            bare, neon, looks = study(report, make(), chosen.seeds, chosen.steps)
            panels[name] = ([run.losses for run in bare], [run.losses for run in neon], neon[0].events, looks)
    if chosen.figure is not None:
        figure(chosen.figure, panels)
    return report.end(chosen.out)


if __name__ == "__main__":
    raise SystemExit(main())
