"""Start real processes, and read what they wrote."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT = 600

LATE_ABORT = "terminate called without an active exception"
"""What torch says when a thread of gloo lets go of a tensor while Python shuts down, after all is done; rare, and worth
another try."""


def torchrun(
    ranks: int, *command: str | Path, restarts: int = 0, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """`torchrun` with one thread a rank."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    launch += ["--max-restarts", str(restarts), *map(str, command)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    for _ in range(2):
        done = subprocess.run(
            launch, capture_output=True, text=True, timeout=TIMEOUT, env=environment, check=False, cwd=ROOT
        )
        if not (check and done.returncode != 0 and LATE_ABORT in done.stderr):
            break
    if check and done.returncode != 0:
        raise AssertionError(f"torchrun ended with {done.returncode}:\n{done.stderr[-4000:]}")
    return done


def worker(plan: Mapping[str, str], folder: Path) -> list[str | Path]:
    """The command of a rank: for each kind of wrapping, its scenarios."""
    return [
        "-m", "tests.distributed.worker", ";".join(f"{kind}:{names}" for kind, names in plan.items()), folder
    ]  # fmt: skip


def on_ranks(ranks: int, plan: Mapping[str, str], folder: Path, *, check: bool = True) -> list[dict[str, Any]]:
    """What each rank saw, by kind and scenario."""
    torchrun(ranks, *worker(plan, folder), check=check)
    return written(ranks, folder)


def written(ranks: int, folder: Path) -> list[dict[str, Any]]:
    return [json.loads((folder / f"{ranks}-{rank}.json").read_text()) for rank in range(ranks)]
