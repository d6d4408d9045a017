"""The energy as an objective, and calculators that fail."""

import numpy as np
import pytest
import torch

pytest.importorskip("ase")

from ase import Atoms
from ase.build import bulk, molecule
from ase.calculators.calculator import Calculator, all_changes
from ase.calculators.emt import EMT
from ase.constraints import FixAtoms
from ase.filters import FrechetCellFilter, StrainFilter, UnitCellFilter

from unsaddle.interop.ase import CalculationError, is_minimum
from unsaddle.interop.ase.surface import EnergySurface, largest_force, results_kept


class Springs(Calculator):
    """Neighbours on springs, forces only. It fails as told when an atom is moved by more than `limit`."""

    implemented_properties = ("forces",)

    def __init__(self, limit=np.inf, fails=None, **kwargs):
        super().__init__(**kwargs)
        self.limit, self.fails, self.first = limit, fails, None

    def calculate(self, atoms=None, properties=("forces",), system_changes=all_changes):
        super().calculate(atoms, properties, system_changes)
        x = atoms.positions
        self.first = x.copy() if self.first is None else self.first
        if np.abs(x - self.first).max() > self.limit:
            if self.fails is not None:
                raise self.fails
            self.results = {"forces": np.full_like(x, np.nan)}
            return
        away = x[:, None] - x[None]
        r = np.linalg.norm(away, axis=2) + np.eye(len(x))
        pull = 10.0 * (r - 1.0) * (1.0 - np.eye(len(x)))
        self.results = {"forces": -(pull[..., None] * away / r[..., None]).sum(axis=1)}


def triangle(**how):
    corners = [[0, 0, 0], [1, 0, 0], [0.5, np.sqrt(0.75), 0]]
    return Atoms("Cu3", positions=corners, calculator=Springs(**how))


@pytest.mark.parametrize("kind", [lambda a: a, UnitCellFilter, FrechetCellFilter, StrainFilter])
def test_gradients_are_those_of_the_energy(kind):
    crystal = bulk("Cu", cubic=True)
    crystal.calc = EMT()
    crystal.rattle(0.05, seed=1)
    surface = EnergySurface(kind(crystal))
    f, x = surface.sample(), surface.point
    v = torch.randn(len(x), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    if kind is StrainFilter or kind in (UnitCellFilter, FrechetCellFilter):
        v[-9:] = 0.5 * (v[-9:].reshape(3, 3) + v[-9:].reshape(3, 3).T).ravel() if len(x) > 9 else v[-9:]
    v /= 20.0 * v.norm()
    slope = float(f.grad(x) @ v)
    difference = float(f.value(x + 1e-3 * v) - f.value(x - 1e-3 * v)) / 2e-3
    assert difference == pytest.approx(slope, rel=1e-3)


def test_a_calculator_without_energies_is_enough():
    verdict = is_minimum(triangle())
    assert verdict.kind == "minimum"
    assert np.isnan(verdict.energy)
    side = (2.0 + np.sqrt(2.0)) / 4.0  # Where the springs of sides and diagonals are at rest together.
    flat = side * np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]])
    square = is_minimum(Atoms("Cu4", positions=flat, calculator=Springs()))
    assert square.kind == "saddle"
    assert np.isnan(square.drop)
    np.testing.assert_allclose(square.mode[:, :2], 0.0, atol=0.1)  # Out of the plane, towards the tetrahedron.


@pytest.mark.parametrize(
    ("fails", "says"),
    [
        (RuntimeError("SCF not converged in 250 cycles"), "RuntimeError: SCF not converged"),
        (None, "forces are not finite"),
    ],
)
def test_a_calculator_that_fails_in_a_probe_leaves_the_structure_and_says_which(fails, says):
    atoms = triangle(limit=1e-6, fails=fails)
    before = atoms.positions.copy()
    with pytest.raises(CalculationError, match=rf"with atom \d displaced by 0\.01 Å: {says}") as raised:
        is_minimum(atoms)
    assert "The structure is where it was" in str(raised.value)
    np.testing.assert_array_equal(atoms.positions, before)


def test_a_calculator_that_fails_at_the_structure_says_so():
    atoms = triangle(limit=-1.0, fails=RuntimeError("no parameters"))
    with pytest.raises(CalculationError, match="at the structure itself: RuntimeError: no parameters"):
        is_minimum(atoms)


def test_what_the_calculator_knew_needs_no_new_call(with_emt):
    crystal = with_emt(bulk("Cu", cubic=True))
    forces, energy = crystal.get_forces().copy(), crystal.get_potential_energy()
    calls = crystal.calc.calls
    with results_kept(crystal.calc):
        other = crystal.copy()
        other.calc = crystal.calc
        other.rattle(0.1, seed=0)
        other.get_forces()
    assert crystal.calc.calls == calls + 1
    np.testing.assert_array_equal(crystal.get_forces(), forces)
    assert crystal.get_potential_energy() == energy
    assert crystal.calc.calls == calls + 1


def test_the_target_is_copied_without_its_constraints(with_emt):
    atoms = with_emt(bulk("Cu", cubic=True))
    atoms.set_constraint(FixAtoms([0]))
    surface = EnergySurface(atoms)
    surface.sample().grad(surface.point + 0.01)
    assert len(atoms.constraints) == 1
    np.testing.assert_array_equal(atoms.positions.ravel(), surface.point.numpy())


def test_what_cannot_be_looked_at_is_refused():
    with pytest.raises(ValueError, match="atoms have no calculator"):
        is_minimum(molecule("H2O"))
    with pytest.raises(TypeError, match=r"atoms must be ase\.Atoms or a filter of ase\.filters, got str"):
        is_minimum("H2O.xyz")


def test_atoms_at_one_place_and_places_that_are_no_numbers_are_refused():
    with pytest.raises(ValueError, match=r"atoms 0 and 1 are at one place, 0 Å apart"):
        is_minimum(Atoms("Cu2", positions=np.zeros((2, 3)), calculator=EMT()))
    with pytest.raises(ValueError, match="positions of atoms must be finite"):
        is_minimum(Atoms("Cu", positions=[[np.nan, 0.0, 0.0]], calculator=EMT()))


def test_forces_that_constraints_cannot_use_are_told():
    """ASE's own error would be about an index."""

    class Lists(EMT):
        def get_forces(self, atoms=None):
            return super().get_forces(atoms).tolist()

    atoms = bulk("Cu").repeat(2)
    atoms.calc = Lists()
    atoms.set_constraint(FixAtoms([0]))
    with pytest.raises(CalculationError, match="forces must be an array of numbers"):
        largest_force(atoms)
