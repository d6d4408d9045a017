"""The Morse index of structures: the truth is the full Hessian by central differences."""

import numpy as np
import pytest
from ase.build import molecule
from ase.calculators.emt import EMT
from ase.constraints import FixAtoms
from ase.optimize import BFGS

from benchmarks.ase_structures import STRUCTURES, at_saddle, hessian
from unsaddle.interop.ase import morse_index


@pytest.mark.parametrize("name", ["adatom, bridge of Cu(100)", "Pt4, square", "Cu13, cuboctahedron"])
def test_the_index_is_that_of_the_full_hessian_for_fewer_calls_than_vibrations(name):
    atoms = at_saddle(STRUCTURES[name]())
    values = np.linalg.eigvalsh(hessian(atoms)[0])
    before = atoms.positions.copy()
    found = morse_index(atoms)
    assert found.lower == found.upper == (values < -1e-3).sum()
    np.testing.assert_allclose(found.values, values[: found.lower], rtol=0.05)
    assert found.cost.gradients < 6 * len(atoms)
    np.testing.assert_array_equal(atoms.positions, before)


def test_gamma_leaves_softer_modes_out():
    atoms = at_saddle(STRUCTURES["Pt4, square"]())
    assert [morse_index(atoms, gamma=gamma).upper for gamma in (0.0, 0.5, 2.0)] == [2, 1, 0]


def test_a_minimum_has_index_zero_and_a_held_structure_no_motions():
    water = molecule("H2O", calculator=EMT())
    BFGS(water, logfile=None).run(fmax=1e-3)
    found = morse_index(water)
    assert (found.lower, found.upper, found.dimension) == (0, 0, 3)
    water.set_constraint(FixAtoms(range(3)))
    assert morse_index(water).dimension == 0


def test_gamma_must_not_be_negative():
    with pytest.raises(ValueError, match="gamma"):
        morse_index(molecule("H2O", calculator=EMT()), gamma=-1.0)
