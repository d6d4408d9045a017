"""The command line: `unsaddle reproduce | compare | complexity | report`. It needs the extra `cli`."""

from __future__ import annotations

import importlib
import sys
from typing import Any

COMMANDS = ("reproduce", "compare", "complexity", "report")
"""`commands/` has a file for each, with a function of the same name."""


def main() -> None:
    """The script `unsaddle`."""
    try:
        import typer  # noqa: F401
    except ImportError:
        sys.exit("the command line needs typer and matplotlib: pip install 'unsaddle[cli]'")
    app()()


def app() -> Any:
    """The typer application with all commands."""
    import typer

    commands = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
    commands.callback()(_group)
    for name in COMMANDS:
        commands.command(name)(getattr(importlib.import_module(f"unsaddle.commands.{name}"), name))
    return commands


def _group() -> None:
    """Negative curvature with gradients only: the paper's experiments, measured."""


if __name__ == "__main__":
    main()
