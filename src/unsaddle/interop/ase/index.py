"""`morse_index` for structures: how many independent motions lower the energy."""

from __future__ import annotations

import math

import numpy as np
import torch
from ase import Atoms
from ase.filters import Filter
from scipy.linalg import eigh

from unsaddle import checks
from unsaddle.cost import Ledger
from unsaddle.interop.ase.coordinates import Coordinates, coordinates
from unsaddle.interop.ase.motions import Array
from unsaddle.interop.ase.search import Probes, measured
from unsaddle.interop.ase.surface import EnergySurface, results_kept
from unsaddle.spectrum.result import MorseIndex, Status


def morse_index(atoms: Atoms | Filter, *, gamma: float = 0.0) -> MorseIndex:
    """How many eigenvalues of a structure's Hessian are below −γ: 0 at a minimum, 1 at a transition state.

    Two bounds, which are equal where the forces decide. `atoms` is not changed. Translations, rotations and whatever
    constraints hold are no motions here. The structure should be relaxed: see `is_minimum`.

    Args:
        atoms: Atoms with a calculator, or a filter, as for `is_minimum`.
        gamma: γ ≥ 0, in eV/Å².

    Every free motion is displaced once, by 0.01 Å; those that are not clearly above −γ are then measured from both
    sides. `values` and `errors` are in eV/Å², `vectors` are unit displacements. Nothing is drawn at random: the bounds
    hold as far as the errors do, which are measured.

    Cost: 3N − 6 force calls, and two to four more for each soft or negative motion. A vibrational analysis takes 6N.

    >>> from ase.build import bulk
    >>> from ase.calculators.emt import EMT
    >>> from ase.filters import StrainFilter
    >>> crystal = bulk("Cu", "sc", a=2.4, cubic=True)
    >>> crystal.calc = EMT()
    >>> found = morse_index(StrainFilter(crystal))
    >>> found.lower, found.upper
    (3, 3)
    """
    gamma = checks.not_negative(gamma, "gamma", "0 counts every negative eigenvalue")
    surface, ledger = EnergySurface(atoms), Ledger()
    space = coordinates(atoms)
    probes = Probes(surface.sample(ledger=ledger), surface.point, space)
    values = errors = np.empty(0)
    modes: Array = np.empty((space.lift.shape[0], 0))
    if space.dimension:
        with results_kept(atoms.calc):
            values, errors, modes = _spectrum(probes, space, gamma)
    lower, upper = int((values + errors < -gamma).sum()), int((values - errors < -gamma).sum())
    kept = values < -gamma
    return MorseIndex(
        lower=lower,
        upper=upper,
        gamma=gamma,
        confidence=1.0,
        values=values[kept],
        errors=errors[kept],
        vectors=torch.from_numpy(np.ascontiguousarray(modes.T[kept])),
        smoothness=float(np.abs(values).max(initial=0.0)),
        dimension=space.dimension,
        status=Status.CONVERGED if lower == upper else Status.INACCURATE,
        cost=ledger.cost,
    )


def _spectrum(probes: Probes, space: Coordinates, gamma: float) -> tuple[Array, Array, Array]:
    """Eigenvalues, their errors, and unit displacements in columns."""
    matrix, error = _from_one_side(probes, space)
    lift = space.lift
    values, turn = eigh(matrix, lift.T @ lift)  # On the displacements u = Lz, whatever their scale in z.
    modes: Array = lift @ turn
    errors = error * np.square(turn).sum(axis=0)
    matrix = np.diag(values)
    for i in np.flatnonzero(values < -gamma + errors):
        product, motion = measured(probes, modes[:, i])
        matrix[i] = matrix[:, i] = modes.T @ product
        matrix[i, i], errors[i] = motion.curvature, motion.error
    values, again = np.linalg.eigh(matrix)
    return values, np.square(again).T @ errors, modes @ again


def _from_one_side(probes: Probes, space: Coordinates) -> tuple[Array, float]:
    """LᵀHL, and how far it may be off: by as much as it differs from its transpose, in norm."""
    d = space.dimension
    axes, columns = torch.eye(d, dtype=torch.float64), torch.empty(d, d, dtype=torch.float64)
    probes.begin(axes[0])
    for axis, column in zip(axes, columns, strict=True):
        probes.product(axis, column)
    matrix: Array = columns.numpy()
    error = float(np.linalg.norm(matrix - matrix.T, 2))
    return (matrix + matrix.T) / 2.0, error if d > 1 else math.inf
