"""Molecules, clusters, surfaces and crystals: verdicts beside vibrations, and ways down from saddles.

Parts, which `--only` chooses: `emt` (here), `crystals` (`ase_crystals`), `molecules` (`ase_verdicts`), `ways`
(`ase_ways_down`) and `metrics` (`ase_metrics`). The last three need the extra `xtb`, `ways` also the package `sella`.

emt: structures at saddles of EMT's energy. Each structure is put on its saddle (`ase_structures.at_saddle`). Then ASE's
BFGS and `unsaddle.interop.ase.Neon` run from there to fmax = 0.001 eV/Å, and `is_minimum` is asked at the saddle and
where Neon ended. The judge is ASE's vibrational analysis, 6 force calls for each free atom: an imaginary frequency
above 10/cm is a saddle's; the six (three) rigid motions of a cluster (crystal) are below that. Wanted: BFGS does not
move, Neon ends lower, verdicts agree with the vibrations, and take fewer force calls.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from ase import Atoms
from ase.optimize import BFGS
from ase.vibrations import Vibrations

from benchmarks import ase_crystals, ase_metrics, ase_verdicts, ase_ways_down
from benchmarks.ase_structures import STRUCTURES, CountingEMT, at_saddle
from benchmarks.environment import Report, options, table
from unsaddle.interop.ase import Neon, is_minimum

PARTS = ("emt", "crystals", "molecules", "ways", "metrics")
FMAX, IMAGINARY = 1e-3, 10.0


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
    parser = options("ASE: verdicts beside vibrations, and ways down from saddles.")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="parts to run")
    parser.add_argument("--names", nargs="+", default=None, help="of molecules; all by default")
    parser.add_argument(
        "--cache",
        type=Path,
        default=Path("out/ase"),
        metavar="DIR",
        help="where relaxed molecules and Hessians are kept",
    )
    arguments = parser.parse_args()
    report = Report.begin("ase_saddles", arguments)
    if "emt" in arguments.only:
        emt(report)
    if "crystals" in arguments.only:
        ase_crystals.run(report)
    if "molecules" in arguments.only:
        ase_verdicts.run(report, arguments.cache, arguments.names)
    if "ways" in arguments.only:
        ase_ways_down.run(report, arguments.cache, arguments.names)
    if "metrics" in arguments.only:
        ase_metrics.run(report, arguments.cache)
    return report.end(arguments.out)


def emt(report: Report) -> None:
    lines, moved, higher, wrong, dear = [], 0.0, 0, 0, 0
    for name, make in STRUCTURES.items():
        atoms = at_saddle(make())
        start, energy = atoms.positions.copy(), atoms.get_potential_energy()
        BFGS(atoms, logfile=None).run(fmax=FMAX, steps=500)
        moved = max(moved, float(np.abs(atoms.positions - start).max()))
        verdicts, modes = [], []
        atoms.calc = CountingEMT()
        optimizer = Neon(atoms, logfile=None, seed=report.seed)
        for after in (False, True):
            if after:
                optimizer.run(fmax=FMAX, steps=500)
                calls, drop = atoms.calc.calls, energy - atoms.get_potential_energy()
            copy = atoms.copy()
            copy.calc = CountingEMT()
            verdicts.append(is_minimum(copy, fmax=FMAX, seed=report.seed))
            modes.append(imaginary(copy))
        free = len(free_atoms(atoms))
        spent = [verdict.cost.gradients for verdict in verdicts]
        higher += drop <= 0.0
        wrong += sum((v.kind == "saddle") != (m > 0) for v, m in zip(verdicts, modes, strict=True))
        wrong += sum(v.kind not in ("saddle", "minimum") for v in verdicts)
        dear += max(spent) >= 6 * free
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
            settings={"structure": name, "fmax": FMAX},
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
    report.want("verdicts dearer than vibrations", dear, at_most=0)


if __name__ == "__main__":
    raise SystemExit(main())
