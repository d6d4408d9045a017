"""Which model of the Hessian should scale the search: Lindh's, springs between pairs, or none.

The search of `is_minimum` alone, without the fall along what it finds, on the molecules of `ase_verdicts`.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from ase import Atoms
from ase.data import covalent_radii

from benchmarks.ase_molecules import Array, calculator, lowest, relaxed, structures
from benchmarks.ase_verdicts import CLEAR
from benchmarks.environment import Report, table
from unsaddle.interop.ase.coordinates import coordinates, model_hessian
from unsaddle.interop.ase.minimum import SPARE, START_DELTA
from unsaddle.interop.ase.search import Probes, search
from unsaddle.interop.ase.surface import EnergySurface


def springs(atoms: Atoms) -> Array:
    """40·exp(−2.5((r/(R_i + R_j))² − 1)) eV/Å² between all pairs, and 2 eV/Å² along every direction."""
    matrix: Array = 2.0 * np.eye(3 * len(atoms))
    for i in range(len(atoms)):
        for j in range(i):
            away = atoms.positions[i] - atoms.positions[j]
            r = float(np.linalg.norm(away))
            size = float(covalent_radii[atoms.numbers[[i, j]]].sum())
            row = np.zeros((len(atoms), 3))
            row[i], row[j] = away / r, -away / r
            matrix += 40.0 * np.exp(-2.5 * ((r / size) ** 2 - 1.0)) * np.outer(row, row)
    return matrix


METRICS: dict[str, Callable[[Atoms], Array]] = {
    "model Hessian": model_hessian,
    "springs": springs,
    "none": lambda atoms: np.eye(3 * len(atoms)),
}


def run(report: Report, cache: Path) -> None:
    shares: dict[str, list[float]] = {name: [] for name in METRICS}
    wrong, spread = dict.fromkeys(METRICS, 0), dict[str, list[float]]((name, []) for name in METRICS)
    for family, name, make in structures():
        known = relaxed(name, make, cache)
        if known is None:
            continue
        low = lowest(*known)[0]
        for metric, model in METRICS.items():
            atoms = known[0].copy()
            atoms.calc = calculator()
            atoms.get_forces()
            surface, space = EnergySurface(atoms), coordinates(atoms, model(atoms))
            probes = Probes(surface.sample(), surface.point, space)
            generator = torch.Generator().manual_seed(report.seed)
            budget = 2 * (space.dimension + SPARE)
            found = search(probes, space, delta=START_DELTA, budget=budget, generator=generator)
            negative = found.motion is not None and found.motion.is_negative
            wrong[metric] += (low < -CLEAR and not negative) or (low > CLEAR and negative)
            shares[metric].append(probes.calls / (6 * len(atoms)))
            values = np.linalg.eigvalsh(space.lift.T @ known[1] @ space.lift)
            if low < -CLEAR:
                spread[metric].append(-float(values[0]) / float(np.abs(values).max()))
            report.row(
                settings={"structure": name, "family": family, "metric": metric},
                status="saddle" if negative else "minimum",
                calls=probes.calls,
                lowest=low,
            )
    rows = [
        [
            metric,
            str(wrong[metric]),
            f"{statistics.median(shares[metric]):.3f}",
            f"{statistics.fmean(shares[metric]):.3f}",
            f"{max(shares[metric]):.2f}",
            f"{statistics.median(spread[metric]):.4f}",
        ]
        for metric in METRICS
    ]
    heads = ["metric", "wrong", "calls/6N, median", "mean", "largest", "-λ_min/λ_max at saddles, median"]
    table(f"The search in three metrics, {len(shares['none'])} molecules", heads, rows)
    means = {metric: statistics.fmean(values) for metric, values in shares.items()}
    report.want(
        "mean calls with the model over those with springs", means["model Hessian"] / means["springs"], at_most=1.0
    )
