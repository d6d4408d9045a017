"""What unsaddle does, in two minutes: `make demo`, or python examples/demo.py [--out results/demo].

A network that is stuck, its verdict, its layers and the way down; SciPy's saddle; a molecule's saddle; and the paper's
figure. All of it is measured while you wait, and written as one page. Needs the extras cli, scipy and ase.
"""

from __future__ import annotations

import argparse
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import TensorDataset

import unsaddle
from unsaddle.experiments import rows as stored
from unsaddle.experiments.reproduce import reproduce
from unsaddle.pictures import MARK, MEASURED, drawn, journal, legend_under
from unsaddle.report import check
from unsaddle.report.blocks import Figure, Section
from unsaddle.report.page import drawing, save
from unsaddle.report.provenance import provenance
from unsaddle.report.sections import sections
from unsaddle.told import WIDTH

STEPS = 300
STUCK = (
    f"An autoencoder, all weights zero: its gradient is zero, and {STEPS} steps of SGD do not change its loss. "
    "F is its loss on all rows, x are its weights. Is x a minimum?"
)
TITLE = "unsaddle: what it does, measured while you waited"
INTRODUCTION = (
    "A network that is stuck, and how it gets off. Then SciPy's saddle, a molecule's, and the paper's figure. "
    "Every number on this page was measured in this run."
)


def network() -> list[Section]:
    """An autoencoder with all weights zero: it does not train; its verdict; it trains after one step down."""
    torch.manual_seed(0)
    rows = torch.randn(1024, 16) @ torch.diag(torch.linspace(2.0, 0.1, 16))
    model = nn.Sequential(nn.Linear(16, 4, bias=False), nn.Tanh(), nn.Linear(4, 16, bias=False))
    for parameter in model.parameters():
        nn.init.zeros_(parameter)

    def loss(model: nn.Module, batch: tuple[torch.Tensor, ...]) -> torch.Tensor:
        return (model(batch[0]) - batch[0]).square().sum(dim=1).mean()

    def train() -> list[float]:
        optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.02), []
        for _ in range(STEPS):
            optimizer.zero_grad()
            value = loss(model, (rows[torch.randint(len(rows), (64,))],))
            value.backward()
            optimizer.step()
            losses.append(value.item())
        return losses

    before = train()
    objective = unsaddle.ModelObjective(model, loss, TensorDataset(rows))
    verdict = unsaddle.is_minimum(objective)
    where = verdict.where()
    _tell(STUCK)
    print(f"\n{verdict}\n  lives in    {where}\n")
    first, *written = check.sections(verdict, where)[:-1]
    written.insert(0, replace(first, title=f"A network that is stuck. {first.title}", paragraphs=[STUCK]))
    objective.assign(objective.point + verdict.length * verdict.direction)
    after = train()
    said = (
        f"{STEPS} steps of SGD from all weights zero: the mean loss of the last 50 is {_mean(before):.2f}. After one "
        f"step of length {verdict.length:.2g} along the direction, {STEPS} more: {_mean(after):.2f}."
    )
    _tell(said)
    with drawn(7.0, 2.8) as figure:
        axes = figure.subplots()
        axes.plot(range(STEPS), before, color=MEASURED, linewidth=0.8, label="stuck")
        axes.plot(range(STEPS, 2 * STEPS), after, color=MARK, linewidth=0.8, label="after the step down")
        axes.set_xlabel("steps of SGD, batches of 64")
        axes.set_ylabel("loss of the batch")
        legend_under(axes)
    curve = Figure(name="way-down", figure=figure, caption="The loss before and after one step along the direction.")
    return [*written, Section(title="The way down, taken", paragraphs=[said], figures=[curve])]


def _tell(said: str) -> None:
    """Print a paragraph in lines that a terminal can hold."""
    print(textwrap.fill(said, WIDTH), flush=True)


def _mean(losses: list[float]) -> float:
    return sum(losses[-50:]) / 50


def scipy_saddle() -> Section:
    """SciPy's minimize from a start whose gradients lead to a saddle, and the promoted one from there."""
    import scipy.optimize

    from unsaddle.interop.scipy import minimize

    def fun(x: list[float]) -> float:
        return x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4

    plain, ours = scipy.optimize.minimize(fun, [1.0, 0.0]), minimize(fun, [1.0, 0.0])
    said = (
        f"f(x) = x₀² − x₁² + x₁⁴/4 from (1, 0). scipy.optimize.minimize: success={plain.success}, f = {plain.fun:.3g}, "
        f"at the saddle. unsaddle.interop.scipy.minimize: {ours.verdict.kind}, f = {ours.fun:.3g}; "
        f"it met {ours.escapes} saddle on its way, and went on."
    )
    _tell(said)
    return Section(title="SciPy's saddle", paragraphs=[said])


def molecule() -> Section:
    """Four copper atoms that relax onto a square, which is a saddle."""
    from ase import Atoms
    from ase.calculators.emt import EMT
    from ase.optimize import BFGS

    from unsaddle.interop import ase

    square = Atoms("Cu4", [[0, 0, 0], [2.4, 0, 0], [2.4, 2.4, 0], [0, 2.4, 0]], calculator=EMT())
    BFGS(square, logfile=None).run(fmax=0.01)
    verdict, energy = ase.is_minimum(square), square.get_potential_energy()
    picture = Figure(name="molecule", figure=verdict.plot(), caption="The energy along the mode, with EMT.")
    ase.Neon(square, logfile=None).run(fmax=0.01)
    said = (
        f"Four copper atoms, relaxed by ASE's BFGS: a square. {verdict.reason} "
        f"unsaddle.interop.ase.Neon goes on from there: {ase.is_minimum(square).kind}, "
        f"{energy - square.get_potential_energy():.2f} eV lower."
    )
    _tell(said)
    return Section(title="A molecule's saddle", paragraphs=[said], figures=[picture])


def main() -> None:
    """Run all of it, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("results/demo"))
    parser.add_argument("--targets", type=int, default=2, help="points of the paper's figure")
    parser.add_argument("--iterations", type=int, default=300, help="of each of its curves")
    parser.add_argument("--features", type=int, default=5000, help="dimension of its data")
    options = parser.parse_args()
    begun = time.perf_counter()
    print("What unsaddle does, in four parts and about two minutes. All of it is also written as a page.\n")
    print("1 of 4: a network that is stuck", flush=True)
    written = network()
    print("\n2 of 4: SciPy", flush=True)
    written.append(scipy_saddle())
    print("\n3 of 4: a molecule", flush=True)
    written.append(molecule())
    print("\n4 of 4: the paper's figure, for researchers: how fast each search sees the curvature", flush=True)
    reproduce(options.out, targets=options.targets, iterations=options.iterations, num_features=options.features)
    rows = stored.read(options.out)
    with journal():
        paper = [section for section in sections(rows) if section.title.startswith("Figure 1")]
        written += [*paper, *provenance(rows)]
        drawings = {figure.name: drawing(figure) for section in written for figure in section.figures}
    page = save(options.out, written, drawings, title=TITLE, introduction=INTRODUCTION)
    print(f"\nThe page: {page.resolve()} ({time.perf_counter() - begun:.0f} s)")


if __name__ == "__main__":
    main()
