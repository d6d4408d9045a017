"""Rows to one self-contained HTML page."""

from __future__ import annotations

import html
from pathlib import Path

from unsaddle.experiments import rows as stored
from unsaddle.report.sections import sections

PAGE = "index.html"


def write(directory: Path) -> Path:
    """Write the page of the rows in `directory`; where it is."""
    rows = stored.read(directory)
    if not rows:
        raise FileNotFoundError(
            f"{directory / stored.FILE} has no rows; run unsaddle reproduce, compare or complexity with this --out"
        )
    path = directory / PAGE
    path.write_text("".join(f"<h2>{html.escape(section.title)}</h2>" for section in sections(rows)))
    return path
