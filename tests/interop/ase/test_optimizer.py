"""Optimizers: from saddles of EMT's energy down to minima, as ASE's optimizers are used."""

import numpy as np
import pytest

pytest.importorskip("ase")

from ase import Atoms
from ase.build import bulk
from ase.calculators.emt import EMT
from ase.constraints import FixBondLengths
from ase.filters import FrechetCellFilter
from ase.io import read
from ase.optimize import BFGS, FIRE, LBFGS

from benchmarks.ase_crystals import LATTICES, curvatures
from benchmarks.ase_structures import cuboctahedron, hessian
from unsaddle.interop.ase import CalculationError, Neon, promoted

NAMES = ("adatom", "vacancy", "square", "cuboctahedron")
SOFT = 0.02


@pytest.mark.slow
def test_bfgs_of_ase_stays_at_the_saddle(saddle):
    before = saddle.positions.copy()
    assert BFGS(saddle, logfile=None).run(fmax=0.01)
    np.testing.assert_array_equal(saddle.positions, before)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_neon_goes_down_to_a_minimum(name, saddles, relaxations):
    optimizer, converged = relaxations[name]
    atoms = optimizer.atoms
    assert converged
    assert optimizer.escapes >= 1
    assert atoms.get_potential_energy() < saddles[name].get_potential_energy() - 0.1
    assert np.linalg.norm(atoms.get_forces(), axis=1).max() <= 1e-3
    if name != "vacancy":
        assert np.linalg.eigvalsh(hessian(atoms)[0])[0] > -SOFT


@pytest.mark.parametrize("name", NAMES)
def test_it_says_what_it_left(name, saddles, relaxations):
    left = relaxations[name][0].left[0]
    assert left.energy == pytest.approx(saddles[name].get_potential_energy(), abs=1e-6)
    assert left.verdict.kind == "saddle"
    assert left.verdict.frequency < 0.0
    assert "i cm⁻¹" in str(left)
    assert "meV" in str(left)


def test_the_atom_half_way_ends_beside_the_vacancy(relaxations, with_emt):
    """Where it came from or in the vacancy: in either case a crystal with a vacancy and nothing between."""
    crystal = bulk("Cu", cubic=True).repeat(2)
    del crystal[1]
    BFGS(with_emt(crystal), logfile=None).run(fmax=1e-3)
    ended = relaxations["vacancy"][0].atoms
    assert ended.get_potential_energy() == pytest.approx(crystal.get_potential_energy(), abs=1e-4)


def test_held_atoms_stay_where_they_are(saddles, relaxations):
    held = saddles["adatom"].constraints[0].get_indices()
    ended = relaxations["adatom"][0].atoms
    np.testing.assert_array_equal(ended.positions[held], saddles["adatom"].positions[held])


def test_the_adatom_ends_in_the_hollow(relaxations):
    atoms = relaxations["adatom"][0].atoms
    distances = np.sort(atoms.get_distances(len(atoms) - 1, range(len(atoms) - 1), mic=True))
    assert np.ptp(distances[:4]) < 1e-2  # Four neighbours at one distance; on the bridge there are two.


@pytest.mark.parametrize("lattice", ["bcc", "sc"])
def test_copper_ends_as_fcc_whatever_crystal_it_starts_from(lattice, with_emt):
    fcc = with_emt(bulk("Cu", "fcc", a=LATTICES["fcc"]))
    BFGS(FrechetCellFilter(fcc), logfile=None).run(fmax=1e-3)
    crystal = with_emt(bulk("Cu", lattice, a=LATTICES[lattice]))
    target = FrechetCellFilter(crystal)
    optimizer = Neon(target, logfile=None)
    assert optimizer.run(fmax=1e-3, steps=500)
    assert optimizer.escapes >= 1
    assert crystal.get_potential_energy() <= fcc.get_potential_energy() + 1e-3
    assert curvatures(target)[0] > 0.0


# ASE's conventions


def test_it_logs_writes_its_trajectory_and_counts_steps_as_ase_does(saddles, tmp_path):
    atoms = saddles["square"].copy()
    atoms.calc = EMT()
    log, trajectory = tmp_path / "run.log", tmp_path / "run.traj"
    seen = []
    optimizer = Neon(atoms, logfile=str(log), trajectory=str(trajectory))
    optimizer.attach(lambda: seen.append(1))
    assert optimizer.run(fmax=0.05, steps=100)
    frames = read(str(trajectory), index=":")
    assert len(frames) == len(seen) == optimizer.nsteps + 1
    assert log.read_text().count("Neon:") == optimizer.nsteps + 1
    np.testing.assert_allclose(frames[-1].positions, atoms.positions)


def test_steps_bound_the_run(saddles):
    atoms = saddles["square"].copy()
    atoms.calc = EMT()
    optimizer = Neon(atoms, logfile=None)
    assert not optimizer.run(fmax=1e-3, steps=3)
    assert optimizer.nsteps == 3
    assert optimizer.run(fmax=1e-3, steps=300)


def test_a_restart_file_carries_on_as_for_bfgs(tmp_path):
    atoms = cuboctahedron()
    atoms.calc = EMT()
    atoms.rattle(0.05, seed=1)
    file = tmp_path / "restart.json"
    Neon(atoms, restart=str(file), logfile=None).run(fmax=1e-3, steps=5)
    assert file.exists()
    again = Neon(atoms, restart=str(file), logfile=None)
    assert again.state is not None
    assert again.run(fmax=0.01, steps=300)


@pytest.mark.parametrize("base", [FIRE, LBFGS])
def test_other_optimizers_can_be_promoted(base, saddles):
    atoms = saddles["square"].copy()
    atoms.calc = EMT()
    before = atoms.get_potential_energy()
    optimizer = promoted(base)(atoms, logfile=None)
    assert optimizer.run(fmax=0.01, steps=500)
    assert atoms.get_potential_energy() < before - 0.1


def test_at_a_minimum_nothing_moves():
    crystal = bulk("Cu", cubic=True)
    crystal.calc = EMT()
    before = crystal.positions.copy()
    optimizer = Neon(crystal, logfile=None)
    assert optimizer.run(fmax=0.01)
    assert optimizer.escapes == optimizer.nsteps == 0
    np.testing.assert_array_equal(crystal.positions, before)


def test_where_nothing_can_be_decided_the_run_ends_without_success():
    far = Atoms("Cu2", positions=[[0, 0, 0], [0, 0, 50.0]], calculator=EMT())  # No forces at all: flat.
    optimizer = Neon(far, logfile=None)
    assert not optimizer.run(fmax=0.01)
    assert optimizer.verdict.kind == "undecided"


def test_what_cannot_be_looked_at_is_refused_before_a_file_is_opened(tmp_path):
    atoms = Atoms("Cu2", positions=[[0, 0, 0], [0, 0, 2.5]])
    with pytest.raises(ValueError, match="atoms have no calculator"):
        Neon(atoms, trajectory=tmp_path / "run.traj")
    atoms.calc = EMT()
    atoms.set_constraint(FixBondLengths([(0, 1)]))
    with pytest.raises(ValueError, match="the constraint FixBondLengths is not supported, only FixAtoms"):
        Neon(atoms, trajectory=tmp_path / "run.traj")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"seed": True}, "seed must be an integer"),
        ({"gamma": "a"}, "gamma must be a number"),
        ({"delta": 2.0}, "delta must be between 0 and 1"),
        ({"max_escapes": -1}, "max_escapes must be at least 0"),
    ],
)
def test_wrong_settings_are_refused_at_once(wrong, message, with_emt):
    with pytest.raises((TypeError, ValueError), match=message):
        Neon(with_emt(Atoms("Cu2", positions=[[0, 0, 0], [0, 0, 2.5]])), logfile=None, **wrong)


def test_a_new_start_forgets_the_hessian_of_the_saddle_and_keeps_the_run(saddles):
    atoms = saddles["square"].copy()
    atoms.calc = EMT()
    optimizer = Neon(atoms, logfile=None, maxstep=0.05)
    seen = []
    optimizer.attach(lambda: seen.append(optimizer.nsteps))
    optimizer.run(fmax=0.01, steps=1)
    assert optimizer.escapes == 1
    assert optimizer.state is None
    assert optimizer.maxstep == 0.05
    assert seen == [0, 1]


def test_an_argument_that_the_base_has_too_goes_to_the_base(saddles):
    class Tuned(BFGS):
        def __init__(self, atoms, gamma=1.0, **kwargs):
            self.tuned = gamma
            super().__init__(atoms, **kwargs)

    atoms = saddles["square"].copy()
    atoms.calc = EMT()
    optimizer = promoted(Tuned)(atoms, gamma=7.0, seed=3, logfile=None)
    assert optimizer.tuned == 7.0
    assert optimizer.run(fmax=0.01, steps=300)
    assert optimizer.tuned == 7.0


def test_up_to_twenty_saddles_are_left(saddles):
    assert promoted(BFGS)(next(iter(saddles.values())), logfile=None)._most == 20


def test_max_escapes_ends_a_run(saddles):
    atoms = saddles["square"].copy()
    atoms.calc = EMT()
    optimizer = Neon(atoms, logfile=None, max_escapes=0)
    assert not optimizer.run(fmax=0.01, steps=300)
    assert optimizer.verdict.kind == "saddle"
    assert optimizer.nsteps == 0


def test_forces_that_are_no_numbers_end_a_run():
    class Broken(EMT):
        def calculate(self, *args, **kwargs):
            super().calculate(*args, **kwargs)
            self.results["forces"] = self.results["forces"] * np.nan

    atoms = bulk("Cu", cubic=True)
    atoms.calc = Broken()
    neon = Neon(atoms, logfile=None)
    with pytest.raises(CalculationError, match="forces that are not finite"):
        neon.run(fmax=0.05)
