"""float32 networks that others wrote: is their most negative curvature found, confirmed and right?

Trains small networks of torch and transformers for a few hundred steps: transformers (GELU, ReLU), GRU, LSTM,
convolutions (ReLU with max-pooling, GELU) and linear layers with ReLU. `negative_curvature` and `is_minimum` then look
at each with their defaults, on one frozen batch and on the whole data set. The truth is a Lanczos run with exact
Hessian products of the same network in float64.

With `--peer` the time is measured too (`benchmarks.peer`), on one thread and on `--threads`.

Wanted of both, in every case with −λ_min ≥ 0.01·λ_max: found, confirmed, and within 5 % of the curvature that float64
sees along the same direction.
"""

from __future__ import annotations

import copy
import math
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.data import TensorDataset

from benchmarks import peer
from benchmarks.environment import Report, options, table
from benchmarks.trained_networks import BATCH, Network, networks, trained
from unsaddle import Curvature, Function, ModelObjective, Verdict, is_minimum, negative_curvature
from unsaddle.curvature.krylov.lanczos import ritz_pairs
from unsaddle.curvature.power import second_order
from unsaddle.objective import SecondOrderFunction
from unsaddle.objectives.model.data import MICRO_BATCH

WITHIN = 0.05


def in_double(network: Network, rows: tuple[Tensor, ...]) -> tuple[SecondOrderFunction, Tensor]:
    """The loss in float64 as a function of one vector, with exact Hessian products, and the vector."""
    model = copy.deepcopy(network.model).double()
    rows = tuple(part.double() if part.is_floating_point() else part for part in rows)
    shapes = {name: p.shape for name, p in model.named_parameters()}

    class Called(nn.Module):
        def forward(self) -> Tensor:
            return network.loss(model, rows)

    called = Called()
    called.model = model

    def loss(x: Tensor) -> Tensor:
        pieces = x.split([shape.numel() for shape in shapes.values()])
        values = {
            f"model.{name}": piece.view(shape) for (name, shape), piece in zip(shapes.items(), pieces, strict=True)
        }
        return torch.func.functional_call(called, values, ())

    x = nn.utils.parameters_to_vector(p for _, p in model.named_parameters()).detach()
    return second_order(Function(loss).sample(hessian=True)), x


def truth(f: SecondOrderFunction, x: Tensor, steps: int) -> tuple[float, float]:
    """λ_min and λ_max by exact products in float64."""
    with sdpa_kernel(SDPBackend.MATH):
        start = torch.randn(x.numel(), generator=torch.Generator().manual_seed(0), dtype=x.dtype)
        *_, (process, _) = ritz_pairs(f, x, start / start.norm(), steps)
    return float(process.projection.values[0]), float(process.projection.values[-1])


def along(f: SecondOrderFunction, x: Tensor, v: Tensor) -> float:
    """The curvature along v by an exact product in float64."""
    with sdpa_kernel(SDPBackend.MATH):
        return float(v.double() @ f.hvp(x, v.double()))


@dataclass(frozen=True)
class Look:
    """One network on one set of rows: the truth, both public calls, and, with a peer, the time."""

    name: str
    data: str
    size: int
    x_norm: float
    lowest: float
    highest: float
    found: Curvature
    off: float
    """How far the curvature is from that of float64 along the same direction, as a share of it."""
    verdict: Verdict
    verdict_off: float
    """The same of the verdict's curvature."""
    seeds: list[peer.Seed]
    times: list[peer.Times]

    @property
    def cells(self) -> list[str]:
        found, verdict = self.found, self.verdict
        cells = [f"{self.name}, {self.data}", f"{self.size}", f"{self.x_norm:.0f}", f"{self.lowest:.4g}"]
        cells += [f"{-self.lowest / self.highest:.3f}", found.status.name, f"{found.curvature:.4g}", f"{self.off:.1e}"]
        cells += [f"{found.cost.gradients}", str(verdict.kind), f"{verdict.curvature:.4g}", f"{self.verdict_off:.1e}"]
        return [*cells, f"{verdict.cost.gradients}"]


def look(network: Network, name: str, data: str, size: int, args: Namespace) -> Look:
    """Compares one network, on its first `size` rows, with float64 and, if asked for, with the peer."""
    part = tuple(p[:size] for p in network.rows)
    exact = in_double(network, part)
    lowest, highest = truth(*exact, args.lanczos)
    objective = ModelObjective(network.model, network.loss, TensorDataset(*part))
    found = negative_curvature(objective, seed=args.seed, basis=args.basis)
    verdict = is_minimum(objective, seed=args.seed)

    def off(result: Curvature | Verdict) -> float:
        v = result.direction
        return math.nan if v is None else abs(result.curvature / along(*exact, v) - 1.0)

    seeds, times = list[peer.Seed](), list[peer.Times]()
    if args.peer:
        batches = list(zip(*(p.tensor_split(-(-size // MICRO_BATCH)) for p in part), strict=True))
        case = peer.Case(network.model, network.loss, batches, objective, lambda v: along(*exact, v))
        seeds = peer.compare(case, args.starts)
        both = [row for row in seeds if row.steps is not None]
        times = [peer.times(case, both, threads, args.rounds) for threads in range(1, args.threads + 1) if both]
    return Look(
        name=name,
        data=data,
        size=exact[1].numel(),
        x_norm=float(exact[1].norm()),
        lowest=lowest,
        highest=highest,
        found=found,
        off=off(found),
        verdict=verdict,
        verdict_off=off(verdict),
        seeds=seeds,
        times=times,
    )


def note(report: Report, seen: Look) -> None:
    """Keep the rows of a look, and what was wanted of it."""
    settings, found = {"network": seen.name, "data": seen.data}, seen.found
    measured = {"lowest": seen.lowest, "highest": seen.highest, "curvature": found.curvature, "off": seen.off}
    verdict = {"verdict": str(seen.verdict.kind), "verdict_off": seen.verdict_off}
    report.row(settings=settings, status=found.status.name, **measured, **verdict)
    print(seen.cells, seen.verdict.reason, flush=True)
    if -seen.lowest >= 0.01 * seen.highest:
        for call, result, off in (("", found, seen.off), (" by is_minimum", seen.verdict, seen.verdict_off)):
            off = off if result.direction is not None else 1.0
            report.want(f"{seen.name}, {seen.data}: found{call}, and off by", off, WITHIN)
    for row in seen.seeds:
        status = "done" if row.steps is not None else "the peer does not come as low"
        print(f"  start {row.seed}: {status}; {row}", flush=True)
        report.row(settings=settings | {"start": row.seed}, status=status, **asdict(row))
    for times in seen.times:
        where = f"{seen.name}, {seen.data}, {times.threads} threads"
        report.row(settings=settings | {"threads": times.threads}, status="done", **asdict(times))
        report.want(f"{where}: gradients of time for each of ours", times.step[0], peer.STEP_OVER_GRADIENT)
        report.want(f"{where}: times faster than the peer", times.faster[0], math.inf, peer.FASTER)


def tables(seen: Sequence[Look]) -> None:
    """Print the truth beside the public calls, and the times."""
    heads = ["", "d", "‖x‖", "λ_min", "-λ_min/λ_max", "status", "curvature", "off by", "gradients", "verdict"]
    heads += ["curvature", "off by", "gradients"]
    table("float32 networks, public calls with defaults", heads, [one.cells for one in seen])
    rows = []
    for one in seen:
        for times in one.times:
            ours, theirs = (f"{[getattr(s, key) for s in one.seeds]}" for key in ("gradients", "steps"))
            both = [s for s in one.seeds if s.steps is not None]
            reached = [sum(getattr(s, who) for s in both) / len(both) for who in ("ours", "theirs")]
            cells = [f"{one.name}, {one.data}", f"{times.threads}", f"{times.gradient * 1e3:.1f} ms", ours, theirs]
            cells += [f"{curvature / one.lowest:.3f}" for curvature in reached]
            rows.append([*cells, *(f"{a:.2f} ({b:.2f})" for a, b in (times.step, times.faster))])
    heads = ["", "threads", "gradient", "our gradients", "peer's steps", "ours/λ_min", "peer's/λ_min"]
    if rows:
        heads += ["time of one of ours", "times faster"]
        table(f"beside {peer.NAME} by differences; wall time (processor time)", heads, rows)


def arguments(description: str) -> ArgumentParser:
    """The options of a look."""
    parser = options(description)
    parser.add_argument("--steps", type=int, default=300, help="of training")
    parser.add_argument("--rows", type=int, default=BATCH, help="of the frozen batch")
    parser.add_argument("--lanczos", type=int, default=60, help="exact products of the truth")
    parser.add_argument("--basis", type=int, default=None, help="vectors that krylov may hold; not for the times")
    parser.add_argument("--peer", action="store_true", help=f"install {peer.NAME}, and compare times")
    parser.add_argument("--starts", type=int, default=3, help="random starts that are timed")
    parser.add_argument("--rounds", type=int, default=5, help="of timing, on one thread and on --threads")
    return parser


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--only", nargs="*", default=None, metavar="PART", help="networks with this in their name")
    parser.add_argument("--whole", action="store_true", help="also on the whole data set")
    args = parser.parse_args()
    report = Report.begin("networks", args)
    seen = []
    for name, make in networks().items():
        if args.only is not None and not any(part in name for part in args.only):
            continue
        torch.manual_seed(args.seed)
        network = make()
        trained(network, args.steps, args.seed)
        for data, size in (("one batch", args.rows), *((("all", len(network.rows[0])),) if args.whole else ())):
            seen.append(look(network, name, data, size, args))
            note(report, seen[-1])
    tables(seen)
    return report.end(args.out)


if __name__ == "__main__":
    raise SystemExit(main())
