"""How fast classifiers at zero leave their saddle: with Neon, with kicks of nine sizes, with a random step.

Part of `python -m benchmarks.stuck`. Every run trains until the loss over all data is 5 % below that of the plateau:

- *Neon* around the optimizer, with nothing but its defaults;
- *kick*: the bare optimizer, with noise of one of nine lengths where Neon looks first. The best length is the one with
  the fewest steps at the median over the seeds, chosen anew for each model, batch size and optimizer: nobody has it;
- *random step*: the bare optimizer, with a random step where Neon jumps, of the same length.

*Harm* is what the best kick does where nothing is stuck: the same model trains from a random start, and the kick comes
at the same step. Printed are the loss over all data after the kick over that before, and a hundred steps later the
loss over that of the run without a kick; medians of the seeds.
"""

from __future__ import annotations

import copy
import itertools
import math
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from benchmarks.environment import Report, table
from benchmarks.stuck_classifiers import ACTIVATIONS, BATCH_SIZES, MODELS, classifier
from benchmarks.stuck_problems import OPTIMIZERS, Problem, batches
from unsaddle import Event, Neon

KICKS = tuple(10.0 ** (-4.0 + i / 2.0) for i in range(9))
"""Lengths of kicks, 1e-4 to 1."""
FIRST_LOOK = 100
"""The step at which Neon looks first; kicks come there."""
LEFT, CHECK = 0.95, 5
"""A run has left once its loss over all data is this share of that at the first look. Checked every few steps."""


class Push(NamedTuple):
    """A random step: at which training step, and how long."""

    step: int
    length: float


@dataclass(frozen=True, kw_only=True)
class Leaving:
    """One run."""

    steps: float
    """Training steps until it had left; inf if it never did."""
    gradients: float
    """Gradients until then, probing included."""
    jump: Event | None = None


def push(parameters: list[Tensor], length: float, seed: int) -> None:
    """A random step of this length."""
    generator = torch.Generator().manual_seed(seed)
    noise = [torch.randn(p.shape, generator=generator) for p in parameters]
    size = math.sqrt(sum(float(n.square().sum()) for n in noise))
    with torch.no_grad():
        for p, n in zip(parameters, noise, strict=True):
            p.add_(n, alpha=length / size)


Stage = tuple[nn.Module, torch.optim.Optimizer]
"""A model in training, with its optimizer."""


def begun(problem: Problem, name: str, seed: int, steps: int, *, stuck: bool = True) -> Stage:
    """The model after some steps of the bare optimizer."""
    model = problem.make(seed, stuck)
    base = OPTIMIZERS[name](list(model.parameters()), problem.rates[name])
    for _ in _trained(problem, (model, base), seed, range(1, steps + 1)):
        pass
    return model, base


def _trained(problem: Problem, stage: Stage, seed: int, steps: range) -> Iterator[int]:
    """Trains, on the same batches at the same steps in every run. Yields the steps."""
    model, optimizer = stage
    stream = itertools.islice(batches(problem, problem.data(seed), seed), steps.start - 1, None)
    for step, batch in zip(steps, stream, strict=False):

        def closure(batch: tuple[Tensor, ...] = batch) -> Tensor:
            optimizer.zero_grad()
            loss = problem.loss(model, batch)
            loss.backward()
            return loss

        optimizer.step(closure)
        yield step


def leave(problem: Problem, name: str, seed: int, steps: int) -> Leaving:
    """Trains with Neon until the run has left."""
    model = problem.make(seed, True)
    optimizer = Neon(OPTIMIZERS[name](list(model.parameters()), problem.rates[name]), seed=seed)
    left, data, plateau = math.inf, problem.data(seed), math.inf
    for step in _trained(problem, (model, optimizer), seed, range(1, steps + 1)):
        if step == FIRST_LOOK:
            plateau = _loss(problem, model, data)
        if step > FIRST_LOOK and step % CHECK == 0 and _loss(problem, model, data) < LEFT * plateau:
            left = step
            break
    jump = next((event for event in optimizer.events if event.escaped), None)
    return Leaving(steps=left, gradients=left * (1.0 + optimizer.overhead), jump=jump)


def kicked(problem: Problem, seed: int, start: Stage, steps: int, kick: Push) -> Leaving:
    """Trains on from the first look with the bare optimizer, kicks it, and waits until the run has left."""
    stage, data = copy.deepcopy(start), problem.data(seed)
    model = stage[0]
    plateau = _loss(problem, model, data)
    if kick.step == FIRST_LOOK:
        push(list(model.parameters()), kick.length, seed)
    for step in _trained(problem, stage, seed, range(FIRST_LOOK + 1, steps + 1)):
        if step == kick.step:
            push(list(model.parameters()), kick.length, seed)
        if step % CHECK == 0 and _loss(problem, model, data) < LEFT * plateau:
            return Leaving(steps=step, gradients=step)
    return Leaving(steps=math.inf, gradients=math.inf)


def harm(problem: Problem, name: str, seed: int, length: float) -> tuple[float, float]:
    """What a kick does to a training that is not stuck: at once, and a hundred steps later."""
    calm, data = begun(problem, name, seed, FIRST_LOOK, stuck=False), problem.data(seed)
    shaken = copy.deepcopy(calm)
    before = _loss(problem, shaken[0], data)
    push(list(shaken[0].parameters()), length, seed)
    at_once = _loss(problem, shaken[0], data) / before
    for stage in (calm, shaken):
        for _ in _trained(problem, stage, seed, range(FIRST_LOOK + 1, 2 * FIRST_LOOK + 1)):
            pass
    return at_once, _loss(problem, shaken[0], data) / _loss(problem, calm[0], data)


def _loss(problem: Problem, model: nn.Module, data: tuple[Tensor, ...]) -> float:
    with torch.no_grad():
        return float(problem.loss(model, data))


def study(report: Report, seeds: int, steps: int, only: str, kicks: bool) -> None:
    """All classifiers whose name contains `only`."""
    rows, runs_with_neon, left_with_neon = [], 0, 0
    for model in MODELS:
        for activation in ACTIVATIONS:
            for size in BATCH_SIZES:
                problem = classifier(model, activation, size)
                if only.lower() not in problem.name.lower():
                    continue
                for name in OPTIMIZERS:
                    neon = [leave(problem, name, report.seed + i, steps) for i in range(seeds)]
                    runs_with_neon += seeds
                    left_with_neon += sum(math.isfinite(run.steps) for run in neon)
                    rows.append(
                        [problem.name, name, *_cells(neon), *_kicked(report, problem, name, neon, steps, kicks)]
                    )
                    print("  " + ", ".join(rows[-1]), flush=True)
                    report.row(
                        settings={"problem": problem.name, "optimizer": name, "way": "neon", "steps": steps},
                        status="done",
                        left=[run.steps for run in neon],
                        gradients=[run.gradients for run in neon],
                        verdicts=[None if run.jump is None else str(run.jump) for run in neon],
                    )
    if not rows:
        return
    heads = ["classifier at 0", "optimizer", "Neon left", "steps", "gradients"]
    heads += (
        ["best kick", "left", "steps", "worst kick left", "random step left", "steps", "harm", "later"] if kicks else []
    )
    table(f"Steps until the loss is 5 % below the plateau, median of {seeds} seeds; kicks at step 100", heads, rows)
    text = f"classifiers at 0: runs that leave with Neon, of {runs_with_neon}"
    report.want(text, left_with_neon, at_most=runs_with_neon, at_least=runs_with_neon)


def _cells(runs: list[Leaving]) -> list[str]:
    left = sum(math.isfinite(run.steps) for run in runs)
    steps, gradients = (statistics.median(getattr(run, of) for run in runs) for of in ("steps", "gradients"))
    return [f"{left}/{len(runs)}", f"{steps:.0f}", f"{gradients:.0f}"]


def _kicked(report: Report, problem: Problem, name: str, neon: list[Leaving], steps: int, kicks: bool) -> list[str]:
    """The best and the worst of the kicks, and the random step in place of Neon's jump."""
    if not kicks:
        return []
    starts = [begun(problem, name, report.seed + i, FIRST_LOOK) for i in range(len(neon))]
    by_length = {
        length: [
            kicked(problem, report.seed + i, start, steps, Push(FIRST_LOOK, length)) for i, start in enumerate(starts)
        ]
        for length in KICKS
    }
    best = min(by_length, key=lambda length: statistics.median(run.steps for run in by_length[length]))
    worst = min(sum(math.isfinite(run.steps) for run in runs) for runs in by_length.values())
    random_steps = [
        kicked(problem, report.seed + i, start, steps, Push(run.jump.step, run.jump.length))
        for i, (start, run) in enumerate(zip(starts, neon, strict=True))
        if run.jump is not None
    ]
    harms = [harm(problem, name, report.seed + i, best) for i in range(len(neon))]
    for length, runs in by_length.items():
        settings = {"problem": problem.name, "optimizer": name, "way": "kick", "length": length, "steps": steps}
        report.row(settings=settings, status="done", left=[run.steps for run in runs])
    left, fastest, _ = _cells(by_length[best])
    random_left, random_fastest, _ = _cells(random_steps)
    at_once, later = (statistics.median(ratios) for ratios in zip(*harms, strict=True))
    report.row(
        settings={"problem": problem.name, "optimizer": name, "way": "harm", "length": best}, status="done", harms=harms
    )
    harmed = [f"{at_once:.2f}", f"{later:.2f}"]
    return [f"{best:.1g}", left, fastest, f"{worst}/{len(neon)}", random_left, random_fastest, *harmed]
