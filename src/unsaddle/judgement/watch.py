"""Shows on a terminal how far a verdict has come, with rich."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from unsaddle.objective import Evaluation, Objective, Observed


@contextmanager
def shown(objective: Objective, max_gradients: int | None) -> Iterator[Objective]:
    """The objective, whose gradients are counted on a terminal. Without a terminal, the objective itself."""
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
