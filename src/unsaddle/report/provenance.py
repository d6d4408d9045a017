"""Where the rows of a page come from: settings, versions, machine, and the commands to run them again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from unsaddle.experiments.rows import Row, plain
from unsaddle.report.blocks import Section, Table

VERSIONS = ("unsaddle", "commit", "python", "torch", "numpy", "cpu", "cores", "threads")


def provenance(rows: Sequence[Row]) -> list[Section]:
    """The last sections of a page."""
    return [_settings(rows), _again(rows)]


def _settings(rows: Sequence[Row]) -> Section:
    tables = []
    for experiment in dict.fromkeys(row["experiment"] for row in rows):
        own = [row["settings"] for row in rows if row["experiment"] == experiment]
        names = list(dict.fromkeys(name for settings in own for name in settings))
        cells = [(name, _values([settings[name] for settings in own if name in settings])) for name in names]
        tables.append(
            Table(caption=f"Settings of the {len(own)} rows of {experiment}", heads=("setting", "values"), rows=cells)
        )
    return Section(title="Settings", tables=tables)


def _values(values: Sequence[Any]) -> str:
    """All values of a setting, each once."""
    texts = list(dict.fromkeys(_text(value) for value in values))
    return ", ".join(texts[:24]) + (f", … ({len(texts)} in all)" if len(texts) > 24 else "")


def _text(value: Any) -> str:
    """A value as text. None means that the setting does not apply."""
    if value is None:
        return "none"
    return value if isinstance(value, str) else json.dumps(plain(value), ensure_ascii=False)


def _again(rows: Sequence[Row]) -> Section:
    places: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        places.setdefault((row["experiment"], *(row["environment"][name] for name in VERSIONS)), []).append(row)
    cells = [(*place, len(those), min(row["environment"]["time"] for row in those)) for place, those in places.items()]
    commands = dict.fromkeys(row["environment"].get("command", "") for row in rows)
    heads = ("experiment", *VERSIONS, "rows", "first run began")
    return Section(
        title="How to run it again",
        paragraphs=(
            "With unsaddle installed with its extra cli, as in pip install 'unsaddle[cli]', or after make demo in its "
            "repository: " + "; ".join(command for command in commands if command) + ".",
            "Rows that are there already are not computed again: give another --out to begin anew. Counts and "
            "curvatures come out the same on the same versions and processor; times do not.",
        ),
        tables=(Table(caption="Where the rows were measured", heads=heads, rows=cells),),
    )
