"""Start real processes, and read what they wrote."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

WORKER = Path(__file__).with_name("worker.py")
TIMEOUT = 600


def torchrun(
    ranks: int, *command: str | Path, restarts: int = 0, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """`torchrun` with one thread a rank."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    launch += ["--max-restarts", str(restarts), *map(str, command)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(launch, capture_output=True, text=True, timeout=TIMEOUT, env=environment, check=False)
    if check and done.returncode != 0:
        raise AssertionError(f"torchrun ended with {done.returncode}:\n{done.stderr[-4000:]}")
    return done


def on_ranks(ranks: int, scenarios: str, kind: str, folder: Path, *more: str, check: bool = True) -> list[Any]:
    """What each rank saw."""
    folder.mkdir(parents=True, exist_ok=True)
    torchrun(ranks, WORKER, scenarios, kind, folder, *more, check=check)
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(ranks)]
