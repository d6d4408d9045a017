"""Turns sections into one HTML page that needs no network and no other file."""

from __future__ import annotations

import base64
import html
import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from unsaddle.experiments import rows as stored
from unsaddle.pictures import journal
from unsaddle.report.blocks import Cell, Figure, Section, Table
from unsaddle.report.provenance import provenance
from unsaddle.report.sections import sections
from unsaddle.report.style import TWO_COLUMNS

PAGE = "index.html"
TITLE = "unsaddle: the paper's experiments, measured"
INTRODUCTION = (
    "NEON and NEON⁺ find directions of negative curvature with gradients only. This page holds what was measured here: "
    "every number and figure is computed from the rows beside this page, whose settings, versions and commands are at "
    "its end. Tables sort: press a column's head."
)
FULL = 62
"""The width of a figure of two columns on the page, in rem."""
LARGEST_DRAWING = 400_000
"""Bytes. A drawing whose SVG is larger is embedded as pixels."""


def write(directory: Path) -> Path:
    """Write the page of the rows in `directory`, and its figures as files beside it. Return the page's path."""
    rows = stored.read(directory)
    if not rows:
        raise FileNotFoundError(
            f"{directory / stored.FILE} has no rows; run unsaddle reproduce, compare or complexity with this --out"
        )
    with journal():
        try:
            written = [*sections(rows), *provenance(rows)]
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            raise ValueError(
                f"{directory / stored.FILE} has a row that lacks something, or has it in another form "
                f"({type(error).__name__}: {error}); if another version wrote it, run again with a new --out"
            ) from error
        drawings = {figure.name: drawing(figure) for section in written for figure in section.figures}
    return save(directory, written, drawings)


def save(directory: Path, written: Sequence[Section], drawings: Mapping[str, Drawing], **head: str) -> Path:
    """Write the page, and its figures as files beside it. `head`: title and introduction, if not the usual."""
    directory.mkdir(parents=True, exist_ok=True)
    _save(directory / "figures", drawings)
    path = directory / PAGE
    beside = path.with_suffix(".tmp")
    beside.write_text(page(written, drawings, **head), encoding="utf-8")
    beside.replace(path)
    return path


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """A figure as bytes."""

    kind: str
    """svg+xml or png."""
    content: bytes


def page(
    written: Sequence[Section],
    drawings: Mapping[str, Drawing],
    *,
    title: str = TITLE,
    introduction: str = INTRODUCTION,
) -> str:
    """The page as text. The keys of `drawings` are the names of the figures."""
    names = _anchors(written)
    links = "".join(
        f'<li><a href="#{name}">{html.escape(s.title)}</a></li>' for name, s in zip(names, written, strict=True)
    )
    body = "".join(_section(name, section, drawings) for name, section in zip(names, written, strict=True))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{html.escape(title)}</title>
<style>{_resource("page.css")}</style>
</head>
<body>
<header><h1>{html.escape(title)}</h1><p>{html.escape(introduction)}</p></header>
<nav aria-label="Sections"><ol>{links}</ol></nav>
<main>{body}</main>
<script>{_resource("page.js")}</script>
</body>
</html>
"""


def _anchors(written: Sequence[Section]) -> list[str]:
    plain = [re.sub(r"[^a-z0-9]+", "-", section.title.lower()).strip("-") for section in written]
    return [f"{name}-{i}" for i, name in enumerate(plain, start=1)]


def _section(name: str, section: Section, drawings: Mapping[str, Drawing]) -> str:
    paragraphs = "".join(f"<p>{html.escape(text)}</p>" for text in section.paragraphs)
    tables = "".join(_table(table) for table in section.tables)
    figures = "".join(_figure(figure, drawings[figure.name]) for figure in section.figures)
    return f'<section id="{name}"><h2>{html.escape(section.title)}</h2>{paragraphs}{tables}{figures}</section>\n'


def _table(table: Table) -> str:
    heads = "".join(f'<th scope="col"><button type="button">{html.escape(head)}</button></th>' for head in table.heads)
    rows = "".join(f"<tr>{''.join(map(_cell, row))}</tr>\n" for row in table.rows)
    label = html.escape(table.caption, quote=True)
    return (
        f'<div class="table" role="region" aria-label="{label}" tabindex="0"><table>'
        f"<caption>{html.escape(table.caption)}</caption><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _cell(cell: Cell) -> str:
    if cell is None:
        return '<td class="none">–</td>'
    if isinstance(cell, bool):
        return f'<td class="{"yes" if cell else "no"}">{"✓ true" if cell else "✗ false"}</td>'
    if isinstance(cell, str):
        return f"<td>{html.escape(cell)}</td>"
    order = "" if math.isnan(cell) else f' data-order="{cell!r}"'
    return f'<td class="number"{order}>{number(cell)}</td>'


def number(value: float) -> str:
    """Four digits; long counts in groups of three.

    >>> number(1234567), number(0.000123456), number(-3.41628), number(float("inf"))
    ('1\\u202f234\\u202f567', '0.0001235', '−3.416', '∞')
    """
    if isinstance(value, float) and not math.isfinite(value):
        return "not a number" if math.isnan(value) else "∞" if value > 0 else "−∞"
    if float(value).is_integer() and abs(value) < 1e15:
        text = f"{int(value):,}".replace(",", "\u202f")
    elif abs(value) >= 1e4:
        text = f"{round(value):,}".replace(",", "\u202f") if abs(value) < 1e9 else f"{value:.3e}"
    else:
        text = f"{value:.4g}"
    return text.replace("-", "−", 1) if value < 0 else text


def _figure(figure: Figure, drawn: Drawing) -> str:
    source = f"data:image/{drawn.kind};base64,{base64.b64encode(drawn.content).decode()}"
    caption = html.escape(figure.caption)
    alternative = html.escape(figure.caption, quote=True)
    share = figure.figure.get_figwidth() / TWO_COLUMNS
    size = f'class="{"wide" if share > 0.8 else "narrow"}" style="max-width:{FULL * share:.0f}rem"'
    return f'<figure><img {size} src="{source}" alt="{alternative}"><figcaption>{caption}</figcaption></figure>'


def drawing(figure: Figure) -> Drawing:
    """The figure as SVG, or as pixels if the SVG is large. The same rows give the same bytes."""
    buffer = io.BytesIO()
    figure.figure.savefig(buffer, format="svg", metadata={"Date": None})
    if buffer.tell() <= LARGEST_DRAWING:
        return Drawing(kind="svg+xml", content=buffer.getvalue())
    buffer = io.BytesIO()
    figure.figure.savefig(buffer, format="png")
    return Drawing(kind="png", content=buffer.getvalue())


def _save(directory: Path, drawings: Mapping[str, Drawing]) -> None:
    """Write each figure to a file, for use elsewhere."""
    directory.mkdir(exist_ok=True)
    for name, drawn in drawings.items():
        (directory / f"{name}.{drawn.kind.removesuffix('+xml')}").write_bytes(drawn.content)


def _resource(name: str) -> str:
    return files("unsaddle.report").joinpath(name).read_text(encoding="utf-8")
