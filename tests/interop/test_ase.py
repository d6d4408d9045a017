"""ASE: structures at saddles of EMT's energy, against dense Hessians and ASE's own vibrational analysis."""

import numpy as np
import pytest

ase = pytest.importorskip("ase")

from ase import Atoms  # noqa: E402
from ase.build import bulk, molecule  # noqa: E402
from ase.calculators.emt import EMT  # noqa: E402
from ase.constraints import FixAtoms, FixBondLengths, FixCartesian, FixedLine, FixedPlane  # noqa: E402
from ase.filters import UnitCellFilter  # noqa: E402
from ase.io import read  # noqa: E402
from ase.optimize import BFGS, FIRE  # noqa: E402
from ase.vibrations import Vibrations  # noqa: E402

from benchmarks.ase_structures import (  # noqa: E402
    CountingEMT,
    adatom_on_fcc100,
    at_saddle,
    cuboctahedron,
    hessian,
    planar_cluster,
    vacancy_hop,
)
from unsaddle.interop.ase import Neon, held_directions, is_minimum, promoted, rigid_motions  # noqa: E402

GAMMA = 0.02
SADDLES = {
    "adatom": adatom_on_fcc100,
    "vacancy": lambda: vacancy_hop(2),
    "square": planar_cluster,
    "cuboctahedron": cuboctahedron,
}


@pytest.fixture(scope="module")
def saddles():
    """Structures at their saddles. The crystal is relaxed by symmetry alone: Newton's method takes 186 force calls."""
    vacancy = with_emt(SADDLES["vacancy"]())
    BFGS(vacancy, logfile=None).run(fmax=1e-3)
    return {name: vacancy if name == "vacancy" else at_saddle(make()) for name, make in SADDLES.items()}


@pytest.fixture(scope="module")
def relaxations(saddles):
    """One run of Neon from each saddle, for every test that asks where it ends."""
    runs = {name: Neon(with_emt(atoms.copy()), logfile=None, gamma=GAMMA) for name, atoms in saddles.items()}
    return {name: (run, run.run(fmax=1e-3, steps=300)) for name, run in runs.items()}


def with_emt(atoms):
    atoms.calc = CountingEMT()
    return atoms


@pytest.fixture(params=SADDLES)
def saddle(request, saddles):
    return with_emt(saddles[request.param].copy())


def free_atoms(atoms):
    held = {int(i) for c in atoms.constraints for i in c.get_indices()}
    return [i for i in range(len(atoms)) if i not in held]


@pytest.mark.slow
def test_bfgs_of_ase_stays_at_the_saddle(saddle):
    before = saddle.positions.copy()
    assert BFGS(saddle, logfile=None).run(fmax=0.01)
    np.testing.assert_array_equal(saddle.positions, before)


@pytest.mark.slow
@pytest.mark.parametrize("name", SADDLES)
def test_neon_goes_down_to_a_minimum(name, saddles, relaxations):
    optimizer, converged = relaxations[name]
    atoms = optimizer.atoms
    assert converged
    assert optimizer.escapes >= 1
    assert atoms.get_potential_energy() < saddles[name].get_potential_energy() - 0.1
    assert np.linalg.norm(atoms.get_forces(), axis=1).max() <= 1e-3
    if name != "vacancy":
        assert np.linalg.eigvalsh(hessian(atoms)[0])[0] > -GAMMA


def test_the_atom_half_way_ends_beside_the_vacancy(relaxations):
    """Where it came from or in the vacancy: in either case a crystal with a vacancy and nothing between."""
    crystal = bulk("Cu", cubic=True).repeat(2)
    del crystal[1]
    BFGS(with_emt(crystal), logfile=None).run(fmax=1e-3)
    ended = relaxations["vacancy"][0].atoms
    assert ended.get_potential_energy() == pytest.approx(crystal.get_potential_energy(), abs=1e-4)


@pytest.mark.slow
def test_the_verdict_at_a_saddle_is_that_of_the_dense_hessian(saddle):
    verdict = is_minimum(saddle)
    lowest = np.linalg.eigvalsh(hessian(saddle)[0])[0]
    assert verdict.kind == "saddle"
    assert verdict.curvature == pytest.approx(lowest, rel=0.02)


def test_force_calls_are_counted_and_fewer_than_those_of_vibrations_for_larger_structures(saddle):
    verdict = is_minimum(saddle)
    assert saddle.calc.calls <= verdict.cost.gradients + verdict.cost.values
    if len(free_atoms(saddle)) > 5:
        assert verdict.cost.gradients <= 30 < 6 * len(free_atoms(saddle))


def test_is_minimum_leaves_atoms_as_they_are(saddle):
    before = saddle.copy()
    calculator = saddle.calc
    is_minimum(saddle)
    assert saddle == before
    assert saddle.calc is calculator
    assert len(saddle.constraints) == len(before.constraints)


@pytest.mark.parametrize("kind", ["saddle", "minimum"])
@pytest.mark.parametrize("name", ["adatom", "square"])
def test_verdicts_agree_with_the_vibrational_analysis_of_ase(name, kind, saddles, relaxations, tmp_path):
    atoms = with_emt((saddles[name] if kind == "saddle" else relaxations[name][0].atoms).copy())
    vibrations = Vibrations(atoms, indices=free_atoms(atoms), name=str(tmp_path / kind))
    vibrations.run()
    imaginary = [w for w in vibrations.get_frequencies() if w.imag > 10.0]  # In 1/cm; rigid motions are below.
    assert is_minimum(atoms, gamma=GAMMA).kind == kind
    assert (len(imaginary) > 0) == (kind == "saddle")


def test_held_atoms_stay_where_they_are(saddles, relaxations):
    atoms = with_emt(saddles["adatom"].copy())
    held = atoms.constraints[0].get_indices()
    np.testing.assert_array_equal(is_minimum(atoms).direction.numpy().reshape(-1, 3)[held], 0.0)
    np.testing.assert_array_equal(relaxations["adatom"][0].atoms.positions[held], atoms.positions[held])


def test_the_adatom_ends_in_the_hollow(relaxations):
    atoms = relaxations["adatom"][0].atoms
    distances = np.sort(atoms.get_distances(len(atoms) - 1, range(len(atoms) - 1), mic=True))
    assert np.ptp(distances[:4]) < 1e-2  # Four neighbours at one distance; on the bridge there are two.


# What is projected out


def cluster(pbc=False, n=5):
    positions = np.random.default_rng(0).uniform(0, 4, (n, 3))
    return Atoms(f"Cu{n}", positions=positions, cell=[10, 10, 10], pbc=pbc)


@pytest.mark.parametrize(("pbc", "count"), [(False, 6), ((True, False, False), 4), ((True, True, False), 3), (True, 3)])
def test_rotations_are_projected_out_where_the_system_has_them(pbc, count):
    atoms = cluster(pbc)
    motions = rigid_motions(atoms, held_directions(atoms))
    assert len(motions) == count
    np.testing.assert_allclose(motions @ motions.T, np.eye(count), atol=1e-12)


def test_a_linear_molecule_has_two_rotations():
    atoms = molecule("CO2")
    assert len(rigid_motions(atoms, held_directions(atoms))) == 5


@pytest.mark.parametrize(
    ("constraint", "count"),
    [
        (FixAtoms([0]), 3),
        (FixAtoms([0, 1]), 1),
        (FixAtoms([0, 1, 2]), 0),
        (FixCartesian([0], (True, True, True)), 3),
        (FixCartesian([0, 1, 2, 3, 4], (False, False, True)), 3),
        (FixedPlane([0, 1, 2, 3, 4], (0, 0, 1)), 3),
        (FixedLine([0, 1, 2, 3, 4], (0, 0, 1)), 1),
    ],
    ids=str,
)
def test_only_motions_that_constraints_allow_are_projected_out(constraint, count):
    atoms = cluster()
    atoms.set_constraint(constraint)
    assert len(rigid_motions(atoms, held_directions(atoms))) == count


def test_rigid_motions_change_no_energy():
    atoms = cluster()
    atoms.calc = EMT()
    energy = atoms.get_potential_energy()
    for motion in rigid_motions(atoms, []):
        moved = atoms.copy()
        moved.calc = EMT()
        moved.positions += 1e-4 * motion.reshape(-1, 3)
        assert moved.get_potential_energy() == pytest.approx(energy, abs=1e-6)


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


def test_other_optimizers_can_be_promoted(saddles):
    atoms = saddles["square"].copy()
    atoms.calc = EMT()
    before = atoms.get_potential_energy()
    optimizer = promoted(FIRE)(atoms, logfile=None)
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


def test_what_cannot_be_looked_at_is_refused():
    atoms = cluster()
    with pytest.raises(ValueError, match="atoms have no calculator"):
        is_minimum(atoms)
    atoms.calc = EMT()
    with pytest.raises(TypeError, match=r"atoms must be ase\.Atoms, got UnitCellFilter"):
        Neon(UnitCellFilter(atoms))
    atoms.set_constraint(FixBondLengths([(0, 1)]))
    with pytest.raises(ValueError, match="the constraint FixBondLengths is not supported, only FixAtoms"):
        is_minimum(atoms)
