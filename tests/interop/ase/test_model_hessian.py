"""The model against what it has to have: derivatives of ASE's own angles, and no resistance to rigid motions."""

import numpy as np
import pytest

pytest.importorskip("ase")

from ase.build import molecule

from unsaddle.interop.ase.model_hessian import primitives

MOLECULES = ("CH3CH2OH", "H2O2", "C2H4", "BF3", "C2H2", "CO2", "C6H6")


@pytest.mark.parametrize("name", MOLECULES)
def test_nothing_resists_a_translation_or_a_rotation(name):
    for p in primitives(molecule(name)):
        np.testing.assert_allclose(p.derivative.sum(axis=0), 0.0, atol=1e-12)
        np.testing.assert_allclose(np.cross(p.positions, p.derivative).sum(axis=0), 0.0, atol=1e-12)
        assert p.constant > 0.0


@pytest.mark.parametrize("size", [2, 3, 4])
def test_derivatives_are_those_of_lengths_angles_and_dihedrals_as_ase_measures_them(size):
    atoms = molecule("H2O2")
    measure = {2: "get_distance", 3: "get_angle", 4: "get_dihedral"}[size]
    found = [p for p in primitives(atoms) if len(p.atoms) == size]
    assert found
    unit = 1.0 if size == 2 else np.pi / 180.0
    for p in found:
        for which, atom in enumerate(p.atoms):
            for axis in range(3):
                ends = []
                for side in (1e-5, -1e-5):
                    moved = atoms.copy()
                    moved.positions[atom, axis] += side
                    ends.append(getattr(moved, measure)(*p.atoms) * unit)
                assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(p.derivative[which, axis], abs=1e-5)


def test_a_straight_molecule_bends_both_ways_and_a_flat_one_leaves_its_plane():
    carbon_dioxide = [p for p in primitives(molecule("CO2")) if len(p.atoms) == 3]
    assert len(carbon_dioxide) == 2
    assert carbon_dioxide[0].derivative.ravel() @ carbon_dioxide[1].derivative.ravel() == pytest.approx(0.0, abs=1e-12)
    assert [len(p.atoms) for p in primitives(molecule("BF3"))].count(4) == 1
    assert [len(p.atoms) for p in primitives(molecule("NH3"))].count(4) == 0
