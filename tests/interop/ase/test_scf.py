"""Calculators with an SCF inside, at their default accuracy: GFN-xTB by tblite, and Hartree-Fock by pyscf."""

import statistics

import numpy as np
import pytest

pytest.importorskip("ase")

from ase.build import molecule
from ase.calculators.calculator import Calculator, all_changes
from ase.optimize import BFGS
from ase.units import Bohr, Hartree

from benchmarks import ase_molecules
from unsaddle.interop.ase import CalculationError, Neon, is_minimum, promoted


def relaxed(atoms, method="GFN2-xTB", fmax=0.01):
    pytest.importorskip("tblite")
    atoms.set_initial_magnetic_moments(None)
    atoms.calc = ase_molecules.calculator(method=method)
    assert BFGS(atoms, logfile=None).run(fmax=fmax, steps=300)
    atoms.calc.calls = 0
    return atoms


@pytest.mark.parametrize("method", ["GFN2-xTB", "GFN1-xTB"])
@pytest.mark.parametrize("name", ["H2O", "NH3", "CH3CH2OH", "C6H6", "C2H6"])
def test_molecules_are_minima(name, method):
    atoms = relaxed(molecule(name), method)
    verdict = is_minimum(atoms)
    assert verdict.kind == "minimum"
    assert atoms.calc.calls <= verdict.cost.gradients <= 6 * len(atoms)


def test_half_of_a_vibrational_analysis_is_enough_for_most():
    shares = []
    for name in ("H2O", "CO2", "NH3", "CH4", "CH3OH", "C2H4", "CH3CHO", "C2H6", "C6H6"):
        atoms = relaxed(molecule(name))
        shares.append(is_minimum(atoms).cost.gradients / (6 * len(atoms)))
    assert statistics.median(shares) <= 0.5


@pytest.mark.parametrize(
    "name", ["ammonia, flat", "water, linear", "hydrogen peroxide, cis", "ethane, eclipsed", "cyclobutane, flat"]
)
def test_symmetric_structures_are_saddles_and_neon_leaves_them(name):
    atoms = relaxed(ase_molecules.SYMMETRIC[name]())
    low, _ = ase_molecules.lowest(atoms, ase_molecules.hessian(atoms))
    verdict = is_minimum(atoms)
    assert low < -0.02
    assert verdict.kind == "saddle"
    assert low - verdict.interval[1] + verdict.interval[0] <= verdict.curvature <= 0.3 * low
    assert verdict.frequency < 0.0
    energy = atoms.get_potential_energy()
    optimizer = Neon(atoms, logfile=None)
    assert optimizer.run(fmax=0.01, steps=300)
    assert optimizer.left[0].energy == pytest.approx(energy, abs=1e-4)
    assert atoms.get_potential_energy() < energy
    assert ase_molecules.lowest(atoms, ase_molecules.hessian(atoms))[0] > -0.02


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_sella_in_internal_coordinates_can_be_promoted(tmp_path):
    sella = pytest.importorskip("sella")
    from ase.io import read

    atoms = relaxed(ase_molecules.SYMMETRIC["ethane, eclipsed"]())
    file = str(tmp_path / "run.traj")
    optimizer = promoted(sella.Sella)(atoms, order=0, internal=True, logfile=None, trajectory=file)
    assert optimizer.run(fmax=0.01, steps=100)
    assert optimizer.escapes == 1
    assert optimizer.verdict.kind == "minimum"
    assert len(read(file, ":")) > optimizer.nsteps / 2


def test_an_scf_that_fails_is_an_error_of_ours():
    atoms = relaxed(molecule("H2O"))
    good, failing = atoms.calc, ase_molecules.calculator()
    failing.set(max_iterations=1)
    atoms.calc = failing
    with pytest.raises(CalculationError, match="the calculator failed at the structure itself"):
        is_minimum(atoms)
    atoms.calc = good
    assert is_minimum(atoms).kind == "minimum"


class HartreeFock(Calculator):
    """pyscf's restricted Hartree-Fock, which starts from its last density."""

    implemented_properties = ("energy", "forces")
    density = None

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes):
        from pyscf import gto, scf

        super().calculate(atoms, properties, system_changes)
        places = list(zip(atoms.get_chemical_symbols(), atoms.positions.tolist(), strict=True))
        solver = scf.RHF(gto.M(atom=places, basis="sto-3g", verbose=0))
        energy = solver.kernel(dm0=self.density)
        self.density = solver.make_rdm1()
        forces = -solver.nuc_grad_method().kernel() * Hartree / Bohr
        self.results = {"energy": energy * Hartree, "forces": np.asarray(forces)}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("flat", "kind"), [(True, "saddle"), (False, "minimum")])
def test_hartree_fock_with_another_scf(flat, kind):
    pytest.importorskip("pyscf")
    atoms = ase_molecules.SYMMETRIC["ammonia, flat"]() if flat else molecule("NH3")
    atoms.calc = HartreeFock()
    assert BFGS(atoms, logfile=None).run(fmax=0.01, steps=100)
    assert is_minimum(atoms).kind == kind
