"""Molecules that others defined, relaxed with GFN2-xTB: minima of ASE's sets, and symmetric starts that end on saddles.

The structures are ASE's sets g2 and s22, the closed-shell ones. Symmetric starts are made from them, or by hand. Both
are relaxed by ASE's BFGS to `FMAX` at tblite's default accuracy: the optimizer keeps the symmetry, so that a flat
molecule stays flat. The truth is the full Hessian by central differences of forces at `TIGHT` accuracy, without rigid
motions. Relaxed structures and Hessians are kept in a folder, since relaxing takes most of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from ase import Atoms
from ase.build import molecule
from ase.collections import g2, s22
from ase.io import read, write
from ase.optimize import BFGS
from numpy.typing import NDArray

Array = NDArray[np.float64]

FMAX, STEPS = 0.01, 400
"""eV/Å, and the most steps of a relaxation. What has not converged by then is left out, and said."""

TIGHT, DISPLACEMENT = 0.01, 0.01
"""tblite's accuracy for the true Hessian, and Å by which each coordinate is moved for it."""

LARGEST = 30
"""Atoms. Larger complexes of s22 are left out."""


def calculator(accuracy: float = 1.0, method: str = "GFN2-xTB") -> Any:
    """tblite's calculator, at its default accuracy unless told."""
    from tblite.ase import TBLite

    class Counting(TBLite):  # type: ignore[misc]
        """tblite that counts its evaluations."""

        calls = 0

        def calculate(self, *args: Any, **kwargs: Any) -> None:
            self.calls += 1
            super().calculate(*args, **kwargs)

    return Counting(method=method, accuracy=accuracy, verbosity=0)


def others() -> dict[str, Callable[[], Atoms]]:
    """The closed-shell molecules of g2 and complexes of s22."""
    found: dict[str, Callable[[], Atoms]] = {}
    for collection in (g2, s22):
        for name in collection.names:
            atoms = collection[name]
            odd = sum(atoms.numbers) % 2 or np.any(atoms.get_initial_magnetic_moments())
            if 1 < len(atoms) <= LARGEST and not odd:
                found[name] = lambda collection=collection, name=name: collection[name]
    return found


# Symmetric starts


def turned(name: str, bond: tuple[int, int], group: list[int], angle: float) -> Callable[[], Atoms]:
    """A molecule of g2 with a group turned about a bond, by degrees."""

    def make() -> Atoms:
        atoms = molecule(name)
        start, axis = atoms.positions[bond[0]], atoms.positions[bond[1]] - atoms.positions[bond[0]]
        part = atoms[group]
        part.rotate(angle, axis, center=start)
        atoms.positions[group] = part.positions
        return atoms

    return make


def flat(name: str, axis: int) -> Callable[[], Atoms]:
    """A molecule of g2 with one coordinate of all atoms set to zero."""

    def make() -> Atoms:
        atoms = molecule(name)
        atoms.positions[:, axis] = 0.0
        return atoms

    return make


def ring(number: int, radius: float, hydrogens: float) -> Callable[[], Atoms]:
    """A flat ring (CH2)_n: carbon at `radius`, hydrogen above and below at the radius `hydrogens`."""

    def make() -> Atoms:
        angles = 2.0 * np.pi * np.arange(number) / number
        around = np.stack([np.cos(angles), np.sin(angles), np.zeros(number)], axis=1)
        up = np.array([0.0, 0.0, 0.88])
        positions = np.concatenate([radius * around, hydrogens * around + up, hydrogens * around - up])
        return Atoms(f"C{number}H{2 * number}", positions=positions)

    return make


def placed(symbols: str, positions: list[tuple[float, float, float]]) -> Callable[[], Atoms]:
    return lambda: Atoms(symbols, positions=positions)


def in_plane(symbols: str, *polar: tuple[float, float]) -> Callable[[], Atoms]:
    """Atoms in the plane, each at a distance and an angle, in degrees."""
    return placed(symbols, [(r * np.cos(np.radians(a)), r * np.sin(np.radians(a)), 0.0) for r, a in polar])


THREE = (0.0, 120.0, 240.0)
FOUR = (0.0, 90.0, 180.0, 270.0)

SYMMETRIC: dict[str, Callable[[], Atoms]] = {
    "ammonia, flat": in_plane("NH3", (0, 0), *((1.0, a) for a in THREE)),
    "phosphine, flat": in_plane("PH3", (0, 0), *((1.4, a) for a in THREE)),
    "nitrogen trifluoride, flat": in_plane("NF3", (0, 0), *((1.35, a) for a in THREE)),
    "phosphorus trifluoride, flat": in_plane("PF3", (0, 0), *((1.6, a) for a in THREE)),
    "chlorine trifluoride, threefold": in_plane("ClF3", (0, 0), *((1.75, a) for a in THREE)),
    "methane, square": in_plane("CH4", (0, 0), *((1.1, a) for a in FOUR)),
    "silane, square": in_plane("SiH4", (0, 0), *((1.5, a) for a in FOUR)),
    "silicon tetrafluoride, square": in_plane("SiF4", (0, 0), *((1.6, a) for a in FOUR)),
    "water, linear": placed("OH2", [(0, 0, 0), (0, 0, 0.95), (0, 0, -0.95)]),
    "hydrogen sulfide, linear": placed("SH2", [(0, 0, 0), (0, 0, 1.35), (0, 0, -1.35)]),
    "oxygen difluoride, linear": placed("OF2", [(0, 0, 0), (0, 0, 1.4), (0, 0, -1.4)]),
    "sulfur dioxide, linear": placed("SO2", [(0, 0, 0), (0, 0, 1.45), (0, 0, -1.45)]),
    "hydrogen peroxide, cis": placed("O2H2", [(0, 0.72, 0), (0, -0.72, 0), (0.9, 0.95, 0), (0.9, -0.95, 0)]),
    "hydrogen peroxide, trans": placed("O2H2", [(0, 0.72, 0), (0, -0.72, 0), (0.9, 0.95, 0), (-0.9, -0.95, 0)]),
    "hydrogen peroxide, linear": placed("O2H2", [(0, 0, 0.7), (0, 0, -0.7), (0, 0, 1.65), (0, 0, -1.65)]),
    "hydrazine, flat": placed(
        "N2H4",
        [(0, 0.7, 0), (0, -0.7, 0), (0.87, 1.2, 0), (-0.87, 1.2, 0), (0.87, -1.2, 0), (-0.87, -1.2, 0)],
    ),
    "ethane, eclipsed": turned("C2H6", (0, 1), [2, 3, 4], 60.0),
    "disilane, eclipsed": turned("Si2H6", (0, 1), [2, 3, 4], 60.0),
    "cyclobutane, flat": ring(4, 1.09, 1.75),
    "cyclopentane, flat": ring(5, 1.31, 1.95),
    "cyclohexane, flat": ring(6, 1.56, 2.2),
    "cycloheptane, flat": ring(7, 1.8, 2.4),
    "cyclobutane of g2, flat carbon": lambda: _level("cyclobutane"),
    "allene, flat": placed(
        "C3H4",
        [
            (0, 0, 0),
            (0, 0, 1.31),
            (0, 0, -1.31),
            (0.93, 0, 1.87),
            (-0.93, 0, 1.87),
            (0.93, 0, -1.87),
            (-0.93, 0, -1.87),
        ],
    ),
    "water dimer, two hydrogen bonds": placed(
        "O2H4",
        [
            *((0, 1.4 * s, 0) for s in (1, -1)),
            *((0.58 * t, (1.4 + 0.77) * s, 0) for s in (1, -1) for t in (1, -1)),
        ],
    ),
}
"""Each is stationary by symmetry once it is relaxed within it."""


def methyls() -> dict[str, Callable[[], Atoms]]:
    """Every molecule of g2 with one methyl group turned by 60 degrees: eclipsed where it was staggered."""
    found: dict[str, Callable[[], Atoms]] = {}
    for name in g2.names:
        if name not in others() or name in ("C2H6", "CH4") or len(molecule(name)) < 5:
            continue
        atoms = molecule(name)
        distances = atoms.get_all_distances()
        for carbon in np.flatnonzero(atoms.numbers == 6):
            hydrogens = [int(i) for i in np.flatnonzero((atoms.numbers == 1) & (distances[carbon] < 1.3))]
            heavy = [int(i) for i in np.flatnonzero((atoms.numbers > 1) & (distances[carbon] < 2.0)) if i != carbon]
            if len(hydrogens) == 3 and len(heavy) == 1:
                found[f"{name}, methyl turned"] = turned(name, (int(carbon), heavy[0]), hydrogens, 60.0)
                break
    return found


def _level(name: str) -> Atoms:
    """The ring of carbon made flat, with each hydrogen moved as its carbon is."""
    atoms = molecule(name)
    carbon = np.flatnonzero(atoms.numbers == 6)
    _, _, axes = np.linalg.svd(atoms.positions[carbon] - atoms.positions[carbon].mean(axis=0))
    normal = axes[2]
    moves = -(atoms.positions[carbon] - atoms.positions[carbon].mean(axis=0)) @ normal
    nearest = carbon[atoms.get_all_distances()[:, carbon].argmin(axis=1)]
    by_atom = dict(zip(carbon.tolist(), moves.tolist(), strict=True))
    atoms.positions += np.outer([by_atom[int(c)] for c in nearest], normal)
    return atoms


# Relaxed structures and their Hessians


def relaxed(name: str, make: Callable[[], Atoms], folder: Path) -> tuple[Atoms, Array] | None:
    """The structure after BFGS, and its Hessian; None if it did not converge. Both are kept in `folder`."""
    stem = folder / name.replace(" ", "_").replace(",", "")
    structure, matrix = stem.with_name(stem.name + ".traj"), stem.with_name(stem.name + ".npy")
    if not matrix.exists():
        folder.mkdir(parents=True, exist_ok=True)
        atoms = make()
        atoms.set_initial_magnetic_moments(None)
        atoms.calc = calculator()
        try:
            converged = BFGS(atoms, logfile=None, maxstep=0.1).run(fmax=FMAX, steps=STEPS)
        except Exception as error:  # Of any kind: an SCF may fail in many ways.
            print(f"  {name}: {type(error).__name__} while relaxing", flush=True)
            converged = False
        write(structure, atoms.copy())
        np.save(matrix, hessian(atoms) if converged else np.zeros((0, 0)))
    atoms, true = read(structure), np.load(matrix)
    return (atoms, true) if len(true) else None


def hessian(atoms: Atoms) -> Array:
    """Second derivatives of the energy by central differences of forces, at `TIGHT` accuracy."""
    moved = atoms.copy()
    moved.calc = calculator(TIGHT)
    start, rows = atoms.positions.ravel().copy(), []
    for i in range(len(start)):
        forces = []
        for side in (DISPLACEMENT, -DISPLACEMENT):
            there = start.copy()
            there[i] += side
            moved.positions = there.reshape(-1, 3)
            forces.append(moved.get_forces().ravel())
        rows.append((forces[1] - forces[0]) / (2.0 * DISPLACEMENT))
    matrix: Array = np.array(rows)
    return (matrix + matrix.T) / 2.0


def lowest(atoms: Atoms, matrix: Array) -> tuple[float, float]:
    """λ_min and λ_max of the Hessian without translations and rotations."""
    values = without_rigid(atoms, matrix)[0]
    return float(values[0]), float(values[-1])


def lowest_mode(atoms: Atoms, matrix: Array) -> tuple[float, Array]:
    """λ_min without translations and rotations, and its motion, a row for each atom."""
    values, modes = without_rigid(atoms, matrix)
    return float(values[0]), modes[0].reshape(-1, 3)


def without_rigid(atoms: Atoms, matrix: Array) -> tuple[Array, Array]:
    """Eigenvalues of the Hessian without translations and rotations, and their motions, in rows."""
    centred = atoms.positions - atoms.positions.mean(axis=0)
    motions = [np.tile(axis, len(atoms)) for axis in np.eye(3)]
    motions += [np.cross(axis, centred).ravel() for axis in np.eye(3)]
    _, sizes, rows = np.linalg.svd(np.array(motions), full_matrices=True)
    free = rows[int((sizes > 1e-2 * sizes[0]).sum()) :]
    values, vectors = np.linalg.eigh(free @ matrix @ free.T)
    return values, vectors.T @ free


def structures(only: list[str] | None = None) -> Iterator[tuple[str, str, Callable[[], Atoms]]]:
    """Family, name, and how to make it: "set", "symmetric" or "methyl"."""
    for family, members in (("set", others()), ("symmetric", SYMMETRIC), ("methyl", methyls())):
        if only is None or family in only:
            for name, make in members.items():
                yield family, name, make
