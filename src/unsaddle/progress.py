"""A progress bar for `minimize`, made with rich."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from unsaddle import checks
from unsaddle.run import Callback, Snapshot


@contextmanager
def shown(callback: Callback | None, max_samples: int | None, progress: bool) -> Iterator[Callback | None]:
    """The caller's callback. With `progress`, one that shows the run on a terminal first, if there is one."""
    if not checks.flag(progress, "progress"):
        yield callback
        return
    try:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    except ImportError as error:
        raise ImportError("progress=True needs rich: pip install unsaddle[progress]") from error
    if not sys.stderr.isatty():
        yield callback
        return
    from rich.console import Console

    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task("", total=max_samples)
    known = dict.fromkeys(("value", "gradient", "curvature"), math.nan)

    def show(state: Snapshot) -> Any:
        event = state.event
        now = {"value": event.value, "gradient": event.gradient_norm, "curvature": event.curvature}
        known.update({name: seen for name, seen in now.items() if not math.isnan(seen)})
        spent = event.samples + event.value_samples + event.hessian_samples
        text = ", ".join(f"{name} {seen:.3g}" for name, seen in known.items())
        bar.update(task, completed=spent, description=f"{text}, {spent} samples, {state.escapes} escapes")
        return None if callback is None else callback(state)

    with bar:
        yield show
