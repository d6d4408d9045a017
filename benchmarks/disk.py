"""Runs whose disk is full, whose folder cannot be written, whose clock jumps, or which write to one file together.

A trial draws a moment: a size of the file, a pattern of the clock, a start of the second writer. The run has to end as
it should: whole, or with an error that names the file. Started again on a sound machine, it has all its rows, and those
that were there before are as they were.
"""

from __future__ import annotations

import contextlib
import io
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

from benchmarks.environment import Report, options, table
from tests.experiments import squares
from tests.experiments.test_rows import files_up_to
from unsaddle.experiments import harness, rows

JOBS = 12
UNWRITABLE = ("/sys/unsaddle", "/dev/null/out", "/proc/unsaddle")


def full(folder: Path, r: random.Random) -> str:
    """The file may not grow beyond a random size: the error names it, and no row is lost."""
    try:
        with files_up_to(r.randrange(200, 6000)):
            squares.run(folder, count=JOBS)
    except OSError as error:
        return "" if "rows so far are kept" in str(error) and rows.FILE in str(error) else f"said {error}"
    return ""


def unwritable(folder: Path, r: random.Random) -> str:
    """The error names a folder where nothing can be made."""
    place = r.choice([name for name in UNWRITABLE if Path(name).parent.exists()])
    try:
        squares.run(Path(place), count=JOBS)
    except OSError as error:
        return "" if place in str(error) else f"said {error}"
    return f"wrote to {place}"


def clock(folder: Path, r: random.Random) -> str:
    """The time of day jumps at every look, and the other clock stands still or leaps."""
    leaps = r.choice([0.0, 1.0, 1e9])
    monotonic = iter(range(10**9))
    with (
        mock.patch.object(time, "time", side_effect=lambda: r.uniform(-1e10, 1e10)),
        mock.patch.object(time, "monotonic", side_effect=lambda: leaps * next(monotonic)),
    ):
        squares.run(folder, count=JOBS)
    return ""


def _writer(folder: Path, wait: float) -> None:
    time.sleep(wait)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            squares.run(folder, count=JOBS)
    except BlockingIOError as error:
        raise SystemExit(3 if "is being written by another run" in str(error) else 4) from None


def together(folder: Path, r: random.Random) -> str:
    """Three begin at nearly one moment: each writes alone, or is told that another one does."""
    waits = [r.uniform(0.0, 0.2) for _ in range(3)]
    started = [harness.PROCESSES.Process(target=_writer, args=(folder, wait)) for wait in waits]
    for process in started:
        process.start()
    for process in started:
        process.join()
    codes = [process.exitcode for process in started]
    return "" if set(codes) <= {0, 3} and 0 in codes else f"ended with {codes}"


KINDS: dict[str, Callable[[Path, random.Random], str]] = {
    "full disk": full, "read-only folder": unwritable, "clock that jumps": clock, "three writers": together
}  # fmt: skip


def trial(kind: str, r: random.Random) -> str:
    """What was wrong with one run, if something was."""
    with tempfile.TemporaryDirectory() as name, contextlib.redirect_stdout(io.StringIO()):
        folder = Path(name)
        try:
            said = KINDS[kind](folder, r)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        kept = rows.read(folder) if (folder / rows.FILE).exists() else []
        again = squares.run(folder, count=JOBS)
        if [row["square"] for row in again] != [i**2 for i in range(JOBS)]:
            said += " and started again, it had other rows"
        if repr(again[: len(kept)]) != repr(kept):
            said += " and rows that were there have changed"
        return said


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("--trials", type=int, default=200, help="of each kind")
    args = parser.parse_args()
    report, lines, bad = Report.begin("disk", args), [], 0
    for kind in KINDS:
        r, wrong = random.Random(f"{args.seed} {kind}"), 0
        for number in range(args.trials):
            complaint = trial(kind, r)
            wrong += bool(complaint)
            if complaint:
                print(f"  {kind}, trial {number}: {complaint}", flush=True)
            report.row(settings={"kind": kind, "trial": number}, status=complaint or "as it should")
        bad += wrong
        lines.append([kind, str(args.trials), str(wrong)])
    table(f"runs with faults around their file, seed {args.seed}", ["", "runs", "wrong"], lines)
    report.want("runs that lost a row or said something else", bad, 0)
    return report.end(args.out)


if __name__ == "__main__":
    raise SystemExit(main())
