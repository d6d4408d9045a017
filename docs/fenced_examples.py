"""An extension of griffe: examples in docstrings become blocks of code, and a link to nowhere is none."""

from __future__ import annotations

from typing import Any

import griffe


def fenced(text: str) -> str:
    """The docstring with every run of lines that begins with >>> in a fence, up to an empty line."""
    lines, inside = list[str](), False
    for line in text.splitlines():
        if line.lstrip().startswith(">>>") and not inside:
            lines, inside = [*lines, "", "```pycon"], True
        elif inside and not line.strip():
            lines, inside = [*lines, "```"], False
        lines.append(line.strip() if inside and line.lstrip().startswith(">>>") else line)
    return "\n".join([*lines, "```"] if inside else lines)


class FencedExamples(griffe.Extension):
    """Fences the examples of every docstring."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called by griffe for each object that it has read."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
