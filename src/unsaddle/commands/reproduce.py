"""`unsaddle reproduce`: the paper's simulation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unsaddle.commands.output import Out, Processes, Seed, run_and_report

Data = Annotated[
    Path | None,
    typer.Option(
        "--data", help="LIBSVM text (plain, .gz, .bz2) or .npz; by default digits that come with scikit-learn."
    ),
]
Like = Annotated[str | None, typer.Option("--as", help="gisette: make its features from MNIST's 4 and 9.")]


def reproduce(
    seed: Seed = 0,
    out: Out = Path("results/reproduce"),
    data: Data = None,
    like: Like = None,
    targets: Annotated[int, typer.Option(min=1, help="Random points x ~ N(0, I), one pair of figures each.")] = 5,
    iterations: Annotated[int, typer.Option(min=10, help="Of NEON and the power method.")] = 1000,
    features: Annotated[int, typer.Option(min=120, help="d of the data that is made here.")] = 5000,
    processes: Processes = None,
) -> None:
    """Draw Figure 1 (a), (b) and the four pairs of the supplement, and judge the paper's observations."""
    from unsaddle.experiments import observations
    from unsaddle.experiments.reproduce import reproduce as experiment

    def run() -> None:
        rows = experiment(
            out,
            seed=seed,
            file=data,
            like=like,
            targets=targets,
            iterations=iterations,
            num_features=features,
            processes=processes,
        )
        for observation in observations.judged(rows):
            typer.echo(str(observation))
        if targets < observations.ENOUGH:
            typer.echo(f"  What is open {observations.cannot_be_judged(targets)}: it takes {observations.ENOUGH}.")

    run_and_report(run, out)
