"""An extraction on several ranks: time a step, what a cost model predicts for it, and memory a rank.

    python -m benchmarks.ranks [--ranks 1 2 4]

Real processes (torchrun, gloo, one thread each) on this machine. A network of ten square layers, in DDP and sharded by
FSDP2, is probed by NEON, whose step is one gradient, a few passes over a vector, and one message of scalars.

- *strong scaling*: the same rows in all, shared among the ranks; *weak scaling*: the same rows on each rank. Ideal is
  1/p of the time, and the same time. More ranks than cores cannot be faster.
- *the model*: a step takes

      t = k·(rows·c + s) + α + w·β

  with c the time of a row and s the fixed part of a step (both from one rank, at two numbers of rows), k the ranks that
  share a core, α the time of a message of scalars and β that of an all-reduce as long as the gradient (both measured
  with bare collectives on as many ranks), w = 1 for DDP and 3/2 for FSDP2, which sends two all-gathers and one
  reduce-scatter. Printed: measured over predicted.
- *memory*: what a probe adds to a rank's peak beyond training's, in vectors of the whole model. With FSDP2 it should
  fall as 1/p.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from benchmarks.environment import ROOT, Report, options, table
from benchmarks.memory import peak_bytes
from unsaddle import ModelObjective, negative_curvature

WIDTH, DEPTH = 512, 10
ROWS = 512
GRADIENTS = 40
"""Budget of a probe, of which a part is kept back for measuring what is found."""
SHARE_OF_AN_ALL_REDUCE = {"ddp": 1.0, "fsdp": 1.5}
"""Bytes that a gradient sends, over those of one all-reduce of it."""


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*(layer for _ in range(DEPTH) for layer in (nn.Linear(WIDTH, WIDTH), nn.Tanh())))


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


def timed(action: Callable[[], object], times: int) -> float:
    """Median seconds, all ranks beginning together."""
    seconds = []
    for _ in range(times + 1):
        dist.barrier()
        begin = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds[1:])


def child(kind: str, rounds: int) -> dict[str, Any]:
    """What one rank measures."""
    dist.init_process_group("gloo")
    p = dist.get_world_size()
    model = wrap(network(), kind)
    out: dict[str, Any] = {"p": p}
    data = {"strong": ROWS // p, "weak": ROWS, "half": ROWS // 2}
    objectives = {
        name: ModelObjective(model, loss, TensorDataset(torch.randn(n, WIDTH), torch.randn(n, WIDTH)), micro_batch=n)
        for name, n in data.items()
    }
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    batch = [torch.randn(ROWS, WIDTH), torch.randn(ROWS, WIDTH)]
    for _ in range(2):
        optimizer.zero_grad()
        loss(model, batch).backward()
        optimizer.step()
    optimizer.zero_grad()
    whole = 4 * sum(parameter.numel() for parameter in model.parameters())
    before = peak_bytes()
    probe(objectives["weak"])
    out["vectors"] = (peak_bytes() - before) / whole
    for name, objective in objectives.items():
        out[name] = timed(lambda objective=objective: probe(objective), rounds) / probe(objective)
    scalars, vector = torch.zeros(4, dtype=torch.float64), torch.zeros(whole // 4)
    out["scalars"] = timed(lambda: [dist.all_reduce(scalars) for _ in range(50)], rounds) / 50 if p > 1 else 0.0
    out["all_reduce"] = timed(lambda: dist.all_reduce(vector), rounds) if p > 1 else 0.0
    out["bytes"] = whole
    dist.barrier()
    dist.destroy_process_group()
    return out


def probe(objective: ModelObjective) -> int:
    """NEON until its budget is spent, as the curvature that is sought is not there; the gradients that it took."""
    found = negative_curvature(
        objective,
        objective.point,
        method="neon",
        gamma=1e3,
        smoothness=1e4,
        hessian_lipschitz=0.0,
        max_gradients=GRADIENTS,
    )
    return found.cost.gradients


def on_ranks(p: int, kind: str, rounds: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(p)]
    command += ["-m", "benchmarks.ranks", "--child", kind, "--rounds", str(rounds)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{p} ranks of {kind} failed:\n{done.stderr[-2000:]}")
    answer: dict[str, Any] = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
    return answer


def main() -> int:
    parser = options("An extraction on several ranks: time, a cost model, memory.")
    parser.add_argument("--ranks", type=int, nargs="*", default=[1, 2, 4])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--child", choices=["ddp", "fsdp"], help="be one rank (used inside)")
    chosen = parser.parse_args()
    if chosen.child:
        torch.set_num_threads(1)
        answer = child(chosen.child, chosen.rounds)
        if int(os.environ["RANK"]) == 0:
            print(json.dumps(answer), flush=True)
        os._exit(0)  # Gloo's threads now and then abort a process on its way out.
    report = Report.begin("ranks", chosen)
    cores = report.environment.cores
    for kind in ("ddp", "fsdp"):
        seen = {p: on_ranks(p, kind, chosen.rounds) for p in chosen.ranks}
        one = seen[1]
        row = (one["weak"] - one["half"]) / (ROWS - ROWS // 2)
        fixed = one["weak"] - ROWS * row
        lines = []
        for p, at in seen.items():
            busy = max(1.0, p / cores)  # Ranks that share a core take turns.
            sent = SHARE_OF_AN_ALL_REDUCE[kind] * at["all_reduce"] + at["scalars"]
            expected = {
                "strong": busy * (ROWS // p * row + fixed) + sent,
                "weak": busy * (ROWS * row + fixed) + sent,
            }
            lines.append(
                [
                    str(p),
                    *(f"{1e3 * at[name]:.1f} ({at[name] / expected[name]:.2f})" for name in expected),
                    f"{one['strong'] / at['strong']:.2f}",
                    f"{1e6 * at['scalars']:.0f}",
                    f"{1e3 * at['all_reduce']:.1f}",
                    f"{at['vectors']:.2f}",
                ]
            )
            report.row(settings={"kind": kind, "ranks": p}, status="timed", measured=at, expected=expected)
        heads = ["ranks", "strong, ms", "weak, ms", "speed-up", "scalars, µs", "all-reduce, ms", "vectors a rank"]
        table(
            f"{kind}: ms a NEON step (measured over predicted), {one['bytes'] / 4e6:.1f}M parameters, {ROWS} rows; "
            f"{1e6 * row:.0f} µs a row, {1e3 * fixed:.1f} ms a step beside",
            heads,
            lines,
        )
    return report.end(chosen.out)


if __name__ == "__main__":
    raise SystemExit(main())
