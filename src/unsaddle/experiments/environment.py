"""The commit, versions and machine of a row."""

from __future__ import annotations

import functools
import math
import os
import platform
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch

from unsaddle import __version__

PACKAGE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, kw_only=True)
class Environment:
    """The commit, versions and machine of a row."""

    commit: str
    python: str
    torch: str
    numpy: str
    unsaddle: str
    cpu: str
    cores: int
    threads: int
    load: float
    """The load of the machine at the beginning."""
    time: str

    @classmethod
    def here(cls) -> Environment:
        return cls(
            commit=commit(),
            python=platform.python_version(),
            torch=torch.__version__,
            numpy=np.__version__,
            unsaddle=__version__,
            cpu=cpu_model(),
            cores=cores(),
            threads=torch.get_num_threads(),
            load=round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else math.nan,
            time=datetime.now(UTC).isoformat(timespec="seconds"),
        )

    def __str__(self) -> str:
        return (
            f"commit {self.commit}, unsaddle {self.unsaddle}, torch {self.torch}, numpy {self.numpy}, "
            f"python {self.python}\n"
            f"{self.cpu}, {self.cores} cores, {self.threads} threads, load {self.load} at the start"
        )


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def commit() -> str:
    """The commit that is checked out, marked if the package differs from it; "unknown" outside of git."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(PACKAGE), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        # Fails for a copy that is installed inside another repository.
        git("ls-files", "--error-unmatch", "__init__.py")
        return git("rev-parse", "--short=12", "HEAD") + ("+changes" if git("status", "--porcelain", ".") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


@functools.cache
def cpu_model() -> str:
    """The processor's name, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine() or "unknown processor"
