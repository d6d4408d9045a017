"""What every benchmark shares: its options, where it ran, its rows, and whether it showed what it should.

A benchmark prints tables for people and, with `--out FILE`, appends one JSON object a row for programs. Each object
carries the commit, the versions, the machine, the seed, the settings and the status, so that a file can collect many
runs.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from unsaddle.experiments.environment import Environment
from unsaddle.experiments.rows import plain

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
                file.writelines(json.dumps(plain(row), allow_nan=False) + "\n" for row in self.rows)
            print(f"{len(self.rows)} rows appended to {out}")
        return 1 if self.missed else 0


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
