"""Neon where training is not stuck: a small character transformer and a conv net on MNIST, with Neon and without.

    python -m benchmarks.healthy [--only transformer] [--steps 2500] [--seeds 10] [--batch-sizes 16 256]

Each model is trained by AdamW, and by Neon around it at its defaults, from the same start on the same batches. Printed,
and kept with --out: every verdict; the overhead in gradients, and in processor time (what Neon's probes took over all
else, in one run); the final loss on held-out data, both ways; and the held-out loss before and after every jump.

Without a jump the weights are those of the base, bit for bit (`tests/torch_optim/test_neon.py`). So AdamW alone trains
the seeds in which Neon jumped, and the first one, where that is checked.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.environment import ROOT, Report, options, table
from benchmarks.healthy_tasks import Batch, Task, mnist_task, text_task
from unsaddle import Event, Neon
from unsaddle.torch_optim.state import TRIAL

DATA = ROOT.parent / "shared" / "data"
OVERHEAD = 0.05
WORSE = 0.02
"""How much higher the mean held-out loss may be, as a share; seeds differ by more."""


class Watched(Neon):
    """Neon that knows how long its probes took, and the held-out loss on either side of its jumps."""

    seconds = 0.0
    held_out: Callable[[], float]
    jumps: list[tuple[float, float]]

    def _advance(self, batch: Any, **how: Any) -> Event:
        before = [p.detach().clone() for p in self._trained()] if self.phase == TRIAL else []
        start = time.process_time()
        event = super()._advance(batch, **how)
        self.seconds += time.process_time() - start
        if event.escaped:
            after = [p.detach().clone() for p in self._trained()]
            losses = [self._held_out_at(point) for point in (before, after)]
            self.jumps.append((losses[0], losses[1]))
        return event

    def _held_out_at(self, point: list[Tensor]) -> float:
        for p, value in zip(self._trained(), point, strict=True):
            p.data.copy_(value)
        return self.held_out()


@dataclass(frozen=True, kw_only=True)
class Run:
    """One training."""

    held_out: float
    seconds: float
    probing: float = 0.0
    overhead: float = 0.0
    events: list[Event]
    jumps: list[tuple[float, float]]


def train(task: Task, rows: int, seed: int, steps: int, neon: bool) -> Run:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = task.make()
        base = torch.optim.AdamW(model.parameters(), lr=1e-3)
        optimizer: torch.optim.Optimizer = Watched(base, seed=seed) if neon else base
        if isinstance(optimizer, Watched):
            optimizer.held_out, optimizer.jumps = lambda: held_out_loss(task, model), []
        start = time.process_time()
        for _, batch in zip(range(steps), task.batches(seed, rows), strict=False):
            optimizer.step(closure_of(task, model, optimizer, batch))
        seconds, held_out = time.process_time() - start, held_out_loss(task, model)
    if not isinstance(optimizer, Watched):
        return Run(held_out=held_out, seconds=seconds, events=[], jumps=[])
    return Run(
        held_out=held_out,
        seconds=seconds,
        probing=optimizer.seconds,
        overhead=optimizer.overhead,
        events=optimizer.events,
        jumps=optimizer.jumps,
    )


def held_out_loss(task: Task, model: nn.Module) -> float:
    model.eval()
    with torch.no_grad():
        loss = statistics.fmean(float(task.loss(model, batch)) for batch in task.held_out)
    model.train()
    return loss


def closure_of(task: Task, model: nn.Module, optimizer: torch.optim.Optimizer, batch: Batch) -> Callable[[], Tensor]:
    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = task.loss(model, batch)
        loss.backward()
        return loss

    return closure


def study(report: Report, task: Task, rows: int, seeds: int, steps: int) -> None:
    lines, plain, promoted, raised, jumps = [], [], [], 0, 0
    overheads, times = [], []
    name = f"{task.name}, batch {rows}"
    for seed in range(report.seed, report.seed + seeds):
        run = train(task, rows, seed, steps, neon=True)
        jumped = bool(run.jumps)
        bare = train(task, rows, seed, steps, neon=False) if jumped or seed == report.seed else run
        if not jumped and bare.held_out != run.held_out:
            raise SystemExit(f"{name}, seed {seed}: Neon did not jump, and yet trained another model")
        for event in run.events:
            print(f"  {name}, seed {seed}, {event}", flush=True)
        overheads.append(run.overhead)
        times.append(run.probing / (run.seconds - run.probing))
        plain.append(bare.held_out)
        promoted.append(run.held_out)
        jumps += len(run.jumps)
        raised += sum(after > before for before, after in run.jumps)
        words = Counter(event.verdict for event in run.events)
        lines.append(
            [
                str(seed),
                f"{bare.held_out:.4f}",
                f"{run.held_out:.4f}",
                f"{run.overhead:.1%}",
                f"{times[-1]:.1%}",
                ", ".join(f"{before:.3f} → {after:.3f}" for before, after in run.jumps),
                ", ".join(f"{n} {word}" for word, n in words.items()),
            ]
        )
        report.row(
            settings={"task": task.name, "batch_size": rows, "steps": steps},
            status="done",
            seed=seed,
            plain=bare.held_out,
            neon=run.held_out,
            overhead=run.overhead,
            time_overhead=times[-1],
            jumps=run.jumps,
            events=[event.row() for event in run.events],
        )
    heads = ["seed", "without", "with", "gradients", "time", "jumps", "verdicts"]
    table(f"{name}, {steps} steps of AdamW: held-out loss without Neon and with it", heads, lines)
    report.want(f"{name}: overhead in gradients, largest", max(overheads), at_most=OVERHEAD)
    report.want(f"{name}: overhead in time, median", statistics.median(times), at_most=OVERHEAD)
    ratio = statistics.fmean(promoted) / statistics.fmean(plain)
    report.want(f"{name}: mean held-out loss over that without Neon", ratio, at_most=1.0 + WORSE)
    report.want(f"{name}: jumps that raise the held-out loss, of {jumps}", raised, at_most=0.0)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = options(__doc__.splitlines()[0])
    parser.add_argument("--text", type=Path, default=DATA / "tinyshakespeare.txt")
    parser.add_argument("--mnist", type=Path, default=DATA / "mnist.npz")
    parser.add_argument("--only", choices=["transformer", "conv net"], default=None)
    parser.add_argument("--steps", type=int, default=2500)
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[16, 256])
    parser.add_argument("--seeds", type=int, default=10)
    chosen = parser.parse_args(arguments)
    report = Report.begin("healthy", chosen)
    tasks = {"transformer": lambda: text_task(chosen.text), "conv net": lambda: mnist_task(chosen.mnist)}
    for name, make in tasks.items():
        if chosen.only in (None, name):
            task = make()
            for rows in chosen.batch_sizes:
                study(report, task, rows, chosen.seeds, chosen.steps)
    return report.end(chosen.out)


if __name__ == "__main__":
    raise SystemExit(main())
