"""`unsaddle report`: rows to one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unsaddle.commands.output import write_page


def report(
    directory: Annotated[Path, typer.Argument(help="Where the rows are: the --out of the other commands.")],
) -> None:
    """Write one self-contained HTML page of the rows in DIRECTORY."""
    write_page(directory)
