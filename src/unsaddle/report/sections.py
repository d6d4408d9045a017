"""Turns rows into sections of the page, each experiment with its own file."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from unsaddle.experiments.rows import Row
from unsaddle.report.blocks import Section

WRITERS = {name: f"unsaddle.report.{name}" for name in ("reproduce", "compare", "complexity")}
"""To draw another experiment, write a file with `sections(rows) -> list[Section]` and a line here."""


def sections(rows: Sequence[Row]) -> list[Section]:
    """The sections of all experiments in `rows`, in the order of `WRITERS`."""
    written: list[Section] = []
    unknown = sorted({str(row["experiment"]) for row in rows} - WRITERS.keys())
    if unknown:
        raise ValueError(f"rows must be of {', '.join(WRITERS)}, got {', '.join(unknown)}")
    for experiment, module in WRITERS.items():
        own = [row for row in rows if row["experiment"] == experiment]
        if own:
            written += importlib.import_module(module).sections(own)
    return written
