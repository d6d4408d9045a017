"""Every extractor on the paper's problem, in one table: `make demo`, or `python -m unsaddle.experiments.extractors`.

The setting is that of the paper's simulation: F(x) = Σ x²/(1+x²) + (λ/n) Σ (b − σ(xᵀa))² with λ = 3, at x ~ N(0, I),
and γ = 1, which its momentum 0.9 = 1 − √(ηγ) at η = 0.01 implies (E30). The data are made from scikit-learn's digits in
the way gisette was made.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from unsaddle.curvature import Curvature, negative_curvature
from unsaddle.curvature.extract import EXTRACTORS
from unsaddle.curvature.lanczos import LanczosSettings, lanczos
from unsaddle.curvature.power import second_order
from unsaddle.objective import Objective
from unsaddle.problems import embedded_digits, sigmoid_least_squares

GAMMA = 1.0
SAMPLES = 400
"""|S| of the stochastic rows."""
REFERENCE_STEPS = 60
"""Lanczos steps for the lowest eigenvalue that the rows are compared with."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One extractor's answer and the time it took."""

    method: str
    samples: int | None
    result: Curvature
    seconds: float


def extractor_rows(objective: Objective, x: Tensor, seed: int) -> Iterator[Row]:
    """Every extractor on everything, then NEON and NEON⁺ on a sample."""
    runs = [(method, None) for method in EXTRACTORS] + [("neon", SAMPLES), ("neon+", SAMPLES)]
    for method, samples in runs:
        start = time.perf_counter()
        result = negative_curvature(objective, x, gamma=GAMMA, method=method, samples=samples, seed=seed)
        yield Row(method=method, samples=samples, result=result, seconds=time.perf_counter() - start)


def lowest_eigenvalue(objective: Objective, x: Tensor, seed: int) -> float:
    """λ_min(∇²F(x)) from a Lanczos run that nothing stops early."""
    settings = LanczosSettings(num_steps=REFERENCE_STEPS, target=float("inf"))
    f = second_order(objective.sample(hessian=True))
    return lanczos(f, x, settings, torch.Generator().manual_seed(seed)).lowest


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Every extractor on the paper's problem, on embedded data.")
    parser.add_argument("--seed", type=int, default=0, help="of the point x and of every run (default 0)")
    seed = parser.parse_args(arguments).seed

    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if Console().is_terminal else 140)
    features, labels = embedded_digits()
    objective = sigmoid_least_squares(features, labels).objective
    n, d = features.shape
    x = torch.randn(d, generator=torch.Generator().manual_seed(seed), dtype=features.dtype)
    table = Table(title=f"Negative curvature of the paper's function at x ~ N(0, I): n={n}, d={d}, γ={GAMMA:g}")
    for column in ("extractor", "data", "curvature", "±", "gradients", "products", "IFO", "ISO", "seconds", "status"):
        table.add_column(column, justify="left" if column in ("extractor", "data", "status") else "right")
    rows = []
    for row in extractor_rows(objective, x, seed):
        cost = row.result.cost
        measured = row.result.measurements[-1] if row.result.measurements else None
        table.add_row(
            row.method,
            "all" if row.samples is None else f"{row.samples} samples",
            f"{measured.curvature:.3f}" if measured else "–",
            f"{measured.error:.0e}" if measured else "–",
            str(cost.gradients),
            str(cost.hessian_products),
            str(cost.samples),
            str(cost.hessian_samples),
            f"{row.seconds:.2f}",
            row.result.status.name.lower().replace("_", " "),
        )
        rows.append(row)
    console.print(table)
    console.print(
        f"Lowest eigenvalue, from {REFERENCE_STEPS} Lanczos steps: {lowest_eigenvalue(objective, x, seed):.3f}."
    )
    console.print(
        f"Extractors stop at the first direction with curvature at most −γ/2 = {-GAMMA / 2:g}; krylov goes on until it "
        "has converged. The curvature is measured again, symmetrically; after a sample, on fresh samples too."
    )
    for status in dict.fromkeys(row.result.status for row in rows):
        console.print(f"[bold]{status.name.lower().replace('_', ' ')}[/bold]: {status.value}.")


if __name__ == "__main__":
    main()
