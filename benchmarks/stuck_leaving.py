"""How fast classifiers at zero leave their saddle: with Neon, with kicks of nine sizes, with a random step.

Part of `python -m benchmarks.stuck`. Every run trains until the loss over all data is 5 % below that of the plateau:

- *Neon* around the optimizer, with nothing but its defaults;
- *kick*: the bare optimizer, with noise of one of nine lengths where Neon looks first. The best length is the one with
  the fewest steps at the median over the seeds, chosen anew for each model, batch size and optimizer: nobody has it;
- *random step*: the bare optimizer, with a random step where Neon jumps, of the same length.
"""

from __future__ import annotations

import math
import statistics
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


def leave(problem: Problem, name: str, seed: int, steps: int, random_step: Push | None = None) -> Leaving:
    """Trains until the run has left: with Neon, or with the bare optimizer and a random step."""
    model, data = problem.make(seed, True), problem.data(seed)
    parameters = list(model.parameters())
    base = OPTIMIZERS[name](parameters, problem.rates[name])
    optimizer = Neon(base, seed=seed) if random_step is None else base
    plateau = math.inf
    for step, batch in zip(range(1, steps + 1), batches(problem, data, seed), strict=False):

        def closure(batch: tuple[Tensor, ...] = batch) -> Tensor:
            optimizer.zero_grad()
            loss = problem.loss(model, batch)
            loss.backward()
            return loss

        optimizer.step(closure)
        if random_step is not None and step == random_step.step:
            push(parameters, random_step.length, seed)
        if step == FIRST_LOOK:
            plateau = _loss(problem, model, data)
        if step > FIRST_LOOK and step % CHECK == 0 and _loss(problem, model, data) < LEFT * plateau:
            return _left(optimizer, step)
    return _left(optimizer, math.inf)


def _loss(problem: Problem, model: nn.Module, data: tuple[Tensor, ...]) -> float:
    with torch.no_grad():
        return float(problem.loss(model, data))


def _left(optimizer: torch.optim.Optimizer, steps: float) -> Leaving:
    if not isinstance(optimizer, Neon):
        return Leaving(steps=steps, gradients=steps)
    jump = next((event for event in optimizer.events if event.escaped), None)
    return Leaving(steps=steps, gradients=steps * (1.0 + optimizer.overhead), jump=jump)


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
    heads += ["best kick", "left", "steps", "worst kick left", "random step left", "steps"] if kicks else []
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
    by_length = {
        length: [leave(problem, name, report.seed + i, steps, Push(FIRST_LOOK, length)) for i in range(len(neon))]
        for length in KICKS
    }
    best = min(by_length, key=lambda length: statistics.median(run.steps for run in by_length[length]))
    worst = min(sum(math.isfinite(run.steps) for run in runs) for runs in by_length.values())
    pushes = [None if run.jump is None else Push(run.jump.step, run.jump.length) for run in neon]
    random_steps = [leave(problem, name, report.seed + i, steps, p) for i, p in enumerate(pushes) if p is not None]
    for length, runs in by_length.items():
        settings = {"problem": problem.name, "optimizer": name, "way": "kick", "length": length, "steps": steps}
        report.row(settings=settings, status="done", left=[run.steps for run in runs])
    left, fastest, _ = _cells(by_length[best])
    random_left, random_fastest, _ = _cells(random_steps)
    return [f"{best:.1g}", left, fastest, f"{worst}/{len(neon)}", random_left, random_fastest]
