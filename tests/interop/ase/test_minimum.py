"""Verdicts on structures against dense Hessians and ASE's own vibrational analysis, with EMT."""

import numpy as np
import pytest

pytest.importorskip("ase")

from ase import Atoms
from ase.build import bulk
from ase.calculators.emt import EMT
from ase.constraints import FixAtoms
from ase.filters import Filter, FrechetCellFilter, StrainFilter, UnitCellFilter
from ase.optimize import BFGS
from ase.vibrations import Vibrations

from benchmarks.ase_crystals import LATTICES, curvatures
from benchmarks.ase_structures import hessian
from unsaddle.interop.ase import is_minimum


def free_atoms(atoms):
    held = {int(i) for c in atoms.constraints for i in c.get_indices()}
    return [i for i in range(len(atoms)) if i not in held]


@pytest.mark.slow
def test_the_curvature_at_a_saddle_is_that_of_the_dense_hessian_along_the_mode(saddle):
    verdict = is_minimum(saddle)
    matrix, coordinates = hessian(saddle)
    v = verdict.direction.numpy()
    along = v[coordinates] @ matrix @ v[coordinates]
    assert verdict.kind == "saddle"
    assert np.linalg.norm(v) == pytest.approx(1.0)
    assert verdict.interval[0] <= along <= verdict.interval[1]
    assert verdict.curvature == pytest.approx(along, rel=0.02)
    assert verdict.curvature <= 0.5 * np.linalg.eigvalsh(matrix)[0]


def test_force_calls_are_counted_and_fewer_than_half_of_those_of_vibrations(saddle):
    verdict = is_minimum(saddle)
    assert saddle.calc.calls <= verdict.cost.gradients <= 3 * len(free_atoms(saddle))


def test_the_fall_along_the_mode_is_there(saddle):
    verdict = is_minimum(saddle)
    before = saddle.get_potential_energy()
    saddle.set_positions(saddle.positions + verdict.length * verdict.direction.numpy().reshape(-1, 3))
    assert before - saddle.get_potential_energy() == pytest.approx(verdict.drop, abs=1e-9)
    assert verdict.drop > 0.0


def test_atoms_stay_as_they_are_and_what_the_calculator_knew_is_kept(saddle):
    saddle.get_forces()
    before, calculator = saddle.copy(), saddle.calc
    verdict = is_minimum(saddle)
    assert saddle == before
    assert saddle.calc is calculator
    assert len(saddle.constraints) == len(before.constraints)
    calls = calculator.calls
    assert saddle.get_potential_energy() == verdict.energy
    assert calculator.calls == calls


@pytest.mark.parametrize("kind", ["saddle", "minimum"])
@pytest.mark.parametrize("name", ["adatom", "square"])
def test_verdicts_agree_with_the_vibrational_analysis_of_ase(name, kind, saddles, relaxations, with_emt, tmp_path):
    atoms = with_emt((saddles[name] if kind == "saddle" else relaxations[name][0].atoms).copy())
    vibrations = Vibrations(atoms, indices=free_atoms(atoms), name=str(tmp_path / kind))
    vibrations.run()
    imaginary = [w for w in vibrations.get_frequencies() if w.imag > 10.0]  # In 1/cm; rigid motions are below.
    assert is_minimum(atoms).kind == kind
    assert (len(imaginary) > 0) == (kind == "saddle")


def test_held_atoms_do_not_move_in_the_mode(saddles, with_emt):
    atoms = with_emt(saddles["adatom"].copy())
    held = atoms.constraints[0].get_indices()
    np.testing.assert_allclose(is_minimum(atoms).mode[held], 0.0, atol=1e-12)


@pytest.mark.parametrize("kind", [UnitCellFilter, FrechetCellFilter, StrainFilter])
@pytest.mark.parametrize("lattice", LATTICES)
def test_crystals_with_a_free_cell(lattice, kind, with_emt):
    """bcc and simple cubic copper shear to fcc: by two and by three modes, says the dense Hessian."""
    crystal = with_emt(bulk("Cu", lattice, a=LATTICES[lattice]))
    BFGS(FrechetCellFilter(crystal), logfile=None).run(fmax=1e-3)
    target = kind(crystal)
    values = curvatures(target)
    assert (values < -1e-3).sum() == {"fcc": 0, "bcc": 2, "sc": 3}[lattice]
    verdict = is_minimum(target)
    assert verdict.kind == ("minimum" if lattice == "fcc" else "saddle")
    assert np.isnan(verdict.frequency)
    if lattice != "fcc":
        assert values[0] - 0.01 <= verdict.curvature <= 0.5 * values[0]


def test_atoms_of_a_supercell_have_a_soft_mode_though_the_cell_is_held(with_emt):
    crystal = with_emt(bulk("Cu", "sc", a=2.42).repeat(2))
    verdict = is_minimum(crystal)
    assert verdict.kind == "saddle"
    assert verdict.frequency < 0.0
    matrix, _ = hessian(crystal)
    v = verdict.direction.numpy()
    assert verdict.curvature == pytest.approx(v @ matrix @ v, abs=0.02)


def test_a_filter_of_some_atoms_holds_the_others(saddles, with_emt):
    square = with_emt(saddles["square"].copy())
    assert is_minimum(square).kind == "saddle"
    one = is_minimum(Filter(square, indices=[0]))
    square.set_constraint(FixAtoms([1, 2, 3]))
    held = is_minimum(square)
    assert one.kind == held.kind
    assert one.curvature == pytest.approx(held.curvature, rel=0.05)
    assert one.mode.shape == (1, 3)


def test_forces_that_are_not_small_are_said_with_the_mode_that_was_seen(saddles, with_emt):
    square = with_emt(saddles["square"].copy())
    square.positions[0, 0] += 0.1
    verdict = is_minimum(square)
    assert verdict.kind == "not stationary"
    assert verdict.gradient_norm == pytest.approx(np.linalg.norm(square.get_forces(), axis=1).max())
    assert verdict.direction is not None
    assert verdict.drop > 0.0
    assert "relax further" in verdict.reason
    assert is_minimum(square, fmax=10.0).kind == "saddle"


def test_where_nothing_holds_the_atoms_nothing_is_decided():
    far = Atoms("Cu2", positions=[[0, 0, 0], [0, 0, 50.0]], calculator=EMT())  # No forces at all: flat.
    verdict = is_minimum(far)
    assert verdict.kind == "undecided"
    assert "Forces do not change when atoms move" in verdict.reason


def test_where_nothing_can_move_it_is_a_minimum():
    assert is_minimum(Atoms("Cu", calculator=EMT())).kind == "minimum"
    held = bulk("Cu", cubic=True)
    held.set_constraint(FixAtoms(range(4)))
    held.calc = EMT()
    verdict = is_minimum(held)
    assert verdict.kind == "minimum"
    assert verdict.cost.gradients == 1


def test_a_gamma_below_what_forces_tell_is_undecided_and_one_above_is_not():
    class Rough(EMT):
        """Forces that are off by 0.03 eV/Å, never twice by the same."""

        def __init__(self):
            super().__init__()
            self.random = np.random.default_rng(0)

        def calculate(self, *args, **kwargs):
            super().calculate(*args, **kwargs)
            self.results["forces"] = self.results["forces"] + 0.03 * self.random.normal(size=(4, 3))

    def judged(gamma):
        crystal = bulk("Cu", cubic=True)
        crystal.calc = Rough()
        return is_minimum(crystal, fmax=0.5, gamma=gamma)

    assert judged(None).bound > 0.1
    assert judged(1e-3).kind == "undecided"
    assert "converge the calculator" in judged(1e-3).reason
    assert judged(100.0).kind == "minimum"


@pytest.mark.parametrize(("name", "value"), [("fmax", 0.0), ("gamma", -1.0), ("delta", 2.0)])
def test_arguments_are_checked(name, value):
    with pytest.raises(ValueError, match=name):
        is_minimum(bulk("Cu"), **{name: value})
