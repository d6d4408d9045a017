"""The monitor along training: is λ_max that of a large batch, and what does it cost?

- *Accuracy*: a small transformer and a conv net, batches of 128, SGD and AdamW; the monitor's λ_max, at every row after
  the first steps, beside Lanczos with exact products in float64 on all rows, of the same preconditioned Hessian, at the
  step that the row is of.
- *Overhead*: gradients, and the processor's time of a training beside one without, in turns of 50 steps.
- `--figure FILE`: the edge of stability of full-batch gradient descent, as the monitor sees it.

    python -m benchmarks.monitor --threads 1
    python -m benchmarks.monitor --threads 1 --figure docs/figures/edge-of-stability.svg
"""

from __future__ import annotations

import copy
import statistics
import warnings
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator, eigsh
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.data import TensorDataset

from benchmarks.environment import Report, options, table
from benchmarks.networks import in_double
from benchmarks.spectrum_peers import timed
from benchmarks.trained_networks import Network, digit, networks
from unsaddle import CurvatureMonitor, ModelObjective, eigenpairs
from unsaddle.objectives.model.parameters import FlatParameters
from unsaddle.pictures import BLUE, GREEN, ORANGE, drawn
from unsaddle.torch_optim.monitor_limit import sizes

WITHIN, OVERHEAD = 0.05, 0.05
TURN, BATCH = 50, 128
SMOOTHING = 0.1
"""Label smoothing of the conv net. Without it the digits are learnt by heart within some hundred steps, and λ_max is
then that of a few rows: it changes by half between batches of 512, and there is no truth to be within 5 % of."""
CASES = {
    "GPT-2, SGD": ("GPT-2", lambda p: torch.optim.SGD(p, lr=0.1), 4500),
    "GPT-2, AdamW": ("GPT-2", lambda p: torch.optim.AdamW(p, lr=1e-3), 4500),
    "conv net, SGD": ("conv, GELU", lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9), 9000),
    "conv net, AdamW": ("conv, GELU", lambda p: torch.optim.AdamW(p, lr=1e-3), 9000),
}
"""The network, its optimizer, and steps of training."""


def smoothed(model: torch.nn.Module, batch: tuple[torch.Tensor, ...]) -> torch.Tensor:
    return functional.cross_entropy(model(batch[0]), batch[1], label_smoothing=SMOOTHING)


@dataclass
class Training:
    """A network in training, with or without the monitor."""

    network: Network
    optimizer: torch.optim.Optimizer
    generator: torch.Generator
    monitor: CurvatureMonitor | None
    seconds: float = 0.0
    steps: int = 0
    left: torch.Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.long))
    """Rows that this epoch has not had yet."""
    points: dict[int, tuple[list[torch.Tensor], torch.Tensor | None]] = field(default_factory=dict)
    """Parameters and S before the last steps at which the monitor may have looked, by step."""

    def advance(self, steps: int) -> None:
        """All steps but the last, whose point is kept, and the last: a turn ends at a multiple of `TURN`."""
        self.seconds += timed(lambda: [self._step() for _ in range(steps - 1)])
        if self.monitor is not None:
            flat = FlatParameters(self.network.model.parameters())
            kept = [p.detach().clone() for p in flat.tensors], sizes(self.optimizer, flat)
            self.points = {step: point for step, point in self.points.items() if step > self.steps - 4 * TURN}
            self.points[self.steps + steps] = kept
        self.seconds += timed(self._step)
        self.steps += steps

    def _step(self) -> None:
        """The next rows of an epoch, as a DataLoader with shuffle=True and drop_last=True has them."""
        if len(self.left) < BATCH:
            self.left = torch.randperm(len(self.network.rows[0]), generator=self.generator)
        chosen, self.left = self.left[:BATCH], self.left[BATCH:]
        batch = tuple(part[chosen] for part in self.network.rows)

        def closure() -> torch.Tensor:
            self.optimizer.zero_grad()
            loss = self.network.loss(self.network.model, batch)
            loss.backward()
            return loss

        self.optimizer.step(closure)


def begun(make: Callable[[], Network], optimizer: Callable, monitored: bool, args: Namespace) -> Training:
    torch.manual_seed(args.seed)
    network = make()
    if network.loss is digit:
        network = replace(network, loss=smoothed)
    chosen = optimizer(network.model.parameters())
    monitor = CurvatureMonitor(chosen, warn=False) if monitored else None
    return Training(network, chosen, torch.Generator().manual_seed(args.seed), monitor)


def large_batch(training: Training, step: int) -> float:
    """λ_max of S∇²F(x)S before a step, on all rows, by eigsh on exact products in float64."""
    parameters, s = training.points[step]
    model = copy.deepcopy(training.network.model)
    for p, content in zip(model.parameters(), parameters, strict=True):
        p.data.copy_(content)
    network = replace(training.network, model=model)
    f, x = in_double(network, network.rows)
    scale = torch.ones_like(x) if s is None else s.double()

    def product(v: np.ndarray) -> np.ndarray:
        with sdpa_kernel(SDPBackend.MATH):
            return (scale * f.hvp(x, scale * torch.from_numpy(v.reshape(-1).copy()))).numpy()

    operator = LinearOperator((x.numel(),) * 2, matvec=product, dtype=np.float64)
    start = np.random.default_rng(0).normal(size=x.numel())
    return float(eigsh(operator, k=1, which="LA", tol=3e-2, ncv=10, v0=start, return_eigenvectors=False)[0])


def follow(name: str, args: Namespace, report: Report) -> list[list[str]]:
    """The monitor's rows beside the truth; and the processor's time with a monitor beside that without, in turns."""
    part, optimizer, steps = CASES[name]
    make = next(make for title, make in networks().items() if part in title)
    watched, plain = (begun(make, optimizer, monitored, args) for monitored in (True, False))
    assert watched.monitor is not None
    rows, offs, held, told = list[list[str]](), list[float](), list[bool](), 0
    while watched.steps < min(steps, args.steps):
        for one in (watched, plain) if watched.steps % (2 * TURN) else (plain, watched):
            one.advance(TURN)
        seen = watched.monitor.rows_since(told)
        told += len(seen)
        for row in seen:
            if row.warning or row.measured_at is None or row.measured_at < args.after:
                continue
            true = large_batch(watched, row.measured_at)
            offs.append(abs(row.sharpness / true - 1.0))
            held.append(abs(row.sharpness - true) <= row.sharpness_error)
            settings = {"case": name, "step": row.measured_at}
            report.row(settings=settings, status="done", seen=row.row(), truth=true, off=offs[-1])
            rows.append(
                [name, f"{row.measured_at}", f"{true:.4g}", f"{row.sharpness:.4g} ± {row.sharpness_error:.2g}",
                 f"{row.sharpness / true - 1.0:+.1%}", f"{row.batches}", f"{row.limit:.4g}", f"{row.lowest:.3g}"]
            )  # fmt: skip
            print("   ", *rows[-1], flush=True)
    print(f"    {name}: off by {min(offs):.1%} to {max(offs):.1%}, {sum(held)} of {len(held)} within the stated error")
    print(f"    {name}: {1e3 * plain.seconds / plain.steps:.2f} ms a step", flush=True)
    same = all(
        torch.equal(a, b)
        for a, b in zip(watched.network.model.parameters(), plain.network.model.parameters(), strict=True)
    )
    report.want(f"{name}: trained parameters are those without a monitor (1: bit for bit)", float(same), 1.0, 1.0)
    report.want(f"{name}: λ_max off by, median", statistics.median(offs), WITHIN)
    report.want(f"{name}: overhead in gradients", watched.monitor.overhead, OVERHEAD)
    report.want(f"{name}: overhead in time", watched.seconds / plain.seconds - 1.0, OVERHEAD)
    return rows


@dataclass
class Edge:
    """Full-batch gradient descent at one learning rate: losses, the monitor's λ_max, and that of Lanczos."""

    rate: float
    losses: list[float] = field(default_factory=list)
    seen: list[tuple[int, float]] = field(default_factory=list)
    truth: list[tuple[int, float]] = field(default_factory=list)
    warned: int | None = None


def descend(rate: float, args: Namespace) -> Edge:
    """A network of tanh on 256 digits, squared error, as Cohen et al. (2021) have it."""
    network = next(make for title, make in networks().items() if "conv, GELU" in title)()
    images, labels = (part[:256] for part in network.rows)
    torch.manual_seed(args.seed)
    model = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64), torch.nn.Tanh(),
        torch.nn.Linear(64, 10),
    )  # fmt: skip
    targets = functional.one_hot(labels, 10).float()
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    monitor, edge = CurvatureMonitor(optimizer, warn=False, seed=args.seed), Edge(rate)
    objective = ModelObjective(
        model, lambda m, b: 0.5 * (m(b[0]) - b[1]).square().sum(dim=1).mean(), TensorDataset(images, targets)
    )

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = 0.5 * (model(images) - targets).square().sum(dim=1).mean()
        loss.backward()
        edge.losses.append(float(loss.detach()))
        return loss

    truth: dict[int, float] = {}
    for step in range(1, args.descent + 1):
        optimizer.step(closure)
        if step >= 400 and step % monitor.every == monitor.every - 1:  # The parameters of the next step.
            found = eigenpairs(objective, lowest=0, highest=1, copies=False, seed=args.seed)
            truth[step + 1] = float(found.values[-1])
    edge.seen = [(row.measured_at, row.sharpness) for row in monitor.rows if row.measured_at and not row.warning]
    edge.truth = [(step, truth[step]) for step, _ in edge.seen if step in truth]
    edge.warned = next((row.step for row in monitor.rows if row.warning), None)
    return edge


def draw(args: Namespace) -> int:
    """The edge of stability: λ_max rises to 2/η and stays there, while the loss goes on falling, no more evenly."""
    edges = [descend(rate, args) for rate in args.rates]
    with drawn(7.0, 2.8) as figure:
        _draw(edges, *figure.subplots(1, 2))
        figure.savefig(args.figure, metadata={"Date": None} if args.figure.suffix == ".svg" else None)
    return 0


def _draw(edges: list[Edge], left: Any, right: Any) -> None:
    for edge, colour in zip(edges, (BLUE, ORANGE, GREEN), strict=False):
        left.plot(range(1, len(edge.losses) + 1), edge.losses, color=colour, linewidth=0.8, label=f"η = {edge.rate:g}")
        monitor, lanczos, limit = ("monitor", "Lanczos", "2/η") if edge is edges[0] else (None, None, None)
        right.plot(*zip(*edge.seen, strict=True), color=colour, linewidth=1.0, label=monitor)
        right.plot(*zip(*edge.truth, strict=True), "o", color=colour, markersize=3.5, label=lanczos)
        right.axhline(2.0 / edge.rate, color=colour, linestyle=":", linewidth=1.0, label=limit)
        if edge.warned is not None:
            right.axvline(edge.warned, color=colour, alpha=0.3, linewidth=3.0)
        off = [abs(dict(edge.seen)[step] / value - 1.0) for step, value in edge.truth]
        print(
            f"η = {edge.rate:g}: 2/η = {2.0 / edge.rate:g}, warned at step {edge.warned}, λ_max at the end "
            f"{edge.seen[-1][1]:.4g}, off by at most {max(off):.1%}, median {statistics.median(off):.1%}"
        )
    left.set_yscale("log")
    left.set_xlabel("step of gradient descent")
    left.set_ylabel("loss")
    left.legend()
    right.set_xlabel("step of gradient descent")
    right.set_ylabel("λ_max")
    right.legend(ncols=3, loc="upper center")
    right.set_ylim(0.0, 2.6 / min(edge.rate for edge in edges))


def main() -> int:
    parser = options(__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=9000, help="of training, at most")
    parser.add_argument("--after", type=int, default=600, metavar="STEP", help="compare rows from this step on")
    parser.add_argument("--only", nargs="*", default=list(CASES), metavar="PART", help="cases with this in their name")
    parser.add_argument("--figure", type=Path, default=None, metavar="FILE", help="draw the edge of stability")
    parser.add_argument("--rates", type=float, nargs="*", default=[0.1, 0.2], help="learning rates of the figure")
    parser.add_argument("--descent", type=int, default=3000, help="steps of the figure")
    args = parser.parse_args()
    report = Report.begin("monitor", args)
    warnings.simplefilter("ignore", UserWarning)
    if args.figure is not None:
        return draw(args)
    rows = [row for name in CASES if any(part in name for part in args.only) for row in follow(name, args, report)]
    table(
        "λ_max along training", ["", "step", "all rows", "monitor", "off by", "batches", "limit", "λ_min at most"], rows
    )
    return report.end(args.out)


if __name__ == "__main__":
    raise SystemExit(main())
