"""Peak memory of a probe over that of training, in vectors of the length of the parameters.

A network of ten layers, 1000 units each, 10 million parameters in float32: a vector is 40 MB. Each case runs in a
process of its own, which trains for three steps of plain SGD (which keeps no state of its own, so that nothing hides
behind it), notes the peak of its resident memory, probes with `negative_curvature`, and notes the peak again. Training
takes batches of 256 rows; the probe takes 512, in two micro batches, measured again on fresh ones.

Two ways to train:

- `freed`: gradients are freed before the forward pass, as zero_grad() does by default at the top of a loop, and None
  when the probe begins;
- `kept`: they are freed between forward and backward, as where zero_grad() stands before backward(); the probe begins
  with gradients there.

Wanted: at most 4 vectors with the extractors whose memory does not grow with their steps, and beside that its basis
with `krylov`.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from benchmarks.environment import ROOT, Report, options, table
from benchmarks.memory import peak_bytes
from unsaddle import ModelObjective, negative_curvature
from unsaddle.curvature.auto import BASIS

WIDTH, DEPTH = 1000, 10
BATCH, SAMPLES = 256, 512
LIMIT = 4.0
CONSTANT = (
    "neon", "neon-renormalised", "neon2-det", "neon2-online", "oja-first-order", "neon+", "neon+-renormalised",
)  # fmt: skip
"""Extractors that hold the same number of vectors however long they run."""
WANTED = dict.fromkeys(CONSTANT, LIMIT) | {"krylov": BASIS + LIMIT}
"""At most so many vectors over training, by extractor."""


def loss(model: nn.Module, batch: list[Tensor]) -> Tensor:
    return (model(batch[0]) - batch[1]).square().mean()


def child(name: str, kept: bool, seed: int, gradients: int) -> dict[str, float | str]:
    """Train, then probe, in this process."""
    torch.manual_seed(seed)
    model = nn.Sequential(*(layer for _ in range(DEPTH) for layer in (nn.Linear(WIDTH, WIDTH), nn.Tanh())))
    data = TensorDataset(torch.randn(2 * SAMPLES, WIDTH), torch.randn(2 * SAMPLES, WIDTH))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    for _ in range(3):
        if not kept:
            optimizer.zero_grad()
        value = loss(model, data[:BATCH])  # type: ignore[arg-type]
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        del value
    if not kept:
        optimizer.zero_grad()
    objective = ModelObjective(model, loss, data, micro_batch=BATCH)
    training = peak_bytes()
    found = negative_curvature(
        objective, objective.point, extractor=name, samples=SAMPLES, max_gradients=gradients, seed=seed
    )
    vector = objective.point.numel() * objective.point.element_size()
    return {
        "training": training / vector,
        "beyond": (peak_bytes() - training) / vector,
        "gradients": found.cost.gradients,
        "status": found.status.name,
    }


def in_a_new_process(name: str, kept: bool, seed: int, gradients: int, malloc: str) -> dict[str, float | str]:
    command = [sys.executable, "-m", "benchmarks.model_memory", "--child", name, "kept" if kept else "freed"]
    command += ["--seed", str(seed), "--gradients", str(gradients), "--threads", "1"]
    # If what is freed goes back to the system at once, the peak is that of what is held.
    at_once = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    environment = os.environ | (at_once if malloc == "returning" else {})
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment)
    if done.returncode == 0:
        answer: dict[str, float | str] = json.loads(done.stdout)
        return answer
    last = done.stderr.strip().splitlines()[-1:] or ["no message; out of memory?"]
    return {"training": math.nan, "beyond": math.nan, "gradients": 0, "status": f"died: {last[0]}"}


def main() -> int:
    parser = options("Peak memory of a probe of a 10M-parameter model over training's, in vectors.")
    parser.add_argument("--gradients", type=int, default=120, help="that a probe may take")
    parser.add_argument("--child", nargs=2, metavar=("NAME", "GRADIENTS"), help="run one case here (used inside)")
    parser.add_argument(
        "--malloc", choices=("returning", "default"), default="returning", help="whether freed blocks go back at once"
    )
    parser.add_argument("--only", nargs="*", choices=list(WANTED), default=list(WANTED), help="these extractors")
    arguments = parser.parse_args()
    if arguments.child:
        torch.set_num_threads(arguments.threads)
        name, grads = arguments.child
        print(json.dumps(child(name, grads == "kept", arguments.seed, arguments.gradients)))
        return 0
    report = Report.begin("model_memory", arguments)
    lines, beyond = [], {}
    for kept in (False, True):
        for name in arguments.only:
            result = in_a_new_process(name, kept, arguments.seed, arguments.gradients, arguments.malloc)
            how = "kept" if kept else "freed"
            numbers = {key: float(result[key]) for key in ("training", "beyond")}
            lines.append(
                [
                    f"{name}, {how}",
                    *(f"{n:.2f}" for n in numbers.values()),
                    str(result["gradients"]),
                    str(result["status"]),
                ]
            )
            print("  " + "  ".join(lines[-1]), flush=True)  # The table comes at the end, and that may be long.
            beyond[name, how] = numbers["beyond"]
            settings = {"extractor": name, "gradients kept": kept, "threads": 1, "max_gradients": arguments.gradients}
            settings |= {"malloc": arguments.malloc}
            report.row(settings=settings, status=str(result["status"]), gradients=result["gradients"], **numbers)
    heads = ["case", "training", "beyond it", "gradients", "status"]
    table("model_memory: resident, in vectors of 40 MB, d=1e7, float32", heads, lines)
    for (name, how), number in beyond.items():
        report.want(f"vectors over training, {name}, gradients {how}", number, at_most=WANTED[name])
    return report.end(arguments.out)


if __name__ == "__main__":
    raise SystemExit(main())
