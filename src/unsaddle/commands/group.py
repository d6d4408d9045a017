"""What `unsaddle` says about itself, without a command."""

from __future__ import annotations

from typing import Annotated

import typer

from unsaddle import __version__


def _tell(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


def group(
    version: Annotated[
        bool, typer.Option("--version", callback=_tell, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Is it a minimum or a saddle, and which way is down? Answered with gradients only."""
