"""An experiment to kill: `python -m tests.experiments.squares OUT PROCESSES JOBS`."""

import math
import os
import sys
import time
from pathlib import Path

from unsaddle.experiments import harness


def square(job):
    time.sleep(0.01)
    return {"square": job["i"] ** 2, "odd": [math.nan, math.inf, -math.inf], "process": os.getpid()}


def first_comes_last(job):
    while job["i"] == 0 and Path(job["rows"]).read_bytes().count(b"\n") < job["count"] - 1:
        time.sleep(0.01)
    return {"square": job["i"] ** 2}


def fails_at_two(job):
    if job["i"] == 2:
        raise ArithmeticError("two is not liked")
    return {"square": job["i"] ** 2}


def dies_at_two(job):
    if job["i"] == 2:
        os._exit(3)
    return {}


def run(out, work=square, count=8, processes=1):
    return run_jobs([{"i": i} for i in range(count)], work, out, processes)


def run_jobs(jobs, work, out, processes):
    return harness.run(
        jobs, work, out, experiment="squares", processes=processes, describe=lambda job: f"square of {job['i']}"
    )


if __name__ == "__main__":
    run(Path(sys.argv[1]), processes=int(sys.argv[2]), count=int(sys.argv[3]))
