"""Structures for the Morse index in `benchmarks.spectrum`: their saddles, and their index by the full Hessian.

EMT: the saddles of `ase_structures`. GFN2-xTB (the extra `xtb`): symmetric molecules of `ase_molecules`, relaxed within
their symmetry, at tblite's default accuracy. Rigid motions are left out of both.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from ase import Atoms

from benchmarks import ase_molecules
from benchmarks.ase_structures import STRUCTURES, at_saddle, hessian

SOFT = 0.02
"""eV/Å². Modes within this of zero depend on the accuracy of the calculator: a structure that has one is left out."""

SIZE = 8
"""Atoms of the largest molecule."""

RIGID = 1e-3
"""eV/Å². EMT's forces are exact, and rigid motions are below this; no other mode is."""


def structures(folder: Path) -> Iterator[tuple[str, Atoms, int]]:
    """Family, atoms with a calculator, and the index."""
    for make in STRUCTURES.values():
        atoms = at_saddle(make())
        yield "structures, EMT", atoms, int((np.linalg.eigvalsh(hessian(atoms)[0]) < -RIGID).sum())
    for name, make in ase_molecules.SYMMETRIC.items():
        if len(make()) > SIZE:
            continue
        found = ase_molecules.relaxed(name, make, folder)
        if found is None:
            continue
        atoms, matrix = found
        values = ase_molecules.without_rigid(atoms, matrix)[0]
        if np.abs(values).min() < SOFT:
            continue
        atoms.calc = ase_molecules.calculator()
        yield "molecules, GFN2-xTB", atoms, int((values < 0.0).sum())
