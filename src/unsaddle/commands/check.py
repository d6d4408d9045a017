"""`unsaddle check`: is the point in a file a minimum or a saddle?"""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

if TYPE_CHECKING:
    from unsaddle.judgement import Verdict

ERROR = 3
"""The exit code of a mistake, in the file or on the command line. Verdicts have the codes of `CODES`."""

CODES = {"minimum": 0, "saddle": 1, "undecided": 2, "not stationary": 2}


class Command(TyperCommand):
    """A command whose wrong use ends with 3: the usual 2 is one of the verdicts."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            if hasattr(error, "exit_code") and error.exit_code == 2:
                error.exit_code = ERROR
            raise


def check(
    target: Annotated[str, typer.Argument(metavar="FILE.py[:NAME]", help="The file, and what is looked at in it.")],
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Weights to load first: a state_dict, or a flat tensor x. Read with weights_only=True."),
    ] = None,
    samples: Annotated[
        int | None, typer.Option(min=1, help="Rows that a gradient takes; by default all.", show_default=False)
    ] = None,
    gamma: Annotated[
        float | None,
        typer.Option(help="Curvature below -gamma is looked for; by default 1/100 of the largest.", show_default=False),
    ] = None,
    eps: Annotated[
        float | None,
        typer.Option(
            help="Gradients up to this norm count as zero; by default 1/1000 of the largest curvature, times the norm "
            "of x where that is above 1.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the samples and the random start.")] = 0,
    out: Annotated[Path, typer.Option(help="Directory of the page and its figures.")] = Path("results/check"),
) -> None:
    """Tell whether the point in FILE.py is a minimum or a saddle. FILE.py is run: check only what you trust.

    The file has an objective, or a function without arguments that makes one, or model, loss(model, batch) and data. A
    plain function needs its point too, as x. Without NAME, `objective` is taken; else model, loss and data; else the
    only objective that there is.

    Exit code: 0 a minimum, 1 a saddle, 2 undecided or not stationary, 3 an error.
    """
    verdict = _verdict(target, checkpoint, samples, gamma, eps, seed, out)
    raise typer.Exit(CODES[verdict.kind])


def _verdict(
    target: str,
    checkpoint: Path | None,
    samples: int | None,
    gamma: float | None,
    eps: float | None,
    seed: int,
    out: Path,
) -> Verdict:
    from unsaddle.checks import module_of
    from unsaddle.commands.user_file import find
    from unsaddle.judgement import is_minimum
    from unsaddle.report.check import advice, write

    try:
        typer.echo(f"Running {target} ...", err=True)
        found = find(target, checkpoint)
        verdict = is_minimum(found.objective, found.x, samples=samples, gamma=gamma, eps=eps, seed=seed, progress=True)
        typer.echo(str(verdict))
        where = verdict.where()
        if where:
            typer.echo(f"  lives in    {where}")
        typer.echo("\n".join(["", "What to do:", *(f"- {line}" for line in advice(verdict))]))
        typer.echo(f"\nThe page: {write(out, verdict, target)}")
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    except BrokenPipeError:  # Whoever read the output has enough of it, as `head`. That is no error of the file.
        raise typer.Exit(ERROR) from None
    except SystemExit as error:  # Its code would be taken for a verdict.
        why = f" with {error.code}" if error.code else ""
        typer.echo(f"unsaddle: {target} ended itself{why} before there was a verdict", err=True)
        raise typer.Exit(ERROR) from error
    except Exception as error:
        if isinstance(error, (ValueError, TypeError, ImportError, OSError)) and module_of(error).startswith(
            "unsaddle."
        ):
            typer.echo(f"unsaddle: {error}", err=True)
        else:  # The file's own: its traceback says where.
            traceback.print_exc()
            typer.echo(f"unsaddle: {target} failed: {type(error).__name__}: {error}", err=True)
        raise typer.Exit(ERROR) from error
    return verdict
