"""`unsaddle complexity`: the paper's Table 1, measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unsaddle.commands.output import Out, Processes, Seed, run_and_report


def complexity(
    seeds: Annotated[int, typer.Option(min=1, help="Runs a point.")] = 3,
    seed: Seed = 0,
    out: Out = Path("results/complexity"),
    quick: Annotated[
        bool, typer.Option("--quick", help="Three points a sweep, d up to 10 000, two seeds at most.")
    ] = False,
    processes: Processes = None,
) -> None:
    """Measure Table 1 with NEON⁺, NEON and krylov inside: samples against ε, γ and d, exponents beside the bounds."""
    from unsaddle.experiments import complexity as experiment
    from unsaddle.experiments import harness
    from unsaddle.report.complexity_statements import exponents_of, statements_of

    def run() -> None:
        jobs = experiment.jobs(seeds=min(seeds, 2) if quick else seeds, seed=seed, quick=quick)
        words = experiment.describe
        rows = harness.run(jobs, experiment.work, out, experiment="complexity", processes=processes, describe=words)
        for line in exponents_of(rows):
            typer.echo(line)
        for claim, holds, measured in statements_of(rows).rows:
            typer.echo(f"{'true ' if holds else 'false'}  {claim}: {measured}")

    run_and_report(run, out)
