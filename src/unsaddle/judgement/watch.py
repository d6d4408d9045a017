"""Shows on a terminal how far a verdict has come, with rich."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from unsaddle import checks
from unsaddle.objective import Evaluation, Objective, Observed


@contextmanager
def watched(objective: Objective, max_gradients: int | None, progress: bool) -> Iterator[Objective]:
    """The objective. With `progress`, one whose gradients are counted on a terminal, if there is one."""
    if not checks.flag(progress, "progress"):
        yield objective
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    except ImportError as error:
        raise ImportError("progress=True needs rich: pip install 'unsaddle[progress]'") from error
    if not sys.stderr.isatty():
        yield objective
        return
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task, count = bar.add_task("", total=max_gradients), 0

        def note(seen: Evaluation) -> None:
            nonlocal count
            count += 1
            bar.update(task, completed=count, description=f"{count} gradients, {seen.ledger.samples} samples")

        yield Observed(objective, note)
