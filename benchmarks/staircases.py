"""Staircases, where one saddle follows another: steps, gradients and time to each level, with Neon and without.

    python -m benchmarks.staircases [--seeds 10] [--only attention] [--figure]

Each problem of `staircase_problems` is trained by SGD with momentum 0.9 and by AdamW, four ways from the same starts on
the same batches:

- *bare*: the optimizer alone.
- *kick*: with noise wherever Neon's plateau test says that the loss does not fall, at most every 100 steps. The length
  of the noise is the best of nine from 1e-4 to 1, by the mean number of levels and then of steps on the first two
  seeds; chosen anew for each problem and optimizer: nobody has it.
- *Neon* around it, with nothing but its defaults.

A level is reached once the loss on fixed rows, looked at every ten steps, is below it. Printed are medians over the
seeds of the training steps to each level (of all gradients for Neon), "–" where most runs did not get there; and in how
many of the seeds a way is ahead of bare at the last level that both reach, in gradients.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from benchmarks.environment import ROOT, Report, options, table
from benchmarks.staircase_figure import figure
from benchmarks.staircase_problems import STAIRCASES, Staircase
from benchmarks.stuck_leaving import KICKS, push
from unsaddle import Neon
from unsaddle.torch_optim import plateau, policy
from unsaddle.torch_optim.rules import Rules
from unsaddle.torch_optim.state import State

OPTIMIZERS = {
    "sgd": lambda parameters, lr: torch.optim.SGD(parameters, lr=lr, momentum=0.9),
    "adamw": lambda parameters, lr: torch.optim.AdamW(parameters, lr=lr, weight_decay=0.0),
}
CHECK, TUNED_ON = 10, 2


@dataclass(frozen=True, kw_only=True)
class Climb:
    """One training: when it reached each level (inf if it did not), and its losses every ten steps."""

    steps: list[float]
    gradients: list[float]
    seconds: float
    losses: list[float]
    verdicts: list[str]


class Kicks:
    """Noise of one length on every plateau."""

    def __init__(self, parameters: list[Tensor], length: float, seed: int) -> None:
        self._parameters, self._length, self._seed = parameters, length, seed
        self._state = State()
        self._rules = Rules(gamma=None, every=100, max_overhead=1.0, escape=True, seed=0)

    def after(self, loss: Tensor) -> None:
        plateau.record(self._state, self._rules, loss, 1)
        if policy.waited(self._state, self._rules) and plateau.plateau(self._state, self._rules):
            push(self._parameters, self._length, self._seed + self._state.steps)
            self._state.since = self._state.steps
            self._state.losses.clear()


def climb(problem: Staircase, name: str, seed: int, *, kick: float | None = None, neon: bool = False) -> Climb:
    """Trains until the last level, or until the steps are over."""
    model, judged = problem.make(seed), problem.judged(seed)
    parameters = list(model.parameters())
    base = OPTIMIZERS[name](parameters, problem.rates[name])
    optimizer = Neon(base, seed=seed) if neon else base
    kicks = Kicks(parameters, kick, seed) if kick is not None else None
    steps, gradients, losses = list[float](), list[float](), list[float]()
    seconds, begun = 0.0, time.process_time()
    for step, batch in zip(range(1, problem.steps + 1), problem.batches(seed), strict=False):

        def closure(batch: tuple[Tensor, ...] = batch) -> Tensor:
            optimizer.zero_grad()
            loss = problem.loss(model, batch)
            loss.backward()
            return loss

        loss = optimizer.step(closure)
        if kicks is not None:
            kicks.after(loss)
        if step % CHECK:
            continue
        seconds += time.process_time() - begun
        losses.append(_loss(problem, model, judged))
        spent = optimizer.overhead * step if isinstance(optimizer, Neon) else 0.0
        while len(steps) < len(problem.levels) and losses[-1] < problem.levels[len(steps)]:
            steps.append(step)
            gradients.append(step + spent)
        if len(steps) == len(problem.levels):
            break
        begun = time.process_time()
    missing = [math.inf] * (len(problem.levels) - len(steps))
    verdicts = [event.verdict for event in optimizer.events] if isinstance(optimizer, Neon) else []
    return Climb(
        steps=steps + missing, gradients=gradients + missing, seconds=seconds, losses=losses, verdicts=verdicts
    )


def _loss(problem: Staircase, model: nn.Module, rows: tuple[Tensor, ...]) -> float:
    with torch.no_grad():
        return float(problem.loss(model, rows))


def best_kick(problem: Staircase, name: str, seeds: Sequence[int]) -> tuple[float, list[Climb]]:
    """The length with the most levels, then the fewest steps to all levels; and its runs."""
    by_length = {length: [climb(problem, name, seed, kick=length) for seed in seeds] for length in KICKS}

    def rank(length: float) -> float:
        reached = [min(step, 2.0 * problem.steps) for run in by_length[length] for step in run.steps]
        return statistics.fmean(reached)

    best = min(by_length, key=rank)
    return best, by_length[best]


def study(report: Report, problem: Staircase, seeds: int) -> dict[tuple[str, str], Climb]:
    numbers = range(report.seed, report.seed + seeds)
    rows, first = [], {}
    for name in OPTIMIZERS:
        bare = [climb(problem, name, seed) for seed in numbers]
        length, kicked = best_kick(problem, name, numbers[:TUNED_ON])
        kicked += [climb(problem, name, seed, kick=length) for seed in numbers[TUNED_ON:]]
        neon = [climb(problem, name, seed, neon=True) for seed in numbers]
        for way, label, runs in (
            ("bare", "bare", bare),
            ("kick", f"kick {length:.1g}", kicked),
            ("neon", "Neon", neon),
        ):
            first[name, way] = runs[0]
            cells = [_cell(runs, k) for k in range(len(problem.levels))]
            ahead = "" if way == "bare" else f"{sum(map(_ahead, runs, bare))}/{seeds}"
            rows.append([name, label, *cells, f"{statistics.median(r.seconds for r in runs):.1f}", ahead])
            for seed, run in zip(numbers, runs, strict=True):
                report.row(
                    settings={"problem": problem.name, "optimizer": name, "way": way, "kick": length},
                    status="done",
                    seed=seed,
                    steps=run.steps,
                    gradients=run.gradients,
                    seconds=run.seconds,
                    verdicts=run.verdicts,
                )
    heads = ["optimizer", "way", *(f"{level:.2g}" for level in problem.levels), "seconds", "ahead of bare"]
    table(f"{problem.name}: steps (gradients) to each level, median of {seeds} seeds", heads, rows)
    return first


def _cell(runs: list[Climb], level: int) -> str:
    steps, gradients = (statistics.median(getattr(run, of)[level] for run in runs) for of in ("steps", "gradients"))
    if math.isinf(steps):
        return "–"
    return f"{steps:.0f}" if steps == gradients else f"{steps:.0f} ({gradients:.0f})"


def _ahead(run: Climb, bare: Climb) -> bool:
    """Whether this run took fewer gradients to the last level that one of the two reached."""
    for own, other in zip(reversed(run.gradients), reversed(bare.gradients), strict=True):
        if math.isfinite(min(own, other)):
            return own < other
    return False


def main(arguments: Sequence[str] | None = None) -> int:
    parser = options(__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--only", default="", help="part of a problem's name")
    parser.add_argument(
        "--figure",
        type=Path,
        nargs="?",
        default=None,
        const=ROOT / "docs" / "figures" / "staircases.svg",
        metavar="FILE",
    )
    chosen = parser.parse_args(arguments)
    report = Report.begin("staircases", chosen)
    panels = {}
    for make in STAIRCASES:
        problem = make()
        if chosen.only in problem.name:
            panels[problem.name] = study(report, problem, chosen.seeds)
    if chosen.figure is not None:
        figure(chosen.figure, panels, CHECK)
    return report.end(chosen.out)


if __name__ == "__main__":
    raise SystemExit(main())
