"""Options that the commands share, and their common ending."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from unsaddle.experiments.rows import FILE

Seed = Annotated[int, typer.Option(min=0, help="Of the data, the points and the random starts.")]
Out = Annotated[Path, typer.Option(help="Directory of the rows and the page; a run that was stopped goes on from it.")]
Processes = Annotated[
    int | None, typer.Option(min=1, help="Jobs at a time; by default one a core.", show_default=False)
]


def run_and_report(experiment: Callable[[], object], out: Path) -> None:
    """Run `experiment`, which writes its rows into `out`. Then write the page of all rows there, and print its path.

    Errors that a user can correct (wrong values, missing files or packages) are printed in one line, with no traceback.
    """
    try:
        experiment()
    except KeyboardInterrupt:
        typer.echo(f"\nStopped. The rows so far are in {out / FILE}; the same command goes on from them.", err=True)
        raise typer.Exit(130) from None
    except (ValueError, ImportError, OSError) as error:
        raise fail(error) from error
    write_page(out)


def write_page(out: Path) -> None:
    """Write the page of the rows in `out`, and print its path."""
    from unsaddle.report.page import write

    try:
        page = write(out)
    except (ValueError, ImportError, OSError) as error:
        raise fail(error) from error
    typer.echo(f"The page: {page} ({page.stat().st_size / 1e6:.1f} MB)")


def fail(error: Exception) -> typer.Exit:
    """Print the error; return the exit for the caller to raise."""
    typer.echo(f"unsaddle: {error}", err=True)
    return typer.Exit(2)
