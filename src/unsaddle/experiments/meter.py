"""Shows the progress of an experiment: a bar on a terminal, or else a line for each job, with the time left."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def shown(title: str, *, total: int, done: int) -> Iterator[Callable[[str], None]]:
    """A function to call with a few words each time a job is finished; `done` of `total` jobs were finished before."""
    if done:
        print(f"{title}: {done} of {total} were finished before", flush=True)
    with _bar(title, total, done) if sys.stderr.isatty() else _lines(title, total, done) as step:
        yield step


@contextmanager
def _lines(title: str, total: int, done: int) -> Iterator[Callable[[str], None]]:
    start, count = time.monotonic(), done

    def step(what: str) -> None:
        nonlocal count
        count += 1
        spent = time.monotonic() - start
        left = spent / (count - done) * (total - count)
        after = f", about {_duration(left)} left" if count < total else ""
        print(f"{title} {count}/{total}: {what} ({_duration(spent)}{after})", flush=True)

    yield step


@contextmanager
def _bar(title: str, total: int, done: int) -> Iterator[Callable[[str], None]]:
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
        from rich.progress import TimeRemainingColumn as TimeLeftColumn
    except ImportError:
        with _lines(title, total, done) as step:
            yield step
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    # A job may take minutes, so the speed is taken over the whole run.
    left = (TextColumn("left:"), TimeLeftColumn(elapsed_when_finished=False))
    with Progress(*columns, *left, console=Console(stderr=True), speed_estimate_period=1e6) as bar:
        task = bar.add_task(title, total=total, completed=done)

        def step(what: str) -> None:
            bar.update(task, advance=1, description=f"{title}: {what}")

        yield step


def _duration(seconds: float) -> str:
    """1 min 5 s, or 2.3 s.

    >>> _duration(65.2), _duration(2.34)
    ('1 min 5 s', '2.3 s')
    """
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"
