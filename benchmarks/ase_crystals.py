"""Crystals of copper with EMT, with the cell free to move: bcc and simple cubic are saddles, fcc is a minimum.

The truth is the full Hessian in the coordinates of `FrechetCellFilter`. A supercell with an internal soft mode is
simple cubic copper in a cell that is held: no strain, only atoms against each other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from ase import Atoms
from ase.build import bulk
from ase.filters import Filter, FrechetCellFilter
from ase.optimize import BFGS

from benchmarks.ase_structures import CountingEMT
from benchmarks.environment import Report, table
from unsaddle.interop.ase import Neon, is_minimum
from unsaddle.interop.ase.motions import free_motions

FMAX, STEP = 1e-3, 1e-3
LATTICES = {"fcc": 3.6, "bcc": 2.86, "sc": 2.4}
WANTED = {"fcc": 0, "bcc": 2, "sc": 3, "sc, supercell, cell held": None}
"""Negative modes of one cell with one atom; None if at least one is expected."""


def crystals() -> dict[str, Any]:
    """Each relaxed by BFGS, which keeps the symmetry. One atom in the cell, or a supercell of 2×2×2 with its cell
    held."""
    made: dict[str, Any] = {}
    for name, a in LATTICES.items():
        atoms = bulk("Cu", name, a=a)
        atoms.calc = CountingEMT()
        made[name] = FrechetCellFilter(atoms)
        BFGS(made[name], logfile=None).run(fmax=FMAX, steps=300)
    supercell = made["sc"].atoms.repeat(2)
    supercell.calc = CountingEMT()
    return made | {"sc, supercell, cell held": supercell}


def curvatures(target: Atoms | Filter) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The eigenvalues of the Hessian over all free motions, by central differences."""
    start, basis = target.get_positions(), free_motions(target)

    def gradient(displacement: Any) -> Any:
        target.set_positions(start + displacement.reshape(start.shape))
        return -target.get_forces().ravel()

    rows = [(gradient(STEP * v) - gradient(-STEP * v)) / (2.0 * STEP) for v in basis]
    target.set_positions(start)
    matrix = np.array(rows) @ basis.T
    values: np.ndarray[Any, np.dtype[np.float64]] = np.linalg.eigvalsh((matrix + matrix.T) / 2.0)
    return values


def run(report: Report) -> None:
    lines, wrong, ends, fcc = [], 0, [], 0.0
    for name, target in crystals().items():
        atoms = target if isinstance(target, Atoms) else target.atoms
        values = curvatures(target)
        negative = int((values < -1e-3).sum())
        expected = WANTED[name]
        wrong += negative != expected if expected is not None else negative == 0
        verdict = is_minimum(target, fmax=2.0 * FMAX, seed=report.seed)
        wrong += verdict.kind != ("saddle" if negative else "minimum")
        atoms.calc.calls = 0
        optimizer = Neon(target, logfile=None, seed=report.seed)
        arrived = optimizer.run(fmax=FMAX, steps=500)
        energy = atoms.get_potential_energy() / len(atoms)
        if name == "fcc":
            fcc = energy
        if isinstance(target, Filter):
            ends.append(energy - fcc)
        wrong += not arrived or curvatures(target)[0] < -1e-3
        lines.append(
            [
                name,
                str(negative),
                f"{values[0]:.3f}",
                verdict.kind,
                f"{verdict.curvature:.3f}",
                str(verdict.cost.gradients),
                str(len(optimizer.left)),
                f"{1e3 * (energy - fcc):.2f}",
                str(atoms.calc.calls),
            ]
        )
        report.row(
            settings={"crystal": name, "fmax": FMAX},
            status=str(verdict.kind),
            negative_modes=negative,
            lowest=float(values[0]),
            curvature=verdict.curvature,
            calls=verdict.cost.gradients,
            energy_above_fcc=energy - fcc,
            neon_calls=atoms.calc.calls,
            arrived=bool(arrived),
        )
    heads = ["crystal", "negative modes", "λ_min", "verdict", "eV/Å²", "calls", "saddles left", "meV/atom above fcc"]
    table("Copper, EMT", [*heads, "calls of Neon"], lines)
    report.want("wrong verdicts, modes and ends", wrong, at_most=0)
    report.want("eV/atom that Neon ends above fcc", max(ends), at_most=1e-3)
