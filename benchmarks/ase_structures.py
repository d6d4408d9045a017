"""Structures whose forces vanish, by symmetry, at a saddle of the energy; EMT is the potential."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from ase import Atoms
from ase.build import add_adsorbate, bulk, fcc100, fcc111
from ase.calculators.emt import EMT
from ase.constraints import FixAtoms, FixCartesian
from ase.optimize import BFGS
from numpy.typing import NDArray

RELAXED = 1e-3
"""eV/Å, to which saddles are relaxed."""


def adatom_on_fcc100(size: int = 2) -> Atoms:
    """An adatom on the bridge site of Cu(100), the saddle of its hop from hollow to hollow."""
    slab = fcc100("Cu", (size, size, 3), vacuum=8.0)
    add_adsorbate(slab, "Cu", 1.6, "bridge")
    return _held_below(slab)


def adatom_on_fcc111(size: int = 3) -> Atoms:
    """An adatom on the bridge site of Al(111), the saddle of its hop from fcc to hcp hollow."""
    slab = fcc111("Al", (size, size, 3), vacuum=8.0)
    add_adsorbate(slab, "Al", 2.0, "bridge")
    return _held_below(slab)


def vacancy_hop(size: int = 3) -> Atoms:
    """Copper with a vacancy, and a neighbour of it half way in: the saddle of diffusion. Nothing is held."""
    crystal = bulk("Cu", cubic=True).repeat(size)
    half = crystal.get_distance(0, 1, mic=True, vector=True) / 2.0
    crystal.positions[0] += half
    del crystal[1]
    return crystal


def planar_cluster() -> Atoms:
    """Four atoms of Pt in a square: a flat saddle on the way to the tetrahedron. Free to turn and to move."""
    side = 2.6
    corners = np.array([[0, 0, 0], [side, 0, 0], [side, side, 0], [0, side, 0]], dtype=float)
    return Atoms("Pt4", positions=corners)


def cuboctahedron() -> Atoms:
    """Thirteen atoms of Cu, one of them surrounded by twelve as in the crystal: it shears into the icosahedron."""
    a = 3.6
    around = [s * np.array(p) for p in ((1, 1, 0), (1, 0, 1), (0, 1, 1)) for s in (1.0, -1.0)]
    around += [s * np.array(p) for p in ((1, -1, 0), (1, 0, -1), (0, 1, -1)) for s in (1.0, -1.0)]
    return Atoms("Cu13", positions=np.concatenate([np.zeros((1, 3)), np.array(around) * a / 2.0]))


STRUCTURES: dict[str, Callable[[], Atoms]] = {
    "adatom, bridge of Cu(100)": adatom_on_fcc100,
    "adatom, bridge of Al(111)": adatom_on_fcc111,
    "vacancy hop in Cu, midpoint": vacancy_hop,
    "Pt4, square": planar_cluster,
    "Cu13, cuboctahedron": cuboctahedron,
}


def _held_below(slab: Atoms) -> Atoms:
    """With the lowest layer held."""
    slab.set_constraint(FixAtoms(mask=slab.get_tags() == slab.get_tags().max()))
    return slab


class CountingEMT(EMT):
    """EMT that counts its evaluations."""

    calls = 0

    def calculate(self, *args: Any, **kwargs: Any) -> None:
        self.calls += 1
        super().calculate(*args, **kwargs)


def at_saddle(atoms: Atoms) -> Atoms:
    """The structure at its saddle: relaxed by ASE's BFGS, which keeps the symmetry, then by Newton's method.

    On fcc(111) the way from hollow to hollow lies in the mirror plane, so that relaxing would follow it: there the
    adatom is held above the bridge until Newton's method, which goes to the nearest stationary point, takes over.
    """
    atoms.calc = CountingEMT()
    constraints = list(atoms.constraints)
    if len(set(atoms.get_tags())) > 1:
        atoms.set_constraint([*constraints, FixCartesian(len(atoms) - 1, (True, True, False))])
    BFGS(atoms, logfile=None).run(fmax=RELAXED, steps=300)
    atoms.set_constraint(constraints)
    newton(atoms)
    atoms.calc.calls = 0
    return atoms


def hessian(atoms: Atoms, step: float = 1e-4) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Second derivatives of the energy by central differences of forces, and which coordinates they are of."""
    held = np.concatenate([c.get_indices() for c in atoms.constraints]) if atoms.constraints else []
    free = np.setdiff1d(np.arange(len(atoms)), held)
    coordinates = (3 * free[:, None] + np.arange(3)).ravel()
    start, columns = atoms.positions.ravel().copy(), []
    for i in coordinates:
        forces = []
        for side in (step, -step):
            moved = start.copy()
            moved[i] += side
            atoms.positions = moved.reshape(-1, 3)
            forces.append(atoms.get_forces().ravel()[coordinates])
        columns.append((forces[1] - forces[0]) / (2.0 * step))
    atoms.positions = start.reshape(-1, 3)
    matrix = np.array(columns)
    return (matrix + matrix.T) / 2.0, coordinates


def newton(atoms: Atoms, fmax: float = 1e-5) -> None:
    """Newton's method on F = 0, rigid motions left alone."""
    for _ in range(10):
        if np.abs(atoms.get_forces()).max() <= fmax:
            return
        matrix, coordinates = hessian(atoms)
        positions = atoms.positions.ravel().copy()
        positions[coordinates] += np.linalg.pinv(matrix, rcond=1e-5) @ atoms.get_forces().ravel()[coordinates]
        atoms.positions = positions.reshape(-1, 3)
