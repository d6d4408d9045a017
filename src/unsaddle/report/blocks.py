"""The parts of a page. Experiments turn rows into these; `page.py` turns these into HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

Cell = str | int | float | bool | None


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table that sorts. Give numbers as numbers. None is shown as a dash, True and False as highlighted words."""

    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.heads):
                raise ValueError(f"each row of {self.caption!r} must have {len(self.heads)} cells, got {list(row)}")


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A matplotlib figure and its caption. `name` is the name of its file, and is unique on the page."""

    caption: str
    name: str
    figure: Drawing


@dataclass(frozen=True, kw_only=True)
class Section:
    """A title with paragraphs, tables and figures."""

    title: str
    paragraphs: Sequence[str] = ()
    tables: Sequence[Table] = ()
    figures: Sequence[Figure] = ()
