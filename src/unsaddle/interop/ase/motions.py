"""The ways in which a structure may move: what constraints, filters and the whole's rigid motions leave.

Coordinates are those of `target.get_positions()`, flat: three a row for each atom, and three rows for the cell in
filters that move it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from ase import Atoms
from ase.constraints import FixAtoms, FixCartesian, FixedLine, FixedPlane
from ase.filters import Filter, StrainFilter, UnitCellFilter
from numpy.typing import NDArray

Array = NDArray[np.float64]

LINEAR = (FixAtoms, FixCartesian, FixedLine, FixedPlane)
"""Supported constraints: the displacements that they allow form a linear space."""

RIGID = 1e-8
"""A rigid motion is free if constraints hold less than this share of it."""

NEARLY_LINEAR = 1e-2
"""A rotation is none if it moves atoms by less than this share of the largest one: relaxed forces leave a linear
molecule bent by that much at most."""

VOIGT = ((0, 0), (1, 1), (2, 2), (1, 2), (0, 2), (0, 1))
"""Which entries of a symmetric matrix the six numbers of a strain are."""

Held = list[tuple[int, Array]]
"""For each constrained atom: its index, and an orthonormal basis of the directions in which it may not move."""


def free_motions(target: Atoms | Filter) -> Array:
    """An orthonormal basis, as rows, of the displacements that the energy depends on and that nothing holds."""
    if isinstance(target, Atoms):
        return _complement(_held_rows(target), rigid_motions(target, held_directions(target)))
    if isinstance(target, StrainFilter):
        strains: Array = np.eye(6)[np.asarray(target.mask, dtype=bool)]
        return strains
    atoms = target.atoms
    if isinstance(target, UnitCellFilter):
        held = held_directions(atoms)
        moving = _complement(_held_rows(atoms), rigid_motions(atoms, held, rotations=False))
        return _blocks(moving, _cell_motions(target))
    if type(target) is Filter:
        shown = np.zeros(len(atoms), dtype=bool)
        shown[target.index] = True
        if not np.array_equal(np.arange(len(atoms))[target.index], np.flatnonzero(shown)):
            raise ValueError("a Filter must show each atom once, in the order of the atoms; sort its indices")
        held_atoms = atoms.copy()
        held_atoms.set_constraint([*atoms.constraints, FixAtoms(np.flatnonzero(~shown))])
        whole = _complement(_held_rows(held_atoms), rigid_motions(held_atoms, held_directions(held_atoms)))
        return whole.reshape(len(whole), -1, 3)[:, shown].reshape(len(whole), -1)
    return np.eye(target.get_positions().size)


def held_directions(atoms: Atoms) -> Held:
    """The directions that the constraints hold, atom by atom."""
    held: dict[int, list[Array]] = {}
    for constraint in atoms.constraints:
        if not isinstance(constraint, LINEAR):
            name, known = type(constraint).__name__, ", ".join(c.__name__ for c in LINEAR)
            why = "displacements that heed it form no linear space"
            raise ValueError(f"the constraint {name} is not supported, only {known}: {why}")
        for i in np.atleast_1d(constraint.get_indices()):
            held.setdefault(int(i), []).append(_held_by(constraint))
    return [(i, _orthonormal(np.concatenate(rows))) for i, rows in held.items()]


def _held_by(constraint: Any) -> Array:
    """The directions that a constraint holds, as rows."""
    everything: Array = np.eye(3)
    if isinstance(constraint, FixAtoms):
        return everything
    if isinstance(constraint, FixCartesian):
        chosen: Array = everything[np.asarray(constraint.mask, dtype=bool)]
        return chosen
    along: Array = np.array(constraint.dir, dtype=np.float64).reshape(1, 3)
    along /= np.linalg.norm(along)
    return along if isinstance(constraint, FixedPlane) else everything - along.T @ along


def rigid_motions(atoms: Atoms, held: Held, rotations: bool = True) -> Array:
    """An orthonormal basis, as rows, of the translations and rotations of the whole system that nothing holds.

    A translation never changes the energy. A rotation does not if it turns no periodic direction: there are three
    without periodicity, one along a wire, none for slabs and bulk; and two for a linear molecule. Constraints leave
    only the motions that move no held coordinate, such as the rotations about a single fixed atom.
    """
    centred = atoms.positions - atoms.positions.mean(axis=0)
    motions = _orthonormal(np.array([np.tile(axis, len(atoms)) for axis in np.eye(3)]))
    periodic = [np.asarray(vector) for vector, wraps in zip(atoms.cell, atoms.pbc, strict=True) if wraps]
    if rotations and len(periodic) < 2:
        axes = [vector / np.linalg.norm(vector) for vector in periodic] or np.eye(3)
        turns = np.array([np.cross(axis, centred).ravel() for axis in axes])
        motions = np.concatenate([motions, _orthonormal(turns, NEARLY_LINEAR)])
    if held:
        blocked = np.array([row - _without(row, held) for row in motions])
        _, values, turned = np.linalg.svd(blocked.T, full_matrices=True)
        size = np.concatenate([values, np.zeros(len(motions) - len(values))])
        motions = turned[size < RIGID] @ motions
    return motions


def _cell_motions(target: UnitCellFilter) -> Array:
    """The deformations of the cell, as rows of nine numbers: symmetric ones, since a rotation changes nothing."""
    strains = np.zeros((6, 3, 3))
    for row, (i, j) in zip(strains, VOIGT, strict=True):
        row[i, j] = row[j, i] = 1.0
    rows = (strains * np.asarray(target.mask, dtype=float)).reshape(6, 9)
    sphere = np.eye(3).reshape(1, 9) / np.sqrt(3.0)
    if target.hydrostatic_strain:
        rows = sphere
    if target.constant_volume:
        rows = rows - (rows @ sphere.T) @ sphere
    return _orthonormal(rows)


def _held_rows(atoms: Atoms) -> Array:
    rows = [np.zeros((0, 3 * len(atoms)))]
    for i, basis in held_directions(atoms):
        block = np.zeros((len(basis), len(atoms), 3))
        block[:, i] = basis
        rows.append(block.reshape(len(basis), -1))
    return np.concatenate(rows)


def _complement(held: Array, rigid: Array) -> Array:
    """An orthonormal basis of what is orthogonal to both, whose rows are orthonormal together."""
    taken = np.concatenate([held, rigid])
    if not len(taken):
        return np.eye(taken.shape[1])
    rows: Array = np.linalg.svd(taken, full_matrices=True)[2][len(taken) :]
    return rows


def _blocks(first: Array, second: Array) -> Array:
    whole = np.zeros((len(first) + len(second), first.shape[1] + second.shape[1]))
    whole[: len(first), : first.shape[1]] = first
    whole[len(first) :, first.shape[1] :] = second
    return whole


def _orthonormal(rows: Array, share: float = RIGID) -> Array:
    """An orthonormal basis of the span of the rows, without what is below a share of the largest."""
    _, values, basis = np.linalg.svd(rows, full_matrices=False)
    return np.asarray(basis[values > share * values.max(initial=0.0)], dtype=np.float64)


def _without(u: Array, held: Held) -> Array:
    moved = u.reshape(-1, 3).copy()
    for i, basis in held:
        moved[i] -= basis.T @ (basis @ moved[i])
    return moved.ravel()
