"""The coordinates z that a search runs in: free motions, scaled by the model Hessian.

    u = Lz,   L = Bᵀ(B·H_model·Bᵀ)^(−1/2),   B the free motions as rows

The Hessian in z is near to one along most directions if the model is good. Its signs are those of the true one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from ase import Atoms
from ase.filters import Filter, FrechetCellFilter, StrainFilter, UnitCellFilter

from unsaddle.interop.ase.model_hessian import FLOOR, primitives
from unsaddle.interop.ase.motions import VOIGT, Array, free_motions
from unsaddle.interop.ase.surface import atoms_of

BOND = 2.5
"""Å. A strain moves an atom by this much times itself against its neighbour: about the distance of neighbours."""


@dataclass(frozen=True, eq=False)
class Coordinates:
    """L, and how far a displacement u moves atoms."""

    lift: Array
    """L, with a row for each coordinate of the target and a column for each free motion."""
    cell_rows: int
    """The rows of three coordinates, at the end, that move the cell; the strain is their number over `cell_factor`."""
    cell_factor: float

    @property
    def dimension(self) -> int:
        return int(self.lift.shape[1])

    def movement(self, displacement: Array) -> float:
        """Å by which the atom moves that moves most; a strain counts by what it does to a bond."""
        rows = displacement.reshape(-1, 3)
        atoms, cell = rows[: len(rows) - self.cell_rows], rows[len(rows) - self.cell_rows :]
        strain = float(np.linalg.norm(cell)) / self.cell_factor
        return max(float(np.linalg.norm(atoms, axis=1).max(initial=0.0)), BOND * strain)


def coordinates(target: Atoms | Filter, model: Array | None = None) -> Coordinates:
    """The free motions of the target, scaled by the model Hessian, or by another one."""
    basis, (cell_rows, factor) = free_motions(target), _cell(target)
    model = model_hessian(target) if model is None else model
    values, vectors = np.linalg.eigh(basis @ model @ basis.T)
    return Coordinates(basis.T @ (vectors / np.sqrt(values)), cell_rows, factor)


def model_hessian(target: Atoms | Filter) -> Array:
    """The model Hessian in the coordinates of the target, in eV/Å²."""
    atoms, (cell_rows, factor) = atoms_of(target), _cell(target)
    shown = np.arange(len(atoms))
    if type(target) is Filter:
        shown = shown[target.index]
    n = target.get_positions().size
    matrix = FLOOR * np.eye(n)
    place = {int(atom): row for row, atom in enumerate(shown)}
    by_atoms = n - 3 * cell_rows
    for p in primitives(atoms):
        row = np.zeros(n)
        if by_atoms:
            for atom, part in zip(p.atoms, p.derivative, strict=True):
                if atom in place:
                    row[3 * place[atom] : 3 * place[atom] + 3] += part
        if cell_rows:
            virial = p.derivative.T @ p.positions
            row[by_atoms:] = _strains(virial) if isinstance(target, StrainFilter) else virial.ravel() / factor
        used = np.flatnonzero(row)
        matrix[np.ix_(used, used)] += p.constant * np.outer(row[used], row[used])
    return matrix


def _strains(virial: Array) -> Array:
    return np.array([(virial[i, j] + virial[j, i]) / 2.0 for i, j in VOIGT])


def _cell(target: Atoms | Filter) -> tuple[int, float]:
    """The rows that move the cell, and what a deformation is multiplied by there."""
    if isinstance(target, StrainFilter):
        return 2, 1.0
    if isinstance(target, FrechetCellFilter):
        return 3, float(target.exp_cell_factor)
    if isinstance(target, UnitCellFilter):
        return 3, float(target.cell_factor)
    return 0, 1.0
