"""What every benchmark shares: its options, where it ran, its rows, and whether it showed what it should.

A benchmark prints tables for people and, with `--out FILE`, appends one JSON object a row for programs. Each object
carries the commit, the versions, the machine, the seed, the settings and the status, so that a file can collect many
runs.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import os
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

import unsaddle

ROOT = Path(__file__).resolve().parents[1]


def options(description: str) -> argparse.ArgumentParser:
    """A parser with the options that every benchmark has."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--seed", type=int, default=0, help="of the problem and of the random starts")
    parser.add_argument("--threads", type=int, default=2, help="that torch may use")
    parser.add_argument("--out", type=Path, default=None, metavar="FILE", help="append the rows to FILE, as JSON lines")
    return parser


@dataclass(frozen=True, kw_only=True)
class Environment:
    """Where a row comes from."""

    commit: str
    python: str
    torch: str
    numpy: str
    unsaddle: str
    cpu: str
    cores: int
    threads: int
    load: float
    """Of the machine when the benchmark began: what else was running."""
    time: str

    @classmethod
    def here(cls) -> Environment:
        return cls(
            commit=commit(),
            python=platform.python_version(),
            torch=torch.__version__,
            numpy=np.__version__,
            unsaddle=unsaddle.__version__,
            cpu=cpu_model(),
            cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
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


def commit() -> str:
    """The commit that is checked out, marked if the package differs from it; "unknown" outside git."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return git("rev-parse", "--short=12", "HEAD") + ("+changes" if git("status", "--porcelain", "src") else "")
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


@dataclass(kw_only=True)
class Report:
    """One run of a benchmark: its rows, and what it was wanted to show."""

    benchmark: str
    seed: int
    environment: Environment
    rows: list[dict[str, Any]] = field(default_factory=list)
    missed: int = 0

    @classmethod
    def begin(cls, benchmark: str, arguments: argparse.Namespace) -> Report:
        """Set the threads, and print where this runs."""
        if arguments.threads < 1:
            raise SystemExit(f"--threads must be at least 1, got {arguments.threads}")
        torch.set_num_threads(arguments.threads)
        report = cls(benchmark=benchmark, seed=arguments.seed, environment=Environment.here())
        print(f"{benchmark}: seed {arguments.seed}, {report.environment}", flush=True)
        return report

    def row(self, *, settings: dict[str, Any], status: str, seed: int | None = None, **measured: Any) -> None:
        """Keep one row."""
        where = {"benchmark": self.benchmark, "seed": self.seed if seed is None else seed}
        self.rows.append(
            where | {"settings": settings, "status": status} | measured | {"environment": asdict(self.environment)}
        )

    def want(self, what: str, measured: float, at_most: float, at_least: float = -math.inf) -> None:
        """Print what was wanted beside what came, and remember if it was missed."""
        reached = at_least <= measured <= at_most
        self.missed += not reached
        limits = f"at most {at_most:g}" if math.isinf(at_least) else f"{at_least:g} to {at_most:g}"
        print(f"  {'reached' if reached else 'MISSED '}  {what}: {measured:.3f}, wanted {limits}", flush=True)
        self.row(
            settings={"claim": what, "at_least": at_least, "at_most": at_most},
            status="reached" if reached else "missed",
            measured=measured,
        )

    def end(self, out: Path | None) -> int:
        """Write the rows, if asked to; the exit code: 1 if something wanted was missed."""
        if out is not None:
            out.parent.mkdir(parents=True, exist_ok=True)
            with out.open("a") as file:
                file.writelines(json.dumps(_plain(row), allow_nan=False) + "\n" for row in self.rows)
            print(f"{len(self.rows)} rows appended to {out}")
        return 1 if self.missed else 0


def _plain(value: Any) -> Any:
    """`value` with the numbers that JSON lacks as words."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print aligned text, the first column to the left and the others to the right."""
    widths = [max(len(line[i]) for line in (heads, *rows)) for i in range(len(heads))]

    def line(cells: Sequence[str]) -> str:
        first, *rest = (
            f"{c:<{w}}" if i == 0 else f"{c:>{w}}" for i, (c, w) in enumerate(zip(cells, widths, strict=True))
        )
        return "  ".join(["  " + first, *rest])

    print(f"\n{title}\n{line(heads)}\n  {'-' * (len(line(heads)) - 2)}")
    print("\n".join(line(cells) for cells in rows), flush=True)
