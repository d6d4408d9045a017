"""Start real processes, and read what they wrote."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch.distributed as dist

from unsaddle.experiments.harness import PROCESSES

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT = 600

LATE_ABORT = "terminate called without an active exception"
"""What torch says when a thread of gloo lets go of a tensor while Python shuts down, after all is done; rare, and worth
another try."""

# Ranks are forks of a process that has imported torch once: an import takes longer than most scenarios.
PROCESSES.set_forkserver_preload([
    "torch.distributed.checkpoint.state_dict", "torch.distributed.device_mesh", "torch.distributed.fsdp",
    "torch.distributed.tensor.parallel", "torch.nn.parallel", "torch._dynamo", "unsaddle.experiments.harness",
])  # fmt: skip


def torchrun(ranks: int, *command: str | Path, restarts: int = 0) -> subprocess.CompletedProcess[str]:
    """`torchrun` with one thread a rank."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    launch += ["--max-restarts", str(restarts), *map(str, command)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    for _ in range(2):
        done = subprocess.run(
            launch, capture_output=True, text=True, timeout=TIMEOUT, env=environment, check=False, cwd=ROOT
        )
        if LATE_ABORT not in done.stderr:
            break
    if done.returncode != 0:
        raise AssertionError(f"torchrun ended with {done.returncode}:\n{done.stderr[-4000:]}")
    return done


def forked(ranks: int, logs: Path, *command: str | Path) -> str:
    """Runs `command`, a script with arguments or "-m MODULE ...", on each rank; what the first one printed."""
    codes = ended(ranks, logs, *command)
    said = [_log(logs, rank).read_text() for rank in range(ranks)]
    assert codes == [0] * ranks, f"ranks ended with {codes}:\n" + "\n".join(text[-3000:] for text in said)
    return said[0]


def ended(ranks: int, logs: Path, *command: str | Path) -> list[int | None]:
    """Runs `command` as `forked` does; how each rank ended: its exit code, or minus the signal that killed it.

    The environment is that of torchrun, whose store is the one here.
    """
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=TIMEOUT))
    words = [str(word) for word in command]
    started = [PROCESSES.Process(target=_rank, args=(rank, ranks, store.port, words, logs)) for rank in range(ranks)]
    for process in started:
        process.start()
    until = time.monotonic() + TIMEOUT
    try:
        for process in started:
            process.join(max(0.0, until - time.monotonic()))
        return [process.exitcode for process in started]
    finally:
        for process in started:
            process.kill()


def _log(folder: Path, rank: int) -> Path:
    return folder / f"rank {rank}.log"


def _rank(rank: int, ranks: int, port: int, command: list[str], logs: Path) -> None:
    """What a fork does."""
    os.environ.update(
        RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
        TORCHELASTIC_USE_AGENT_STORE="True", TORCHELASTIC_RESTART_COUNT="0",
    )  # fmt: skip
    log = os.open(_log(logs, rank), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    if command[0] == "-m":
        sys.argv = command[1:]
        runpy.run_module(command[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = command
        runpy.run_path(command[0], run_name="__main__")
    sys.stdout.flush()
    os._exit(0)  # Gloo's threads now and then abort a process that has done all it had to, on its way out.


def worker(plan: Mapping[str, str], folder: Path) -> list[str | Path]:
    """The command of a rank: for each kind of wrapping, its scenarios."""
    return [
        "-m", "tests.distributed.worker", ";".join(f"{kind}:{names}" for kind, names in plan.items()), folder
    ]  # fmt: skip


def on_ranks(ranks: int, plan: Mapping[str, str], folder: Path) -> list[dict[str, Any]]:
    """What each rank saw, by kind and scenario."""
    forked(ranks, folder, *worker(plan, folder))
    return written(ranks, folder)


def written(ranks: int, folder: Path) -> list[dict[str, Any]]:
    return [json.loads((folder / f"{ranks}-{rank}.json").read_text()) for rank in range(ranks)]
