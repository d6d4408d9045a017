"""The command line: `unsaddle check | reproduce | compare | complexity | report`. It needs the extra `cli`."""

from __future__ import annotations

import importlib
import inspect
import sys
from typing import Any

COMMANDS = ("check", "reproduce", "compare", "complexity", "report")
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

    commands = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)
    commands.callback()(importlib.import_module("unsaddle.commands.group").group)
    for name in COMMANDS:
        module = importlib.import_module(f"unsaddle.commands.{name}")
        function = getattr(module, name)
        commands.command(name, cls=getattr(module, "Command", None), help=paragraphs(function.__doc__))(function)
    return commands


def paragraphs(text: str) -> str:
    """The text with each paragraph in one line, for terminals of any width.

    >>> paragraphs("One\\n    line.\\n\\n    Another.")
    'One line.\\n\\nAnother.'
    """
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in inspect.cleandoc(text).split("\n\n"))


if __name__ == "__main__":
    main()
