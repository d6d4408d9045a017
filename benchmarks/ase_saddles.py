"""Structures at saddles of EMT's energy: ASE's BFGS stays, the promoted one goes down, and verdicts are right.

Each structure is put on its saddle (`ase_structures.at_saddle`). Then ASE's BFGS and `unsaddle.interop.ase.Neon` run
from there to fmax = 0.001 eV/Å, with γ = 0.02 eV/Å², and `is_minimum` is asked at the saddle and where Neon ended. The
judge is ASE's vibrational analysis, 6 force calls for each free atom: an imaginary frequency above 10/cm is a
saddle's; the six (three) rigid motions of a cluster (crystal) are below that.

Wanted: BFGS does not move, Neon ends lower, verdicts agree with the vibrations, and take fewer force calls from ten
free atoms on.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from ase import Atoms
from ase.optimize import BFGS
from ase.vibrations import Vibrations

from benchmarks.ase_structures import STRUCTURES, CountingEMT, at_saddle
from benchmarks.environment import Report, options, table
from unsaddle.interop.ase import Neon, is_minimum

FMAX, GAMMA, IMAGINARY, LARGER = 1e-3, 0.02, 10.0, 10


def free_atoms(atoms: Atoms) -> list[int]:
    held = {int(i) for constraint in atoms.constraints for i in constraint.get_indices()}
    return [i for i in range(len(atoms)) if i not in held]


def imaginary(atoms: Atoms) -> int:
    """How many imaginary frequencies ASE finds."""
    with tempfile.TemporaryDirectory() as folder:
        vibrations = Vibrations(atoms, indices=free_atoms(atoms), name=str(Path(folder) / "vibrations"))
        vibrations.run()
        return sum(frequency.imag > IMAGINARY for frequency in vibrations.get_frequencies())


def main() -> int:
    parser = options("ASE: from saddles of EMT's energy, BFGS and its promoted version; verdicts against vibrations.")
    arguments = parser.parse_args()
    report = Report.begin("ase_saddles", arguments)
    lines, moved, higher, wrong, dear = [], 0.0, 0, 0, 0
    for name, make in STRUCTURES.items():
        atoms = at_saddle(make())
        start, energy = atoms.positions.copy(), atoms.get_potential_energy()
        BFGS(atoms, logfile=None).run(fmax=FMAX, steps=500)
        moved = max(moved, float(np.abs(atoms.positions - start).max()))
        verdicts, modes = [], []
        atoms.calc = CountingEMT()
        optimizer = Neon(atoms, logfile=None, gamma=GAMMA, seed=arguments.seed)
        for after in (False, True):
            if after:
                optimizer.run(fmax=FMAX, steps=500)
                calls, drop = atoms.calc.calls, energy - atoms.get_potential_energy()
            copy = atoms.copy()
            copy.calc = CountingEMT()
            verdicts.append(is_minimum(copy, fmax=FMAX, gamma=GAMMA, seed=arguments.seed))
            modes.append(imaginary(copy))
        free = len(free_atoms(atoms))
        spent = [verdict.cost.gradients for verdict in verdicts]
        higher += drop <= 0.0
        wrong += sum((v.kind == "saddle") != (m > 0) for v, m in zip(verdicts, modes, strict=True))
        wrong += sum(v.kind not in ("saddle", "minimum") for v in verdicts)
        dear += free >= LARGER and max(spent) >= 6 * free
        lines.append(
            [
                name,
                str(free),
                f"{verdicts[0].kind}, {modes[0]} ({spent[0]})",
                f"{verdicts[1].kind}, {modes[1]} ({spent[1]})",
                str(6 * free),
                f"{drop:.3f}",
                str(optimizer.nsteps),
                str(calls),
            ]
        )
        report.row(
            settings={"structure": name, "fmax": FMAX, "gamma": GAMMA},
            status="minimum" if verdicts[1] else verdicts[1].kind,
            free_atoms=free,
            curvature=verdicts[0].curvature,
            imaginary=modes,
            verdict_calls=spent,
            vibration_calls=6 * free,
            energy_drop=drop,
            steps=optimizer.nsteps,
            calls=calls,
            escapes=optimizer.escapes,
        )
    heads = ["structure", "free atoms", "at the start: verdict, imaginary (calls)", "at the end", "6N"]
    table("From the saddle", [*heads, "eV lower", "steps", "force calls of Neon"], lines)
    report.want("Å that BFGS moves an atom off the saddle", moved, at_most=1e-3)
    report.want("structures that Neon does not take down", higher, at_most=0)
    report.want("verdicts that vibrations contradict", wrong, at_most=0)
    report.want(f"verdicts dearer than vibrations, from {LARGER} free atoms on", dear, at_most=0)
    return report.end(arguments.out)


if __name__ == "__main__":
    raise SystemExit(main())
