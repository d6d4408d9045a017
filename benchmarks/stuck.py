"""Neon where training really is stuck, beside the bare optimizer, a random start and random kicks.

    python -m benchmarks.stuck [--seeds 5] [--steps 1000] [--only LoRA] [--kicks]
    python -m benchmarks.stuck --figure docs/figures/stuck.svg
    python -m benchmarks.stuck --scatter [--only LoRA]

Each problem of `stuck_problems` starts exactly on a saddle that gradients do not leave. Four optimizers train it four
ways, on the same batches:

- *plain*: the bare optimizer. Where it stays is asserted for each: the part of the model that is stuck (all of it, or
  how much its hidden units differ) does not move at all.
- *Neon* around it, with nothing but its defaults.
- *kick*: the bare optimizer, and at the step where Neon would look first, noise of 1 % of ‖x‖ (of 1 at x = 0) on every
  parameter. Noise is cheaper than a verdict.
- *random*: the bare optimizer from a random start.

Printed are final losses over all data: median and worst of the seeds. Wanted: plain stays; Neon gets at least 90 % of
the way from there to the loss of the random start, in every run. Then the cases that are no saddles, with their
verdicts. Last, classifiers with all weights zero at batches of 8 to 256 (`stuck_leaving`): Neon leaves in every run,
and with `--kicks` the best of nine kick sizes is beside it.

With `--figure`, only the losses of Adam on the first seed are drawn. With `--scatter`, only the share of random noise
in a jump is varied: the final losses of Neon around Adam on each problem, for shares from 0 to 1.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn

from benchmarks import stuck_leaving
from benchmarks.environment import ROOT, Report, options, table
from benchmarks.stuck_problems import NOT_SADDLES, OPTIMIZERS, STUCK, Problem, batches
from unsaddle import Event, Neon
from unsaddle.pictures import BLUE, GREEN, GREY, ORANGE, drawn
from unsaddle.torch_optim import plateau, policy, step_length
from unsaddle.torch_optim.rules import Rules
from unsaddle.torch_optim.state import State

WAYS = ("plain", "kick", "neon", "random")
RECOVERED = 0.9
KICK = 0.01
SHARES = (0.0, 0.01, 0.1, 0.3, 1.0)


@dataclass(frozen=True, kw_only=True)
class Run:
    """One training."""

    final: float
    losses: list[float]
    broken: float
    """How far the stuck part of the model has moved."""
    events: list[Event] = field(default_factory=list)
    gradients: int = 0


def spread(model: nn.Module) -> float:
    """How far the model is from the symmetry that holds it: its parameters' size, or how much hidden units differ."""
    if isinstance(model, nn.Sequential) and isinstance(model[0], nn.Linear) and model[0].bias is not None:
        weight, out = model[0].weight.detach(), model[2].weight.detach()
        return float((weight - weight[:1]).abs().max() + (out - out[:, :1]).abs().max())
    return max(float(p.detach().abs().max()) for p in model.parameters() if p.requires_grad)


def kick(parameters: list[Tensor], seed: int) -> None:
    """Gaussian noise of 1 % of the norm of all parameters."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        size = float(torch.stack([p.norm() for p in parameters]).norm()) or 1.0
        noise = [torch.randn(p.shape, generator=generator) for p in parameters]
        length = float(torch.stack([n.norm() for n in noise]).norm())
        for p, n in zip(parameters, noise, strict=True):
            p.add_(n, alpha=KICK * size / length)


def train(problem: Problem, optimizer_name: str, seed: int, way: str, steps: int, **settings: object) -> Run:
    """Train one way."""
    model, data = problem.make(seed, way != "random"), problem.data(seed)
    parameters = [p for p in model.parameters() if p.requires_grad]
    base = OPTIMIZERS[optimizer_name](parameters, problem.rates[optimizer_name])
    optimizer = Neon(base, seed=seed, **settings) if way == "neon" else base  # type: ignore[arg-type]
    losses: list[float] = []
    # A kick comes where the policy would look for the first time.
    watch = State()
    rules = Rules(gamma=None, every=100, max_overhead=1.0, escape=True, seed=0)
    kicked = way != "kick"
    for _, batch in zip(range(steps), batches(problem, data, seed), strict=False):
        loss = optimizer.step(closure_of(problem, model, optimizer, batch))
        losses.append(float(loss.detach()))
        plateau.record(watch, rules, losses[-1], 1)
        if not kicked and policy.due(watch, rules):
            kick(parameters, seed)
            kicked = True
    with torch.no_grad():
        final = float(problem.loss(model, data))
    if not isinstance(optimizer, Neon):
        return Run(final=final, losses=losses, broken=spread(model))
    spent = sum(event.gradients for event in optimizer.events)
    return Run(final=final, losses=losses, broken=spread(model), events=optimizer.events, gradients=spent)


def closure_of(
    problem: Problem, model: nn.Module, optimizer: torch.optim.Optimizer, batch: tuple[Tensor, ...]
) -> Callable[[], Tensor]:
    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = problem.loss(model, batch)
        loss.backward()
        return loss

    return closure


def study(report: Report, problem: Problem, seeds: int, steps: int) -> None:
    runs = {
        (name, way): [train(problem, name, seed, way, steps) for seed in range(report.seed, report.seed + seeds)]
        for name in OPTIMIZERS
        for way in WAYS
    }
    rows = []
    for name in OPTIMIZERS:
        neon = runs[name, "neon"]
        jumps = [next((e.step for e in run.events if e.escaped), -1) for run in neon]
        rows.append(
            [
                name,
                *(f"{statistics.median(r.final for r in runs[name, way]):.4f}" for way in WAYS),
                f"{max(r.final for r in neon):.4f}",
                f"{min(jumps)} … {max(jumps)}",
                f"{statistics.median(r.gradients for r in neon):.0f}",
            ]
        )
        for way in WAYS:
            for i, run in enumerate(runs[name, way]):
                report.row(
                    settings={"problem": problem.name, "optimizer": name, "way": way, "steps": steps},
                    status="done",
                    seed=report.seed + i,
                    final=run.final,
                    moved=run.broken,
                    gradients=run.gradients,
                    events=[event.row() for event in run.events],
                )
    heads = ["optimizer", *WAYS, "neon, worst", "jump at step", "gradients"]
    table(f"{problem.name}: final loss, median of {seeds} seeds", heads, rows)
    moved = max(run.broken for name in OPTIMIZERS for run in runs[name, "plain"])
    report.want(f"{problem.name}: how far the bare optimizers moved what is stuck", moved, at_most=0.0)
    for way in ("neon", "kick"):
        shares = [
            (stay.final - run.final) / (stay.final - good.final)
            for name in OPTIMIZERS
            for stay, run, good in zip(runs[name, "plain"], runs[name, way], runs[name, "random"], strict=True)
        ]
        left = sum(share >= RECOVERED for share in shares)
        text = f"{problem.name}, {way}: runs at least {RECOVERED:.0%} of the way to the random start's loss"
        if way == "neon":
            report.want(f"{text}, of {len(shares)}", left, at_most=len(shares), at_least=len(shares))
        else:
            print(f"           {text}: {left} of {len(shares)}", flush=True)
            report.row(settings={"claim": text}, status="stated", measured=left)


def scatter(report: Report, problem: Problem, seeds: int, steps: int) -> None:
    """Final losses with other shares of noise in the jump."""
    usual, cells = step_length.SCATTER, []
    for share in SHARES:
        step_length.SCATTER = share
        finals = [train(problem, "adam", report.seed + i, "neon", steps).final for i in range(seeds)]
        cells.append(f"{statistics.median(finals):.4f}")
        report.row(settings={"problem": problem.name, "scatter": share}, status="done", finals=finals)
    step_length.SCATTER = usual
    heads = ["noise", *(f"{share:g}" for share in SHARES)]
    table(f"{problem.name}: final loss by the noise in a jump, median of {seeds} seeds", heads, [["loss", *cells]])


def not_saddles(report: Report, seeds: int, only: str) -> None:
    rows = []
    for make in NOT_SADDLES:
        problem = make()
        if only.lower() not in problem.name.lower():
            continue
        verdicts: Counter[str] = Counter()
        for name in OPTIMIZERS:
            for seed in range(report.seed, report.seed + seeds):
                run = train(problem, name, seed, "neon", 200)
                verdicts[run.events[0].verdict if run.events else "no probe"] += 1
        rows.append([problem.name, problem.verdict, ", ".join(f"{n} {word}" for word, n in verdicts.items())])
        report.want(
            f"{problem.name}: first verdicts that are {problem.verdict!r}, of {verdicts.total()}",
            verdicts[problem.verdict],
            at_most=verdicts.total(),
            at_least=verdicts.total(),
        )
    if rows:
        table("No saddles: first verdicts", ["case", "should be", "is"], rows)


LOOKS = {
    "random": (GREEN, "--", 1.2, "Adam, random start"),
    "kick": (ORANGE, ":", 1.2, "Adam, kicked"),
    "plain": (GREY, "-.", 1.2, "Adam"),
    "neon": (BLUE, "-", 1.8, "Neon(Adam)"),
}
"""Of a way in the figure: colour, dashes, width and name."""


def figure(path: Path, seed: int, steps: int, window: int = 10) -> None:
    """Loss curves with Adam, one panel a problem; means over `window` steps."""
    problems = [make() for make in STUCK]
    with drawn(2.0 * len(problems), 2.4) as fig:
        axes = fig.subplots(1, len(problems))
        for ax, problem in zip(axes, problems, strict=True):
            for way, (colour, dashes, width, label) in LOOKS.items():
                losses = train(problem, "adam", seed, way, steps).losses
                means = [statistics.fmean(losses[i : i + window]) for i in range(0, len(losses), window)]
                ax.plot(range(0, len(losses), window), means, color=colour, ls=dashes, lw=width, label=label)
            ax.set_title(problem.name)
            ax.set_xlabel("step")
        axes[0].set_ylabel("training loss")
        fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(LOOKS))
        fig.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    print(f"figure: {path}, {path.stat().st_size / 1024:.0f} KB")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = options(__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--only", default="", help="part of a problem's name")
    parser.add_argument("--kicks", action="store_true", help="nine kick sizes beside the classifiers at zero")
    parser.add_argument(
        "--figure", type=Path, nargs="?", default=None, const=ROOT / "docs" / "figures" / "stuck.svg", metavar="FILE"
    )
    parser.add_argument("--scatter", action="store_true", help="only vary the share of noise in a jump")
    chosen = parser.parse_args(arguments)
    report = Report.begin("stuck", chosen)
    if chosen.scatter:
        for make in STUCK:
            if chosen.only.lower() in make().name.lower():
                scatter(report, make(), chosen.seeds, chosen.steps)
        return report.end(chosen.out)
    if chosen.figure is not None:
        figure(chosen.figure, report.seed, chosen.steps)
        return 0
    for make in STUCK:
        problem = make()
        if chosen.only.lower() in problem.name.lower():
            study(report, problem, chosen.seeds, chosen.steps)
    not_saddles(report, chosen.seeds, chosen.only)
    stuck_leaving.study(report, chosen.seeds, chosen.steps, chosen.only, chosen.kicks)
    return report.end(chosen.out)


if __name__ == "__main__":
    raise SystemExit(main())
