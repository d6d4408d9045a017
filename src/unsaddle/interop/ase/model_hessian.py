"""A model of the Hessian from positions alone: stretches, bends, torsions and flat centres, as springs.

    H ≈ Σ_a k_a·b_a b_aᵀ + floor·I,     b_a the derivative of an internal coordinate

The force constants are those of Lindh, Bernhardsson, Karlström and Malmqvist (Chem. Phys. Lett. 241, 423, 1995), with
ρ_ij = exp(α_ij(R_ij² − r_ij²)), which falls off from bonded pairs outwards:

    stretch 0.45·ρ_ij     bend 0.15·ρ_ij·ρ_jk     torsion 0.005·ρ_ij·ρ_jk·ρ_kl     Hartree, Bohr and radians

It is not exact and need not be: in its metric a torsion stands beside a bond, so that few products show both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from ase import Atoms
from ase.neighborlist import neighbor_list
from ase.units import Bohr, Hartree
from numpy.typing import NDArray

Array = NDArray[np.float64]

STRETCH, BEND, TORSION = 0.45 * Hartree / Bohr**2, 0.15 * Hartree, 0.005 * Hartree
"""eV/Å², eV and eV: Lindh's constants."""

ALPHA = np.array([[1.0, 0.3949, 0.3949], [0.3949, 0.28, 0.28], [0.3949, 0.28, 0.28]]) / Bohr**2
REFERENCE = np.array([[1.35, 2.1, 2.53], [2.1, 2.87, 3.4], [2.53, 3.4, 3.4]]) * Bohr
"""Lindh's α and R, by the rows of the periodic table: the first, the second, all others."""

FLAT_CENTRE = 3.0
"""eV/Å² for an atom with three neighbours that leaves their plane: a guess. The lowest modes of AlF3 and BCl3 have 2.8
and 5.8 with GFN2-xTB."""

FLOOR = 0.1
"""eV/Å², added along every direction, for motions that the model does not know: those of molecules against each other
are from 0.01 to 0.5."""

BONDED, FARTHEST = 0.3, 5.0
"""Bends and torsions are of pairs with ρ above this. Stretches are taken between atoms within so many Å."""

CLOSEST = 1e-3
"""Å: atoms that are closer are at one place."""

STRAIGHT, PLANE = 0.17, 0.35
"""The sine of an angle below which it counts as straight, 10 degrees; and Å from the plane within which a centre is
flat."""


class Primitive(NamedTuple):
    """An internal coordinate: the atoms that it depends on, their positions side by side, its derivative, its k."""

    atoms: tuple[int, ...]
    positions: Array
    derivative: Array
    constant: float


def primitives(atoms: Atoms) -> Iterator[Primitive]:
    """The internal coordinates of the model. Each bond is met from both ends, each bend and torsion once."""
    row = np.searchsorted([2, 10], atoms.numbers)
    first, second, away = neighbor_list("ijD", atoms, FARTHEST)
    length = np.linalg.norm(away, axis=1)
    if length.min(initial=FARTHEST) < CLOSEST:
        i = int(length.argmin())
        raise ValueError(
            f"atoms {first[i]} and {second[i]} are at one place, {length[i]:.2g} Å apart; move one of them"
        )
    pair = row[first], row[second]
    rho = np.exp(ALPHA[pair] * (REFERENCE[pair] ** 2 - length**2))
    rho = np.minimum(rho, 1.0)
    bonds: dict[int, list[tuple[int, Array, float]]] = {i: [] for i in range(len(atoms))}
    at = atoms.positions
    for i, j, vector, r, weight in zip(first, second, away, length, rho, strict=True):
        unit = vector / r
        # Half the constant, since the pair is met twice.
        yield Primitive((i, j), np.array([at[i], at[i] + vector]), np.array([-unit, unit]), 0.5 * STRETCH * weight)
        if weight > BONDED:
            bonds[int(i)].append((int(j), vector, float(weight)))
    for j, around in bonds.items():
        for n, (i, a, rho_a) in enumerate(around):
            for k, b, rho_b in around[n + 1 :]:
                yield from _bend((i, j, k), at[j], a, b, BEND * rho_a * rho_b)
        if len(around) == 3:
            yield from _flat_centre(j, at[j], around)
        for k, axis, rho_axis in around:
            if j < k:  # A bond to an image of its own atom has no torsions here: crystals have bends enough.
                yield from _torsions(j, k, at[j], axis, rho_axis, around, bonds[k])


def _bend(atoms: tuple[int, int, int], centre: Array, a: Array, b: Array, constant: float) -> Iterator[Primitive]:
    """The angle between a and b; two of them if it is straight."""
    ra, rb = float(np.linalg.norm(a)), float(np.linalg.norm(b))
    ua, ub = a / ra, b / rb
    positions = np.array([centre + a, centre, centre + b])
    cosine = float(np.clip(ua @ ub, -1.0, 1.0))
    sine = np.sqrt(1.0 - cosine**2)
    if sine < STRAIGHT:
        if cosine < 0.0:
            for e in np.linalg.svd(ua.reshape(1, 3))[2][1:]:
                yield Primitive(atoms, positions, np.array([e / ra, -e / ra - e / rb, e / rb]), constant)
        return
    da, db = (cosine * ua - ub) / (ra * sine), (cosine * ub - ua) / (rb * sine)
    yield Primitive(atoms, positions, np.array([da, -da - db, db]), constant)


def _flat_centre(j: int, centre: Array, around: list[tuple[int, Array, float]]) -> Iterator[Primitive]:
    """The way of an atom out of the plane of its three neighbours, if it is in it."""
    (i, a, rho_a), (k, b, rho_b), (m, c, rho_c) = around
    normal = np.cross(b - a, c - a)
    normal /= np.linalg.norm(normal)
    if abs(a @ normal) < PLANE:
        positions = np.array([centre, centre + a, centre + b, centre + c])
        # Where the centre is among the three, so that a rotation of all four changes nothing.
        level = np.array([v - (v @ normal) * normal for v in (a, b, c)])
        shares = np.linalg.lstsq(np.vstack([level.T, np.ones(3)]), np.array([0.0, 0.0, 0.0, 1.0]), rcond=None)[0]
        derivative = np.array([normal, *(-share * normal for share in shares)])
        yield Primitive((j, i, k, m), positions, derivative, FLAT_CENTRE * rho_a * rho_b * rho_c)


def _torsions(
    j: int,
    k: int,
    centre: Array,
    axis: Array,
    rho_axis: float,
    around_j: list[tuple[int, Array, float]],
    around_k: list[tuple[int, Array, float]],
) -> Iterator[Primitive]:
    """The dihedral angles about the bond from j to k."""
    r = float(np.linalg.norm(axis))
    for i, a, rho_a in around_j:
        across_a = np.cross(a, axis)
        sine_a = float(np.linalg.norm(across_a)) / (r * float(np.linalg.norm(a)))
        for m, b, rho_b in around_k:
            across_b = np.cross(b, axis)
            sine_b = float(np.linalg.norm(across_b)) / (r * float(np.linalg.norm(b)))
            if i == m or min(sine_a, sine_b) < STRAIGHT:
                continue
            da = across_a * r / float(across_a @ across_a)
            db = -across_b * r / float(across_b @ across_b)
            share_a, share_b = float(a @ axis) / r**2, float(b @ axis) / r**2
            # A rotation about the bond, and none of the whole: the two ends of the axis take the rest.
            dj = -(1.0 - share_a) * da + share_b * db
            dk = -share_a * da - (1.0 + share_b) * db
            positions = np.array([centre + a, centre, centre + axis, centre + axis + b])
            yield Primitive((i, j, k, m), positions, np.array([da, dj, dk, db]), TORSION * rho_a * rho_axis * rho_b)
