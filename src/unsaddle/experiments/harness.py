"""Runs long experiments: jobs in, rows out. A run that was killed can go on.

    rows = harness.run(jobs, work, out, experiment="reproduce", describe=lambda job: job["method"])

A job is a dictionary of plain values, its settings. `work(job)` returns a dictionary of plain values, the measurements.
Rows are appended to `out/rows.jsonl` as they finish. If a killed run is started again with the same jobs, it skips the
finished ones, and ends with the same rows.

Each core runs one process with one torch thread: experiments are many small runs, and two processes are faster than two
threads. Where the system can fork, they are forks of one process that has imported torch, so that it is imported once.
A worker ends when its parent ends, even if the parent was killed.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shlex
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch

from unsaddle.experiments.environment import Environment, cores
from unsaddle.experiments.meter import shown
from unsaddle.experiments.rows import Row, RowFile, identity, plain, restored

PROCESSES: Any = multiprocessing.get_context(
    "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
)
PROCESSES.set_forkserver_preload([__name__])

Job = dict[str, Any]
Work = Callable[[Job], dict[str, Any]]


def run(
    jobs: Sequence[Job],
    work: Work,
    out: Path,
    *,
    experiment: str,
    processes: int | None = None,
    describe: Callable[[Job], str],
) -> list[Row]:
    """Run the jobs that have no row yet. Return the rows of all jobs, in the order of the jobs.

    Args:
        jobs: the settings of each row; no two alike.
        work: a function of a module, so that another process can import it.
        out: the directory of the rows.
        experiment: the name that rows are filed under.
        processes: jobs at a time, by default one a core. A single one runs in this process.
        describe: a few words on a job, for the progress.

    Each row is {"experiment", "settings", **measured, "environment"}. An error in `work` ends the run. The rows so far
    are kept, also when the run is interrupted.
    """
    if processes is not None and processes < 1:
        raise ValueError(f"processes must be at least 1, got {processes}; leave it out for one a core")
    names = [identity(experiment, job) for job in jobs]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"jobs must differ in their settings, got {min(twice)} more than once")
    with RowFile(out) as file, one_thread():
        environment = asdict(Environment.here()) | {"command": _command()}
        finished = {identity(row["experiment"], row["settings"]): row for row in file.rows}
        pending = [job for job, name in zip(jobs, names, strict=True) if name not in finished]
        processes = min(cores() if processes is None else processes, len(pending))
        with shown(experiment, total=len(jobs), done=len(jobs) - len(pending)) as progress:
            done = _in_turn(pending, work) if processes <= 1 else _side_by_side(pending, work, processes)
            with contextlib.closing(done):
                for job, measured in done:
                    row = {"experiment": experiment, "settings": job} | measured | {"environment": environment}
                    finished[identity(experiment, job)] = file.append(row)
                    progress(describe(job))
        file.sort(names)
    return [finished[name] for name in names]


def _command() -> str:
    """The command line of this process, without the folder of the script."""
    name = Path(sys.argv[0]).name
    return shlex.join(["unsaddle" if name in ("cli.py", "__main__.py") else name, *sys.argv[1:]])


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Limits torch to one thread inside the `with`."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _in_turn(jobs: Sequence[Job], work: Work) -> Any:
    for job in jobs:
        yield job, work(restored(plain(job)))


def _side_by_side(jobs: Sequence[Job], work: Work, processes: int) -> Any:
    """Yield jobs as they finish. A free worker takes the next job."""
    waiting = iter(jobs)
    workers: dict[Connection, tuple[Any, Job]] = {}
    with contextlib.ExitStack() as stack:
        for job in [job for _, job in zip(range(processes), waiting, strict=False)]:
            ours, theirs = PROCESSES.Pipe()
            process = PROCESSES.Process(target=_worker, args=(theirs, work), daemon=True)
            process.start()
            stack.callback(_end, process, ours)
            theirs.close()
            ours.send(plain(job))
            workers[ours] = (process, job)
        while workers:
            for connection in wait(list(workers)):
                assert isinstance(connection, Connection)
                process, job = workers.pop(connection)
                try:
                    measured, error = connection.recv()
                except EOFError:
                    process.join()
                    raise RuntimeError(
                        f"the process that did {job} died with exit code {process.exitcode}; if memory was short, use "
                        "fewer processes. The rows so far are kept: the same command goes on from them"
                    ) from None
                if error is not None:
                    raise RuntimeError(f"{job} failed; the rows so far are kept\n{error}")
                following = next(waiting, None)
                if following is not None:
                    connection.send(plain(following))
                    workers[connection] = (process, following)
                yield job, measured


def _end(process: Any, connection: Connection) -> None:
    connection.close()
    process.terminate()
    process.join()


def _worker(connection: Connection, work: Work) -> None:
    """Do jobs until there are no more. Ignore Ctrl-C: the parent gets it, and ends its workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            job = restored(connection.recv())
            try:
                answer: tuple[Any, str | None] = (plain(work(job)), None)
            except Exception:
                answer = (None, traceback.format_exc())
            connection.send(answer)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
