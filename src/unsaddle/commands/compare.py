"""`unsaddle compare`: methods × problems × seeds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unsaddle.commands.output import Out, Processes, Seed, run_and_report


def compare(
    methods: Annotated[
        list[str] | None, typer.Option("--methods", "-m", help="A method; repeat it, or separate several by commas.")
    ] = None,
    problems: Annotated[
        list[str] | None,
        typer.Option("--problems", "-p", help="A problem; repeat it, or separate several by semicolons."),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1, help="Runs of each method on each problem; by default 5, with --demo 3.", show_default=False
        ),
    ] = None,
    seed: Seed = 0,
    out: Out = Path("results/compare"),
    data: Annotated[
        Path | None, typer.Option("--data", help="A folder of .npz or LIBSVM files: two more problems for each.")
    ] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Two problems only, for half a minute.")] = False,
    listed: Annotated[
        bool, typer.Option("--list", help="Show the methods and problems that there are, and end.")
    ] = False,
    processes: Processes = None,
) -> None:
    """Run methods on problems: samples to a second-order stationary point, curves, a performance profile."""
    from unsaddle.experiments import cases, harness
    from unsaddle.experiments import compare as experiment
    from unsaddle.methods import method_names
    from unsaddle.report.compare import by_problem, summary

    def run() -> None:
        folder = None if data is None else data.resolve()
        if listed:
            typer.echo(f"methods: {', '.join(method_names())}\nproblems: {'; '.join(cases.known_cases(folder))}")
            raise typer.Exit
        usual = experiment.DEMO_PROBLEMS if demo else cases.names_of_data(folder) or experiment.DEFAULT_PROBLEMS
        chosen = experiment.jobs(
            methods=_split(methods, ",") or experiment.DEFAULT_METHODS,
            problems=_split(problems, ";") or usual,
            seeds=seeds or (3 if demo else 5),
            seed=seed,
            data=folder,
        )
        words = experiment.describe
        rows = harness.run(chosen, experiment.work, out, experiment="compare", processes=processes, describe=words)
        for line in summary(by_problem(rows)):
            typer.echo(line)

    run_and_report(run, out)


def _split(given: list[str] | None, mark: str) -> list[str]:
    """The names in repeated options. Each option may hold several, separated by `mark`."""
    return [name.strip() for text in given or [] for name in text.split(mark) if name.strip()]
