"""What may move, counted by hand and checked against energies."""

import numpy as np
import pytest

pytest.importorskip("ase")

from ase import Atoms
from ase.build import bulk, molecule
from ase.calculators.emt import EMT
from ase.constraints import FixAtoms, FixBondLengths, FixCartesian, FixedLine, FixedPlane
from ase.filters import Filter, FrechetCellFilter, StrainFilter, UnitCellFilter

from unsaddle.interop.ase.motions import free_motions, held_directions, rigid_motions


def cluster(pbc=False, n=5):
    positions = np.random.default_rng(0).uniform(0, 4, (n, 3))
    return Atoms(f"Cu{n}", positions=positions, cell=[10, 10, 10], pbc=pbc)


@pytest.mark.parametrize(("pbc", "count"), [(False, 6), ((True, False, False), 4), ((True, True, False), 3), (True, 3)])
def test_rotations_are_left_out_where_the_system_has_them(pbc, count):
    atoms = cluster(pbc)
    motions = rigid_motions(atoms, held_directions(atoms))
    assert len(motions) == count
    np.testing.assert_allclose(motions @ motions.T, np.eye(count), atol=1e-12)
    assert len(free_motions(atoms)) == 15 - count


def test_a_linear_molecule_has_two_rotations():
    straight = molecule("CO2")
    assert len(free_motions(straight)) == 4
    straight.positions[1] += [0.0, 0.002, 0.0]  # As far as relaxed forces leave it.
    assert len(free_motions(straight)) == 4
    assert len(free_motions(molecule("H2O"))) == 3


def test_a_single_atom_has_nothing_to_move():
    assert len(free_motions(Atoms("Cu"))) == 0


@pytest.mark.parametrize(
    ("constraint", "rigid", "free"),
    [
        (FixAtoms([0]), 3, 9),
        (FixAtoms([0, 1]), 1, 8),
        (FixAtoms([0, 1, 2]), 0, 6),
        (FixCartesian([0], (True, True, True)), 3, 9),
        (FixCartesian([0, 1, 2, 3, 4], (False, False, True)), 3, 7),
        (FixedPlane([0, 1, 2, 3, 4], (0, 0, 1)), 3, 7),
        (FixedLine([0, 1, 2, 3, 4], (0, 0, 1)), 1, 4),
    ],
    ids=str,
)
def test_constraints_hold_what_they_hold_and_leave_some_rigid_motions(constraint, rigid, free):
    atoms = cluster()
    atoms.set_constraint(constraint)
    motions = free_motions(atoms)
    assert len(rigid_motions(atoms, held_directions(atoms))) == rigid
    assert len(motions) == free
    np.testing.assert_allclose(motions @ motions.T, np.eye(free), atol=1e-12)
    for motion in motions:  # As ASE sees it.
        forces = motion.reshape(-1, 3).copy()
        constraint.adjust_forces(atoms, forces)
        np.testing.assert_allclose(forces.ravel(), motion, atol=1e-12)


def test_rigid_motions_change_no_energy():
    atoms = cluster()
    atoms.calc = EMT()
    energy = atoms.get_potential_energy()
    for motion in rigid_motions(atoms, []):
        moved = atoms.copy()
        moved.calc = EMT()
        moved.positions += 1e-4 * motion.reshape(-1, 3)
        assert moved.get_potential_energy() == pytest.approx(energy, abs=1e-6)


@pytest.mark.parametrize(
    ("how", "count"),
    [
        ({}, 6),
        ({"mask": [1, 1, 1, 0, 0, 0]}, 3),
        ({"hydrostatic_strain": True}, 1),
        ({"constant_volume": True}, 5),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", [UnitCellFilter, FrechetCellFilter])
def test_a_cell_has_six_strains_or_those_that_its_filter_leaves(kind, how, count):
    crystal = bulk("Cu", cubic=True)
    assert len(free_motions(kind(crystal, **how))) == 12 - 3 + count


def test_filters_of_strain_and_of_some_atoms():
    crystal = bulk("Cu", cubic=True)
    assert len(free_motions(StrainFilter(crystal, mask=[1, 1, 0, 0, 0, 1]))) == 3
    assert free_motions(Filter(crystal, indices=[1, 2])).shape == (6, 6)
    assert free_motions(Filter(crystal, mask=[True] * 4)).shape == (9, 12)
    with pytest.raises(ValueError, match="a Filter must show each atom once, in the order of the atoms"):
        free_motions(Filter(crystal, indices=[2, 1]))


def test_constraints_that_are_not_linear_are_refused():
    atoms = cluster()
    atoms.set_constraint(FixBondLengths([(0, 1)]))
    with pytest.raises(ValueError, match="the constraint FixBondLengths is not supported, only FixAtoms"):
        free_motions(atoms)
