"""The verdict on a structure, in the words and units of chemistry."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from ase import Atoms, units
from ase.filters import Filter, StrainFilter
from ase.io import write
from ase.io.formats import UnknownFileTypeError

from unsaddle.interop.ase.motions import Array, held_directions, rigid_motions
from unsaddle.interop.ase.surface import EnergySurface, atoms_of, results_kept
from unsaddle.judgement.judge import Kind
from unsaddle.judgement.verdict import Verdict
from unsaddle.measure.where import NOWHERE, Where, by_share
from unsaddle.pictures import MARK, MEASURED, PREDICTED, drawn
from unsaddle.told import as_html, counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WAVENUMBER = units._hbar * 1e10 / math.sqrt(units._e * units._amu) / units.invcm
"""cm⁻¹ of a curvature of 1 eV/Å² with a mass of 1 amu: 521.5."""

AMPLITUDE, IMAGES, POINTS = 0.3, 20, 21
"""Å by which the mode moves the atom that moves most, in pictures; frames of a period; and energies along it."""


@dataclass(frozen=True, kw_only=True, repr=False)
class StructureVerdict(Verdict):
    """The answer of `unsaddle.interop.ase.is_minimum`: a `Verdict` in eV and Å.

    `gradient_norm` is the largest force on an atom and `eps` is fmax, as ASE counts. `direction` is in the order of
    `get_positions().ravel()`. `drop` is in eV.
    """

    frequency: float
    """cm⁻¹, of the motion along the direction, or along the lowest one seen if there is none; imaginary ones negative.
    The centre of mass rests, but the motion need not be a normal mode. nan if the cell moves."""
    energy: float
    """eV; nan if the calculator has none."""
    _target: Atoms | Filter = field(repr=False)

    def _repr_html_(self) -> str:
        """The same for notebooks, without the picture: that takes force calls."""
        return as_html(self._head(), self._rows())

    def _head(self) -> str:
        known = {Kind.MINIMUM: "A minimum.", Kind.SADDLE: "A saddle."}
        return known.get(self.kind, f"{self.kind.capitalize()}.")

    def _rows(self) -> list[tuple[str, str]]:
        forces = f"{self.gradient_norm:.2g} eV/Å on an atom at most (up to {self.eps:.2g} counts as relaxed)"
        return [("why", self.reason), ("forces", forces), ("cost", self._work())]

    def _work(self) -> str:
        return counted(self.cost.gradients, "force call")

    @property
    def mode(self) -> Array | None:
        """The motion, one row for each atom (and three for the cell in filters that move it); None if none is known."""
        v = self.direction if self.direction is not None else next(iter(self.evidence.deciding), None)
        return None if v is None else v.numpy().reshape(-1, 3).copy()

    def where(self) -> Where:
        """Which atoms the direction lives in, as H[3] for atom 3, or the cell; empty if there is no direction.

        Shares are of the squared displacements. Masses play no part.
        """
        if self.direction is None:
            return NOWHERE
        rows = self.direction.numpy().reshape(-1, 3)
        symbols = atoms_of(self._target).symbols
        names = [f"{symbols[i]}[{i}]" for i in _shown(self._target)]
        held = np.square(rows).sum(axis=1)
        shares, sizes = held[: len(names)].tolist(), [1.0 / len(rows)] * len(names)
        if len(names) < len(rows):
            names, shares = [*names, "the cell"], [*shares, float(held[len(names) :].sum())]
            sizes = [*sizes, 1.0 - sum(sizes)]
        return by_share(names, shares, sizes)

    def write_mode(self, file: str | Path, amplitude: float = AMPLITUDE, images: int = IMAGES) -> None:
        """Write the motion as frames of one period, in any format of `ase.io.write` that holds several.

        `ase gui mode.traj` shows it. `amplitude` is in Å, for the atom that moves most.
        """
        phases = 2.0 * np.pi * np.arange(images) / images
        frames = [self.displaced(amplitude * math.sin(phase)) for phase in phases]
        try:
            write(file, frames)
        except UnknownFileTypeError as error:
            raise ValueError(f"file must end as a format of ASE does, got {file}; mode.traj is one") from error

    def displaced(self, length: float) -> Atoms:
        """The atoms with the most moving one displaced by `length` Å along the mode. They have no calculator."""
        mode = self._mode()
        moved = _without_calculator(self._target)
        moved.set_positions(moved.get_positions() + length / float(np.linalg.norm(mode, axis=1).max()) * mode)
        atoms: Atoms = atoms_of(moved).copy()
        return atoms

    def plot(self) -> Figure:
        """Draw the energy along the mode, in meV, with the parabola that the curvature predicts.

        Needs matplotlib, of the extra `plot`, and a calculator with energies. Takes 21 force calls.
        """
        mode = self._mode()
        surface = EnergySurface(self._target)
        f, most = surface.sample(), float(np.linalg.norm(mode, axis=1).max())
        v = surface.point.new_tensor(mode.ravel())
        lengths = np.linspace(-AMPLITUDE, AMPLITUDE, POINTS)
        with results_kept(self._target.calc):
            here, slope_at = f.value_and_grad(surface.point)
            energies = [float(f.value_and_grad_at_sum(surface.point, v, float(s) / most)[0]) for s in lengths]
        rise = 1e3 * (np.array(energies) - float(here))
        t, slope = lengths / most, float(slope_at @ v)
        parabola = 1e3 * (slope * t + 0.5 * self.curvature * t**2)
        with drawn(4.4, 3.0) as figure:
            axes = figure.subplots()
            axes.plot(lengths, rise, color=MEASURED, marker=".", label="energy")
            axes.plot(lengths, parabola, color=PREDICTED, linestyle="--", label=f"{self.curvature:.3g} eV/Å²")
            axes.plot([0.0], [0.0], "o", color=MARK, markersize=6, label="the structure")
            axes.set_xlabel("displacement of the atom that moves most, Å")
            axes.set_ylabel("energy, meV")
            shown = f"{self.kind}, {described(self.frequency)}" if math.isfinite(self.frequency) else self.kind
            axes.set_title(shown, loc="left")
            axes.legend()
        return figure

    def _mode(self) -> Array:
        mode = self.mode
        if mode is None:
            raise ValueError("there is no mode to show: no motion was looked at")
        return mode


def described(frequency: float) -> str:
    """A frequency as chemists write it: 210i cm⁻¹ if it is imaginary."""
    return f"{abs(frequency):.0f}{'i' if frequency < 0.0 else ''} cm⁻¹"


def frequency(target: Atoms | Filter, mode: Array, curvature: float) -> float:
    """√(c/m) in cm⁻¹, negative for c < 0, with m = Σ m_i|v_i|² for the unit motion v; nan if the cell moves.

    The energy does not feel rigid motions, so as much of them is taken out of v as makes m least: the centre of mass
    rests then, as in a vibration.
    """
    atoms, shown = atoms_of(target), _shown(target)
    rows = mode.reshape(-1, 3)
    if len(rows) != len(shown):
        cell = rows[len(shown) :] if len(rows) == len(shown) + 3 else rows
        if cell is rows or np.abs(cell).max() > 1e-3 * np.abs(rows).max():
            return math.nan
        rows = rows[: len(shown)]
    weighted = np.repeat(np.sqrt(atoms.get_masses()[shown]), 3)
    moved = weighted * rows.ravel()
    if len(shown) == len(atoms):
        rigid = rigid_motions(atoms, held_directions(atoms), rotations=isinstance(target, Atoms))
        moved = moved - (weighted * rigid).T @ np.linalg.lstsq((weighted * rigid).T, moved, rcond=None)[0]
    mass = float(moved @ moved)
    return math.copysign(WAVENUMBER * math.sqrt(abs(curvature) / mass), curvature)


def _shown(target: Atoms | Filter) -> Any:
    """The indices of the atoms that have rows in `get_positions()`. A `StrainFilter` has rows of the cell only."""
    every = np.arange(0 if isinstance(target, StrainFilter) else len(atoms_of(target)))
    return every[target.index] if type(target) is Filter else every


def in_chemistry(verdict: Verdict, target: Atoms | Filter, energy: float, reason: str) -> StructureVerdict:
    """The verdict with its frequency, and with a reason in words of the domain."""
    known: dict[str, Any] = {f.name: getattr(verdict, f.name) for f in fields(Verdict)}
    v = verdict.direction if verdict.direction is not None else next(iter(verdict.evidence.deciding), None)
    wave = math.nan if v is None else frequency(target, v.numpy(), verdict.curvature)
    kept = _without_calculator(target)
    if isinstance(kept, Atoms):
        kept.calc = target.calc
    else:
        kept.atoms.calc = target.calc
    return StructureVerdict(**(known | {"reason": reason}), frequency=wave, energy=energy, _target=kept)


def _without_calculator(target: Atoms | Filter) -> Any:
    """A copy, without constraints too."""
    calculator = target.calc
    copied = copy.deepcopy(target, {id(calculator): None})
    atoms_of(copied).calc = None
    atoms_of(copied).set_constraint()
    return copied
