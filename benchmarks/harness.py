"""What the harness costs: everything but the work, over the time that the same run spends in its oracle.

Jobs are short runs of NEON on the paper's function with embedded data, at every gradient one pass over the data, each
with a row as large as one of `unsaddle reproduce`. Wanted: at most 5 %. Waiting for the disk after each row is the
harness's, too. Workers have to import torch once; the seconds until the first row say what that is.

    python -m benchmarks.harness
"""

from __future__ import annotations

import contextlib
import functools
import io
import math
import tempfile
import time
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.environment import Report, options, table
from unsaddle.curvature.displaced import DisplacedFunction
from unsaddle.curvature.neon import neon
from unsaddle.curvature.neon_settings import NeonSettings
from unsaddle.experiments import harness
from unsaddle.objective import Oracle, SampledFunction
from unsaddle.problems import embedded_digits, sigmoid_least_squares

POINTS = 150
"""Numbers in each of four lists of a row: a curve of `unsaddle reproduce`."""


@functools.cache
def full(features: int) -> SampledFunction:
    return sigmoid_least_squares(*embedded_digits(num_features=features)).objective.sample()


class Timed(Oracle):
    """An oracle that knows how long it was asked."""

    def __init__(self, oracle: Oracle) -> None:
        self._oracle, self.seconds = oracle, 0.0

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        start = time.perf_counter()
        try:
            return self._oracle.value_and_grad(x)
        finally:
            self.seconds += time.perf_counter() - start


def work(job: harness.Job) -> dict[str, object]:
    whole = full(job["features"])
    timed = Timed(whole._oracle)
    f = SampledFunction(timed, whole.size)
    start = time.perf_counter()
    x = torch.randn(job["features"], generator=torch.Generator().manual_seed(job["seed"]), dtype=torch.float64)
    settings = NeonSettings(step_size=0.01, num_steps=job["steps"], noise_radius=0.01, target=math.inf)
    neon(DisplacedFunction(f, x), settings, torch.Generator().manual_seed(job["seed"]))
    curve = [1.0 / (i + 3) for i in range(POINTS)]
    return {"curves": [curve] * 4, "oracle": timed.seconds, "work": time.perf_counter() - start}


def main() -> int:
    parser = options(__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=20, help="rows")
    parser.add_argument("--steps", type=int, nargs="+", default=[10, 100], help="gradients a row")
    parser.add_argument("--features", type=int, default=5000, help="d")
    arguments = parser.parse_args()
    report = Report.begin("harness", arguments)
    full(arguments.features)
    rows, shares = [], {}
    for steps in arguments.steps:
        jobs = [
            {"features": arguments.features, "steps": steps, "seed": arguments.seed + i} for i in range(arguments.jobs)
        ]
        with tempfile.TemporaryDirectory() as out, contextlib.redirect_stdout(io.StringIO()):
            start = time.perf_counter()
            done = harness.run(jobs, work, Path(out), experiment="harness", processes=1, describe=str)
            seconds = time.perf_counter() - start
        oracle, worked = (sum(row[name] for row in done) for name in ("oracle", "work"))
        shares[steps] = (seconds - worked) / oracle
        rows.append(
            (
                str(steps),
                f"{oracle / len(jobs):.3f}",
                f"{worked / len(jobs):.3f}",
                f"{1e3 * (seconds - worked) / len(jobs):.2f}",
                f"{shares[steps]:.2%}",
            )
        )
        report.row(
            settings={"steps": steps, "jobs": len(jobs), "features": arguments.features},
            status="done",
            oracle_seconds=oracle,
            work_seconds=worked,
            harness_seconds=seconds - worked,
        )
    table(
        f"{arguments.jobs} rows, one process",
        ("gradients a row", "oracle [s a row]", "work [s a row]", "harness [ms a row]", "harness / oracle"),
        rows,
    )
    report.want("harness over oracle, longest rows", shares[max(shares)], at_most=0.05)
    print(f"  two processes: the first row after {first_row(arguments.features):.1f} s", flush=True)
    return report.end(arguments.out)


def first_row(features: int) -> float:
    """Seconds until two workers are there and one has done a row."""
    jobs = [{"features": features, "steps": 1, "seed": seed} for seed in range(2)]
    with tempfile.TemporaryDirectory() as out, contextlib.redirect_stdout(io.StringIO()):
        start = time.perf_counter()
        harness.run(jobs, work, Path(out), experiment="harness", processes=2, describe=str)
        return time.perf_counter() - start


if __name__ == "__main__":
    raise SystemExit(main())
