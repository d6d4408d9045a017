"""An extraction on several ranks: time a step, what a cost model predicts for it, and memory a rank.

    python -m benchmarks.ranks [--ranks 1 2 4]

Real processes (torchrun, gloo, one thread each) on this machine. A network of ten square layers, in DDP and sharded by
FSDP2, is probed by NEON, whose step is one gradient, a few passes over a vector, and one message of scalars.

- *strong scaling*: the same rows in all, shared among the ranks; *weak scaling*: the same rows on each rank. Ideal is
  1/p of the time, and the same time. More ranks than cores cannot be faster.
- *the model* (benchmarks.ranks_model): the terms of a step are measured one by one, on as many ranks at once: a bare
  gradient of the same rows, an axpy, a message of scalars, the collectives of the gradient. What FSDP2 itself adds
  is measured on one rank. Printed: steps as measured, over the sum of the terms.
- *memory*: what a probe adds to a rank's peak beyond training's, in vectors of the whole model. With FSDP2 it should
  fall as 1/p. In processes of their own, with a larger network and few rows.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from benchmarks.environment import ROOT, Report, options, table
from benchmarks.memory import peak_bytes
from benchmarks.ranks_model import PASSES, Terms
from unsaddle import ModelObjective, negative_curvature

WIDTH, DEPTH, ROWS = 512, 10, 512
WIDE, FEW_ROWS = 2048, 16
"""For memory: 42 million parameters, a vector of 168 MB."""
GRADIENTS = 40
"""Budget of a probe by NEON, of which a part is kept back for measuring what is found."""
COLD = 10
"""Vectors that an axpy goes through, so that it finds none of them in the cache, as a step does not."""
BASIS = 8
"""Vectors that krylov may hold."""
HELD = ("neon", "neon+", "krylov")
KINDS = ("ddp", "fsdp")


def network(width: int) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*(layer for _ in range(DEPTH) for layer in (nn.Linear(width, width), nn.Tanh())))


def loss(model: nn.Module, batch: list[Tensor]) -> Tensor:
    return (model(batch[0]) - batch[1]).square().mean()


def wrap(model: nn.Module, kind: str) -> nn.Module:
    if kind == "ddp":
        return nn.parallel.DistributedDataParallel(model) if dist.get_world_size() > 1 else model
    from torch.distributed.fsdp import fully_shard

    for layer in model.children():
        if isinstance(layer, nn.Linear):
            fully_shard(layer)
    fully_shard(model)
    return model


def some_rows(count: int, width: int) -> list[Tensor]:
    return [torch.randn(count, width), torch.randn(count, width)]


def timed(actions: dict[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """Median seconds of each, taken in turns, all ranks beginning together; an action says how many times it acted."""
    seconds: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(rounds + 1):
        for name, action in actions.items():
            dist.barrier()
            begin = time.perf_counter()
            count = action()
            seconds[name].append((time.perf_counter() - begin) / count)
    return {name: statistics.median(taken[1:]) for name, taken in seconds.items()}


def repeated(times: int, action: Callable[[], object]) -> Callable[[], float]:
    def act() -> float:
        for _ in range(times):
            action()
        return times

    return act


def time_steps(kind: str, rounds: int) -> dict[str, Any]:
    """Steps, and their terms one by one."""
    p = dist.get_world_size()
    model, bare = wrap(network(WIDTH), kind), network(WIDTH)
    length = sum(parameter.numel() for parameter in bare.parameters())
    own = length if kind == "ddp" else -(-length // p)
    layer = -(-WIDTH * (WIDTH + 1) // p)
    shard, gathered = torch.zeros(layer), torch.zeros(layer * p)
    vector, scalars = torch.zeros(length), torch.zeros(4, dtype=torch.float64)
    moved, other = torch.zeros(COLD, own), torch.zeros(COLD, own)

    def step_of(rows: int) -> Callable[[], float]:
        objective = ModelObjective(model, loss, [some_rows(rows, WIDTH)])  # One batch: no rows are gathered.
        return lambda: probe(objective, "neon")

    def gradient_of(net: nn.Module, rows: int) -> Callable[[], float]:
        batch = some_rows(rows, WIDTH)

        def gradient() -> None:
            net.zero_grad()
            loss(net, batch).backward()

        return repeated(4, gradient)

    def axpys() -> float:
        moved.add_(other, alpha=1e-3)
        return COLD

    actions = {
        "strong": step_of(ROWS // p),
        "weak": step_of(ROWS),
        "gradient strong": gradient_of(bare, ROWS // p),
        "gradient weak": gradient_of(bare, ROWS),
        "axpy": axpys,
    }
    if p == 1:
        actions["wrapped"] = gradient_of(model, ROWS)
    else:
        actions["scalars"] = repeated(50, lambda: dist.all_reduce(scalars))
        actions["all-reduce"] = repeated(2, lambda: dist.all_reduce(vector))
        actions["gather"] = repeated(DEPTH, lambda: dist.all_gather_into_tensor(gathered, shard))
        actions["scatter"] = repeated(DEPTH, lambda: dist.reduce_scatter_tensor(shard, gathered))
    return {"p": p, "bytes": 4 * length} | timed(actions, rounds)


def hold_vectors(kind: str, extractor: str) -> dict[str, Any]:
    """Training's peak on this rank, and what a probe adds to it."""
    model = wrap(network(WIDE), kind)
    whole = 4 * sum(parameter.numel() for parameter in model.parameters())
    objective = ModelObjective(model, loss, [some_rows(FEW_ROWS, WIDE)])
    Path("/proc/self/clear_refs").write_text("5")  # The peak of making the network, whole, is not training's.
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    batch = some_rows(FEW_ROWS, WIDE)
    for _ in range(2):
        optimizer.zero_grad()
        loss(model, batch).backward()
        optimizer.step()
    optimizer.zero_grad()
    training = peak_bytes()
    probe(objective, extractor)
    return {"p": dist.get_world_size(), "training": training / whole, "vectors": (peak_bytes() - training) / whole}


def probe(objective: ModelObjective, extractor: str) -> int:
    """The gradients that it took: NEON until the budget is spent, as the curvature that it seeks is not there, krylov
    until it is done."""
    if extractor == "krylov":
        return negative_curvature(objective, objective.point, extractor=extractor, basis=BASIS).cost.gradients
    found = negative_curvature(
        objective,
        objective.point,
        extractor=extractor,
        gamma=10.0,
        smoothness=1e4,
        hessian_lipschitz=0.0,
        max_gradients=GRADIENTS,
    )
    return found.cost.gradients


def on_ranks(p: int, kind: str, what: str, rounds: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(p)]
    command += ["-m", "benchmarks.ranks", "--child", kind, what, "--rounds", str(rounds)]
    # What is freed goes back to the system at once, so that a peak is that of what is held.
    limits = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"} if what in HELD else {}
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | limits
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{p} ranks of {kind} failed:\n{done.stderr[-2000:]}")
    answer: dict[str, Any] = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
    return answer


def terms(kind: str, how: str, at: dict[str, Any], one: dict[str, Any]) -> Terms:
    """Of a step on p ranks; what FSDP2 adds is taken from one rank."""
    busy = at["gradient weak"] / one["gradient weak"]  # Ranks share cores, and memory.
    collectives = at.get("all-reduce", 0.0)
    if kind == "fsdp":
        collectives = DEPTH * (2.0 * at.get("gather", 0.0) + at.get("scatter", 0.0))
    return Terms(
        gradient=at[f"gradient {how}"],
        wrapper=busy * max(0.0, one["wrapped"] - one["gradient weak"]),
        passes=PASSES * at["axpy"],
        scalars=at.get("scalars", 0.0),
        collectives=collectives,
    )


def time_kind(report: Report, kind: str, ranks: list[int], rounds: int) -> None:
    seen = {p: on_ranks(p, kind, "steps", rounds) for p in ranks}
    one = seen[ranks[0]]
    lines, parts = [], []
    for p, at in seen.items():
        expected = {how: terms(kind, how, at, one) for how in ("strong", "weak")}
        ratios = [f"{1e3 * at[how]:.0f} ({at[how] / expected[how].step:.2f})" for how in expected]
        lines.append([str(p), *ratios, f"{one['strong'] / at['strong']:.2f}", f"{one['weak'] / at['weak']:.2f}"])
        weak = expected["weak"]
        shares = (weak.gradient, weak.wrapper, weak.passes, weak.collectives, weak.scalars)
        parts.append([str(p), *(f"{1e3 * t:.2f}" for t in shares)])
        for how, sum_of in expected.items():
            report.row(
                settings={"kind": kind, "ranks": p, "scaling": how},
                status="timed",
                measured=at[how],
                expected=sum_of.step,
                terms=at,
            )
    table(
        f"{kind}: ms a NEON step (measured over predicted), {one['bytes'] / 4e6:.1f}M parameters, {ROWS} rows",
        ["ranks", "strong", "weak", "strong speed-up (ideal: p)", "weak efficiency (ideal: 1)"],
        lines,
    )
    table(
        f"{kind}: terms of a step of weak scaling, ms",
        ["ranks", "gradient", "wrapper", "passes", "collectives", "scalars"],
        parts,
    )


def hold_kind(report: Report, kind: str, ranks: list[int]) -> None:
    lines = []
    for p in ranks:
        held = {extractor: on_ranks(p, kind, extractor, 1) for extractor in HELD}
        lines.append(
            [str(p), f"{held['neon']['training']:.2f}", *(f"{at['vectors']:.2f}" for at in held.values())],
        )
        report.row(settings={"kind": kind, "ranks": p, "width": WIDE}, status="held", **held)
    table(
        f"{kind}: peak of a rank in training, and what a probe adds, in vectors of the whole model (168 MB); "
        f"krylov with a basis of {BASIS}",
        ["ranks", "training", *HELD],
        lines,
    )


def main() -> int:
    parser = options("An extraction on several ranks: time, a cost model, memory.")
    parser.add_argument("--ranks", type=int, nargs="*", default=[1, 2, 4], help="the first should be 1")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=["time", "memory"])
    parser.add_argument("--child", nargs=2, metavar=("KIND", "WHAT"), help="be one rank (used inside)")
    chosen = parser.parse_args()
    if chosen.child:
        kind, what = chosen.child
        torch.set_num_threads(1)
        dist.init_process_group("gloo")
        answer = time_steps(kind, chosen.rounds) if what == "steps" else hold_vectors(kind, what)
        dist.barrier()
        if dist.get_rank() == 0:
            print(json.dumps(answer), flush=True)
        os._exit(0)  # Gloo's threads now and then abort a process on its way out.
    report = Report.begin("ranks", chosen)
    for kind in KINDS:
        if chosen.only != "memory":
            time_kind(report, kind, chosen.ranks, chosen.rounds)
        if chosen.only != "time":
            hold_kind(report, kind, chosen.ranks)
    return report.end(chosen.out)


if __name__ == "__main__":
    raise SystemExit(main())
