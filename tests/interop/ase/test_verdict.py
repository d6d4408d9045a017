"""The verdict in words, as a picture, and as a motion to look at; frequencies against ASE's vibrations."""

import math

import numpy as np
import pytest

pytest.importorskip("ase")

from ase import Atoms
from ase.build import bulk
from ase.calculators.emt import EMT
from ase.filters import Filter, FrechetCellFilter, StrainFilter
from ase.io import read
from ase.optimize import BFGS
from ase.vibrations import Vibrations

from unsaddle.interop.ase import is_minimum
from unsaddle.interop.ase.verdict import WAVENUMBER, described, frequency


def test_the_frequency_of_a_diatomic_is_that_of_vibrations(tmp_path):
    pair = Atoms("PtAu", positions=[[0, 0, 0], [0, 0, 2.4]], calculator=EMT())
    BFGS(pair, logfile=None).run(fmax=1e-4)
    vibrations = Vibrations(pair, name=str(tmp_path / "pair"))
    vibrations.run()
    stretch = vibrations.get_frequencies().real.max()
    verdict = is_minimum(pair)
    # Along (1, −1)/√2 the mass is the mean of both; of the normal mode, it is the reduced one, twice.
    light, heavy = sorted(pair.get_masses())
    expected = stretch * math.sqrt(2.0 * light * heavy / (light + heavy) / ((light + heavy) / 2.0))
    assert verdict.kind == "minimum"
    assert verdict.frequency == pytest.approx(expected, rel=0.01)


def test_the_centre_of_mass_rests_as_in_a_vibration():
    """Two atoms of very different mass and a spring k: ω² = k/μ, whichever of them the motion moves."""
    atoms, k = Atoms("AuH", [(0, 0, 0), (0, 0, 1.5)]), 5.0
    heavy, light = atoms.get_masses()
    expected = WAVENUMBER * math.sqrt(k * (heavy + light) / (heavy * light))
    for share in (0.0, 0.5, 1.0):
        mode = np.array([(0, 0, -share), (0, 0, 1.0 - share)])
        length = np.linalg.norm(mode)
        assert frequency(atoms, mode / length, k / length**2) == pytest.approx(expected, rel=1e-9)


def test_an_imaginary_frequency_is_negative_and_has_the_units_of_ase():
    atoms = Atoms("H2", positions=[[0, 0, 0], [0, 0, 1]])
    mode = np.array([0, 0, 1.0, 0, 0, -1.0]) / math.sqrt(2.0)
    mass = atoms.get_masses()[0]
    # As a number of CODATA: ω = √(k/m), with k in N/m, and ω/(2πc) in 1/cm.
    omega = math.sqrt(5.0 * 16.02176634 / (mass * 1.66053907e-27))
    expected = omega / (2.0 * math.pi * 2.99792458e10)
    assert frequency(atoms, mode, -5.0) == pytest.approx(-expected, rel=1e-6)
    assert frequency(atoms, mode, 5.0) == pytest.approx(expected, rel=1e-6)
    assert described(-12.3) == "12i cm⁻¹"
    assert described(12.3) == "12 cm⁻¹"


@pytest.mark.parametrize("file", ["mode.traj", "mode.xyz", "mode.extxyz"])
def test_the_mode_can_be_written_in_formats_of_ase(file, saddles, with_emt, tmp_path):
    square = with_emt(saddles["square"].copy())
    verdict = is_minimum(square)
    verdict.write_mode(tmp_path / file, amplitude=0.2, images=8)
    frames = read(tmp_path / file, index=":")
    assert len(frames) == 8
    np.testing.assert_allclose(frames[0].positions, square.positions, atol=1e-6)
    moved = frames[2].positions - square.positions
    assert np.linalg.norm(moved, axis=1).max() == pytest.approx(0.2, abs=1e-6)
    np.testing.assert_allclose(moved / np.linalg.norm(moved), verdict.mode, atol=1e-5)


def test_the_mode_of_a_cell_moves_the_cell(with_emt, tmp_path):
    crystal = with_emt(bulk("Cu", "bcc", a=2.855))
    verdict = is_minimum(FrechetCellFilter(crystal))
    verdict.write_mode(tmp_path / "mode.traj")
    frames = read(tmp_path / "mode.traj", index=":")
    volumes, lengths = [f.get_volume() for f in frames], [f.cell.lengths() for f in frames]
    assert np.ptp(volumes) < 0.02 * volumes[0]  # A shear.
    assert np.ptp(lengths) > 0.05


def test_the_words_are_those_of_the_domain(saddles, relaxations, with_emt):
    at_saddle = str(is_minimum(with_emt(saddles["square"].copy())))
    assert at_saddle.startswith("A saddle.\n")
    assert "The curvature along the mode is -" in at_saddle
    for word in ("eV/Å²", "i cm⁻¹", "meV", "force calls", "up to 0.05 counts as relaxed"):
        assert word in at_saddle
    at_minimum = str(is_minimum(with_emt(relaxations["square"][0].atoms.copy())))
    assert at_minimum.startswith("A minimum.\n")
    assert "No mode has negative curvature. The lowest one met has " in at_minimum
    assert "i cm⁻¹" not in at_minimum


def test_the_picture_is_the_energy_along_the_mode(saddles, with_emt):
    pytest.importorskip("matplotlib")
    square = with_emt(saddles["square"].copy())
    verdict = is_minimum(square)
    figure = verdict.plot()
    energy, parabola, here = figure.axes[0].get_lines()
    assert here.get_xydata().tolist() == [[0.0, 0.0]]
    lengths, rise = energy.get_data()
    moved = verdict.displaced(lengths[3])
    moved.calc = EMT()
    assert rise[3] == pytest.approx(1e3 * (moved.get_potential_energy() - verdict.energy), abs=1e-3)
    middle = len(lengths) // 2
    assert parabola.get_ydata()[middle - 1] == pytest.approx(rise[middle - 1], rel=0.05)
    assert square.positions == pytest.approx(saddles["square"].positions)


def test_there_may_be_no_mode_to_show():
    verdict = is_minimum(Atoms("Cu", calculator=EMT()))
    assert verdict.mode is None
    assert math.isnan(verdict.frequency)
    with pytest.raises(ValueError, match="there is no mode to show"):
        verdict.write_mode("mode.traj")


def test_a_format_that_ase_does_not_know_is_told(saddles, with_emt, tmp_path):
    verdict = is_minimum(with_emt(saddles["square"].copy()))
    with pytest.raises(ValueError, match=r"file must end as a format of ASE does, got .*mode\.foo"):
        verdict.write_mode(tmp_path / "mode.foo")


def test_where_names_the_atoms_that_move(saddles, with_emt):
    verdict = is_minimum(with_emt(saddles["square"].copy()))
    seen = verdict.where()
    assert set(seen.names) == {"Pt[0]", "Pt[1]", "Pt[2]", "Pt[3]"}
    assert list(seen.shares) == sorted(seen.shares, reverse=True)
    for name, share in zip(seen.names, seen.shares, strict=True):
        assert share == pytest.approx(np.square(verdict.mode[int(name[3:-1])]).sum())
    assert seen.sizes == (0.25,) * 4
    assert " in Pt[" in str(seen)


def test_where_of_a_filter_names_its_atoms_by_their_own_index(saddles, with_emt):
    square = with_emt(saddles["square"].copy())
    assert set(is_minimum(Filter(square, indices=[1, 3])).where().names) <= {"Pt[1]", "Pt[3]"}


@pytest.mark.parametrize(
    ("cell_filter", "names"), [(FrechetCellFilter, {"Cu[0]", "the cell"}), (StrainFilter, {"the cell"})]
)
def test_where_names_the_cell_if_it_moves(cell_filter, names, with_emt):
    verdict = is_minimum(cell_filter(with_emt(bulk("Cu", "bcc", a=2.855))))
    seen = verdict.where()
    assert verdict.kind == "saddle"
    assert set(seen.names) == names
    assert seen.names[0] == "the cell"
    assert seen.shares[0] > 0.9
    assert sum(seen.sizes) == pytest.approx(1.0)
    assert math.isnan(verdict.frequency)


def test_a_minimum_has_no_direction_to_place(relaxations, with_emt):
    assert not is_minimum(with_emt(relaxations["square"][0].atoms.copy())).where()
