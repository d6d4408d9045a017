"""Hooks of mkdocs: comments for doctest are not shown, prompts are known as such, and the search needs no host."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

SHIM, OURS = "https://unpkg.com/iframe-worker/shim", "iframe_worker.js"
"""What the offline plugin loads for its search, and our own file that does the same."""


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page without `# doctest: +...`. Examples with prompts are sessions, so that they are copied without them."""
    markdown = re.sub(r"[ \t]*# doctest: [+\w, ]+$", "", markdown, flags=re.MULTILINE)
    markdown = re.sub(r"(?<=\d) / (?=\d)", "\u00a0/\u00a0", markdown)  # Counts stay on one line.
    return markdown.replace("```python\n>>>", "```pycon\n>>>")


def on_post_build(config: Any, **_: Any) -> None:
    """Let every page take the search's worker from the site itself."""
    site = Path(config.site_dir)
    for page in site.rglob("*.html"):
        text, up = page.read_text(encoding="utf-8"), "../" * (len(page.relative_to(site).parts) - 1)
        page.write_text(text.replace(SHIM, up + OURS), encoding="utf-8")
