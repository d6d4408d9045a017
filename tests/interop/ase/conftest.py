"""Structures at saddles of EMT's energy, made once for all tests of the folder."""

import pytest

pytest.importorskip("ase")

from ase.optimize import BFGS

from benchmarks.ase_structures import (
    CountingEMT,
    adatom_on_fcc100,
    at_saddle,
    cuboctahedron,
    planar_cluster,
    vacancy_hop,
)
from unsaddle.interop.ase import Neon

SADDLES = {
    "adatom": adatom_on_fcc100,
    "vacancy": lambda: vacancy_hop(2),
    "square": planar_cluster,
    "cuboctahedron": cuboctahedron,
}


@pytest.fixture(scope="session")
def with_emt():
    def equipped(atoms):
        atoms.calc = CountingEMT()
        return atoms

    return equipped


@pytest.fixture(scope="session")
def saddles(with_emt):
    """Structures at their saddles. The crystal is relaxed by symmetry alone: Newton's method takes 186 force calls."""
    vacancy = with_emt(SADDLES["vacancy"]())
    BFGS(vacancy, logfile=None).run(fmax=1e-3)
    return {name: vacancy if name == "vacancy" else at_saddle(make()) for name, make in SADDLES.items()}


@pytest.fixture(scope="session")
def relaxations(saddles, with_emt):
    """One run of Neon from each saddle, for every test that asks where it ends."""
    runs = {name: Neon(with_emt(atoms.copy()), logfile=None) for name, atoms in saddles.items()}
    return {name: (run, run.run(fmax=1e-3, steps=300)) for name, run in runs.items()}


@pytest.fixture(params=SADDLES)
def saddle(request, saddles, with_emt):
    return with_emt(saddles[request.param].copy())
