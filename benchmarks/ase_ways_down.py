"""From saddles to a minimum: force calls and energies of what people do, and of promoted optimizers.

Each way starts at the relaxed symmetric structure, with a new calculator at tblite's default accuracy, and ends with
forces below fmax. "Checked" ways end with a proof: a vibrational analysis (6N calls, counted) or our check. Where each
ended is judged by a full Hessian that is not counted.
"""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from ase import Atoms
from ase.optimize import BFGS

from benchmarks.ase_molecules import (
    DISPLACEMENT,
    FMAX,
    Array,
    calculator,
    hessian,
    lowest,
    lowest_mode,
    relaxed,
    structures,
)
from benchmarks.ase_verdicts import CLEAR
from benchmarks.environment import Report, table
from unsaddle.interop.ase import Neon, promoted

STEPS, RATTLE, STEP, ROUNDS = 500, 0.02, 0.1, 5
"""Steps of an optimizer; Å by which atoms are rattled, and by which the mode moves the atom that moves most; and how
often vibrations may send BFGS on."""


def bfgs_and_vibrations(atoms: Atoms, seed: int) -> None:
    """BFGS, vibrations; a step along the imaginary mode, and again, until there is none."""
    for _ in range(ROUNDS):
        BFGS(atoms, logfile=None).run(fmax=FMAX, steps=STEPS)
        value, mode = vibrations(atoms)
        if value > -CLEAR:
            return
        atoms.positions += STEP / np.linalg.norm(mode, axis=1).max() * mode


def rattled(atoms: Atoms, seed: int) -> None:
    """A rattle, BFGS, and vibrations to see whether it helped."""
    atoms.rattle(RATTLE, seed=seed)
    BFGS(atoms, logfile=None).run(fmax=FMAX, steps=STEPS)
    vibrations(atoms)


def neon(atoms: Atoms, seed: int) -> None:
    Neon(atoms, logfile=None, seed=seed).run(fmax=FMAX, steps=STEPS)


def sella(atoms: Atoms, seed: int, wrap: Callable[[Any], Any] = lambda base: base, rattle: float = 0.0) -> None:
    from sella import Sella

    if rattle:
        atoms.rattle(rattle, seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wrap(Sella)(atoms, order=0, internal=True, logfile=None).run(fmax=FMAX, steps=STEPS)


WAYS: dict[str, Callable[[Atoms, int], None]] = {
    "Neon": neon,
    "BFGS, vibrations, step, again": bfgs_and_vibrations,
    "rattle, BFGS, vibrations": rattled,
    "Sella": sella,
    "rattle, Sella": lambda atoms, seed: sella(atoms, seed, rattle=RATTLE),
    "promoted(Sella)": lambda atoms, seed: sella(atoms, seed, wrap=promoted),
}


def vibrations(atoms: Atoms) -> tuple[float, Array]:
    """The lowest curvature without rigid motions and its mode, by 6N force calls at the calculator's accuracy."""
    start, rows = atoms.positions.copy(), []
    for i in range(start.size):
        forces = []
        for side in (DISPLACEMENT, -DISPLACEMENT):
            moved = start.ravel().copy()
            moved[i] += side
            atoms.positions = moved.reshape(-1, 3)
            forces.append(atoms.get_forces().ravel())
        rows.append((forces[1] - forces[0]) / (2.0 * DISPLACEMENT))
    atoms.positions = start
    matrix = (np.array(rows) + np.array(rows).T) / 2.0
    return lowest_mode(atoms, matrix)


def run(report: Report, cache: Path, names: list[str] | None = None) -> None:
    results: dict[str, list[tuple[int, bool, float]]] = {way: [] for way in WAYS}
    lines = []
    for family, name, make in structures(["symmetric", "methyl"]):
        known = relaxed(name, make, cache)
        if known is None or lowest(*known)[0] >= -CLEAR or (names and name not in names):
            continue
        line = [name, str(6 * len(known[0]))]
        for way, go in WAYS.items():
            atoms = known[0].copy()
            atoms.calc = calculator()
            before, status = atoms.get_potential_energy(), "minimum"
            atoms.calc.calls = 0
            try:
                go(atoms, report.seed)
                calls = atoms.calc.calls
                relaxed_now = np.linalg.norm(atoms.get_forces(), axis=1).max() <= 2.0 * FMAX
                left = relaxed_now and lowest(atoms, hessian(atoms))[0] > -CLEAR
                drop = before - atoms.get_potential_energy()
                status = "minimum" if left else "saddle" if relaxed_now else "not relaxed"
            except Exception as error:  # Failures are rows, too.
                calls, left, drop, status = atoms.calc.calls, False, 0.0, f"{type(error).__name__}: {error}"[:200]
            results[way].append((calls, left, drop))
            line.append(f"{calls}{'' if left else '*'} {1e3 * drop:.0f}")
            report.row(
                settings={"structure": name, "family": family, "way": way, "fmax": FMAX},
                status=status,
                atoms=len(atoms),
                calls=calls,
                energy_drop=drop,
            )
        lines.append(line)
    table("Force calls and meV lower; * not at a minimum", ["from", "6N", *WAYS], lines)
    rows = []
    for way, ends in results.items():
        good = [calls for calls, left, _ in ends if left]
        lower = [drop for _, _, drop in ends]
        middle = f"{statistics.median(good):.0f}" if good else ""
        total = str(sum(calls for calls, *_ in ends))
        rows.append([way, f"{len(good)} of {len(ends)}", middle, total, f"{1e3 * statistics.fmean(lower):.0f}"])
    table("In all", ["way", "at a minimum", "median calls there", "calls in all", "meV lower, mean"], rows)
    for way in ("Neon", "promoted(Sella)"):
        stuck = sum(not left for _, left, _ in results[way])
        report.want(f"runs of {way} that do not end at a minimum", stuck, at_most=0)
