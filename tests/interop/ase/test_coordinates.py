"""The scaled coordinates: signs stay, stiff and soft motions stand side by side, strains and positions compare."""

import numpy as np
import pytest

pytest.importorskip("ase")

from ase.build import bulk, molecule
from ase.calculators.emt import EMT
from ase.filters import FrechetCellFilter, StrainFilter, UnitCellFilter

from benchmarks.ase_crystals import curvatures
from unsaddle.interop.ase.coordinates import BOND, coordinates, model_hessian
from unsaddle.interop.ase.motions import free_motions


def test_the_model_is_one_in_its_own_coordinates():
    ethanol = molecule("CH3CH2OH")
    space = coordinates(ethanol)
    assert space.dimension == 21
    np.testing.assert_allclose(space.lift.T @ model_hessian(ethanol) @ space.lift, np.eye(21), atol=1e-10)
    basis = free_motions(ethanol)
    np.testing.assert_allclose(basis.T @ (basis @ space.lift), space.lift, atol=1e-12)


@pytest.mark.parametrize("kind", [UnitCellFilter, FrechetCellFilter, StrainFilter])
def test_strains_of_the_model_have_the_size_of_those_of_the_energy(kind):
    """EMT's elastic constants within a factor of ten, whatever unit the filter has for them."""
    crystal = bulk("Cu", cubic=True)
    crystal.calc = EMT()
    target = kind(crystal)
    basis = free_motions(target)
    model = np.linalg.eigvalsh(basis @ model_hessian(target) @ basis.T)
    true = curvatures(target)
    assert np.all(true > 0.0)
    assert 0.1 < np.exp(np.mean(np.log(model) - np.log(true))) < 10.0


def test_a_displacement_counts_by_the_atom_that_moves_most_and_a_strain_by_a_bond():
    crystal = bulk("Cu", cubic=True)
    space = coordinates(FrechetCellFilter(crystal))
    u = np.zeros((7, 3))
    u[2] = [0.03, 0.0, 0.04]
    u[1] = [0.01, 0.0, 0.0]
    assert space.movement(u.ravel()) == pytest.approx(0.05)
    u[4, 0] = 4 * 0.1  # Four atoms: the filter multiplies strains by four.
    assert space.movement(u.ravel()) == pytest.approx(BOND * 0.1)
