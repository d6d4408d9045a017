"""A hook of mkdocs: comments that are for doctest alone are not shown."""

from __future__ import annotations

import re
from typing import Any


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page without `# doctest: +...`."""
    return re.sub(r"[ \t]*# doctest: [+\w, ]+$", "", markdown, flags=re.MULTILINE)
