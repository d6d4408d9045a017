"""The energy of a structure as an objective: atoms, or a filter that moves their cell too."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from ase import Atoms
from ase.calculators.calculator import PropertyNotImplementedError
from ase.filters import Filter
from torch import Tensor

from unsaddle.interop.ase.motions import Array
from unsaddle.objective import Oracle
from unsaddle.objectives.deterministic import Deterministic


class CalculationError(RuntimeError):
    """The calculator failed, or returned NaN, at a displaced structure. The structure was not changed."""


class EnergySurface(Deterministic):
    """The energy in eV over the coordinates of `target.get_positions().ravel()`. Its `point` is where the target is.

    The target is copied without its constraints; the calculator is shared. One evaluation gives forces and energy, so
    that each counts as one force call. Energies are nan for a calculator that has none.
    """

    def __init__(self, target: Atoms | Filter) -> None:
        if not isinstance(target, (Atoms, Filter)):
            raise TypeError(f"atoms must be ase.Atoms or a filter of ase.filters, got {type(target).__name__}")
        if target.calc is None:
            raise ValueError("atoms have no calculator; set atoms.calc")
        if not np.isfinite(target.get_positions()).all():
            raise ValueError("positions of atoms must be finite, got NaN or infinite ones; build the structure again")
        super().__init__(_Energy(target), "an energy surface")
        self._point = torch.from_numpy(np.array(target.get_positions(), dtype=np.float64).ravel())

    @property
    def point(self) -> Tensor:
        return self._point


class _Energy(Oracle):
    _name = "an energy surface"

    def __init__(self, target: Atoms | Filter) -> None:
        calculator = target.calc
        self._moved = copy.deepcopy(target, {id(calculator): calculator})
        atoms_of(self._moved).set_constraint()
        self._start = np.array(target.get_positions(), dtype=np.float64)

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        positions = x.detach().numpy().reshape(self._start.shape)
        if not np.array_equal(positions, self._moved.get_positions()):
            self._moved.set_positions(positions)
        try:
            forces = np.asarray(self._moved.get_forces(), dtype=np.float64)
            energy = _energy(self._moved)
        except Exception as error:
            raise self._failure(positions, f"{type(error).__name__}: {error}") from error
        if not np.isfinite(forces).all():
            raise self._failure(positions, "forces are not finite")
        return torch.tensor(energy, dtype=torch.float64), torch.from_numpy(-forces.ravel())

    def _failure(self, positions: Array, what: str) -> CalculationError:
        moves = np.linalg.norm(positions - self._start, axis=1)
        most, n = int(moves.argmax()), len(atoms_of(self._moved))
        row = f"atom {most}" if len(moves) >= n and most < n else f"row {most} of the filter"
        where = "at the structure itself" if moves[most] == 0.0 else f"with {row} displaced by {moves[most]:.2g} Å"
        advice = "Look at its convergence settings, or give the calculator a better start."
        return CalculationError(f"the calculator failed {where}: {what}. The structure is where it was. {advice}")


def atoms_of(target: Atoms | Filter) -> Atoms:
    """The atoms, or those that a filter moves."""
    return target if isinstance(target, Atoms) else target.atoms


def largest_force(target: Atoms | Filter) -> float:
    """What ASE compares with fmax: the largest force on an atom, without what constraints take, in eV/Å.

    No force call where the calculator was asked about this structure last.
    """
    try:
        return float(np.linalg.norm(target.get_forces(), axis=1).max(initial=0.0))
    except TypeError as error:  # ASE's constraints write into the forces.
        raise CalculationError(f"forces must be an array of numbers, got what ASE cannot use: {error}") from error


def _energy(target: Atoms | Filter) -> float:
    """The energy that forces are the derivative of, or the plain one; nan if the calculator has none."""
    for how in ({"force_consistent": True}, {}):
        try:
            return float(target.get_potential_energy(**how))
        except PropertyNotImplementedError:
            continue
    return float("nan")


@contextmanager
def results_kept(calculator: Any) -> Iterator[None]:
    """Puts back what the calculator knows about the structure, so that its energy and forces need no new call."""
    kept = {name: getattr(calculator, name) for name in ("atoms", "results") if hasattr(calculator, name)}
    # A copy of every array: some calculators write into those that they returned.
    kept = {name: copy.deepcopy(value) for name, value in kept.items() if value is not None}
    try:
        yield
    finally:
        if len(kept) == 2:
            for name, value in kept.items():
                setattr(calculator, name, value)
