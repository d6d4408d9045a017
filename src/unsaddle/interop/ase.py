"""ASE: a test whether a relaxed structure is a minimum, and an optimizer that does not stop at saddles. Forces only.

    is_minimum(atoms)                                        # a Verdict, in eV/Å²
    Neon(atoms, logfile="-", trajectory="run.traj").run(fmax=0.01)

Curvature is that of the energy. Directions that constraints hold are left out, and so are the free translations and
rotations of the whole system.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from ase import Atoms
from ase.constraints import FixAtoms, FixCartesian, FixedLine, FixedPlane
from ase.optimize import BFGS
from ase.optimize.optimize import Optimizer
from numpy.typing import NDArray
from torch import Tensor

from unsaddle import checks, judgement, vectors
from unsaddle.judgement.verdict import Verdict
from unsaddle.objective import Oracle
from unsaddle.objectives.deterministic import Deterministic

Array = NDArray[np.float64]

LINEAR = (FixAtoms, FixCartesian, FixedLine, FixedPlane)
"""Supported constraints: the displacements that they allow form a linear space."""

RIGID = 1e-8
"""A rigid motion is free if constraints hold less than this share of it."""

FIRST, SHORTEST, LONGEST = 0.1, 1e-3, 0.4
"""Lengths of the step off a saddle, in Å, for the atom that moves most."""


def is_minimum(
    atoms: Atoms, *, fmax: float = 0.05, gamma: float | None = None, delta: float = 0.05, seed: int = 0
) -> Verdict:
    """Whether the structure is a minimum of the energy, a saddle, or not relaxed. `atoms` is not changed.

    `verdict.cost.gradients` is the number of force calls. `verdict.direction` is in the order of
    `atoms.positions.ravel()`, and zero for coordinates that do not move.

    Args:
        atoms: with a calculator that has forces, and only constraints of `LINEAR`.
        fmax: forces up to this, in eV/Å for each atom, count as relaxed.
        gamma: curvatures down to −γ, in eV/Å², are accepted. By default a hundredth of the largest |eigenvalue|.
        delta: the probability of a wrong verdict.
        seed: of the random start.

    >>> from ase.build import molecule
    >>> from ase.calculators.emt import EMT
    >>> water = molecule("H2O", calculator=EMT())
    >>> is_minimum(water).kind
    'not stationary'
    """
    surface = EnergySurface(atoms)
    eps = checks.positive(fmax, "fmax") * float(np.sqrt(len(atoms)))
    verdict = judgement.is_minimum(surface, eps=eps, gamma=gamma, delta=delta, seed=seed)
    return verdict if verdict.direction is None else replace(verdict, direction=surface.free_part(verdict.direction))


class EnergySurface(Deterministic):
    """The energy as an objective over the positions. Its `point` is the atoms' position x₀.

    Gradients are −P F(x₀ + P(x − x₀)), where F are the forces and P projects on the directions that may move. The atoms
    are copied; the calculator is shared.
    """

    def __init__(self, atoms: Atoms) -> None:
        if not isinstance(atoms, Atoms):
            raise TypeError(f"atoms must be ase.Atoms, got {type(atoms).__name__}; cells and filters are not supported")
        if atoms.calc is None:
            raise ValueError("atoms have no calculator; set atoms.calc")
        self._forces = _Forces(atoms)
        super().__init__(self._forces, "an energy surface")
        self._point = torch.from_numpy(atoms.positions.ravel().copy())

    @property
    def point(self) -> Tensor:
        return self._point

    def free_part(self, direction: Tensor) -> Tensor:
        """The direction without held and rigid motions, of which the random start of a search leaves a rest."""
        v = torch.from_numpy(self._forces.project(direction.numpy()))
        return v.div_(vectors.norm(v))


class _Forces(Oracle):
    _name = "an energy surface"

    def __init__(self, atoms: Atoms) -> None:
        self._atoms = atoms.copy()
        self._atoms.set_constraint()
        self._atoms.calc = atoms.calc
        self._start = atoms.positions.ravel().copy()
        self._held = held_directions(atoms)
        self._rigid = rigid_motions(atoms, self._held)

    def value(self, x: Tensor) -> Tensor:
        self._move(x)
        return torch.tensor(self._atoms.get_potential_energy(), dtype=torch.float64)

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The value is 0 at the start, else nan: no probe reads it, and not every calculator has energies."""
        here = np.array_equal(x.numpy(), self._start)
        self._move(x)
        grad = self.project(-self._atoms.get_forces().ravel().astype(np.float64))
        return torch.tensor(0.0 if here else np.nan, dtype=torch.float64), torch.from_numpy(grad)

    def _move(self, x: Tensor) -> None:
        self._atoms.set_positions((self._start + self.project(x.numpy() - self._start)).reshape(-1, 3))

    def project(self, u: Array) -> Array:
        moved = _without(u, self._held)
        return moved - self._rigid.T @ (self._rigid @ moved)


Held = list[tuple[int, Array]]
"""For each constrained atom: its index, and an orthonormal basis of the directions in which it may not move."""


def held_directions(atoms: Atoms) -> Held:
    """The directions that the constraints hold, atom by atom."""
    held: dict[int, list[Array]] = {}
    for constraint in atoms.constraints:
        if not isinstance(constraint, LINEAR):
            name, known = type(constraint).__name__, ", ".join(c.__name__ for c in LINEAR)
            why = "displacements that heed it form no linear space"
            raise ValueError(f"the constraint {name} is not supported, only {known}: {why}")
        for i in np.atleast_1d(constraint.get_indices()):
            held.setdefault(int(i), []).append(_held_by(constraint))
    return [(i, _orthonormal(np.concatenate(rows))) for i, rows in held.items()]


def _held_by(constraint: Any) -> Array:
    """The directions that a constraint holds, as rows."""
    everything: Array = np.eye(3)
    if isinstance(constraint, FixAtoms):
        return everything
    if isinstance(constraint, FixCartesian):
        chosen: Array = everything[np.asarray(constraint.mask, dtype=bool)]
        return chosen
    along: Array = np.array(constraint.dir, dtype=np.float64).reshape(1, 3)
    along /= np.linalg.norm(along)
    return along if isinstance(constraint, FixedPlane) else everything - along.T @ along


def rigid_motions(atoms: Atoms, held: Held) -> Array:
    """An orthonormal basis, as rows, of the translations and rotations of the whole system that nothing holds.

    A translation never changes the energy. A rotation does not if it turns no periodic direction: there are three
    without periodicity, one along a wire, none for slabs and bulk. Constraints leave only the motions that move no held
    coordinate, such as the rotations about a single fixed atom.
    """
    centred = atoms.positions - atoms.positions.mean(axis=0)
    motions = [np.tile(axis, len(atoms)) for axis in np.eye(3)]
    periodic = [np.asarray(vector) for vector, wraps in zip(atoms.cell, atoms.pbc, strict=True) if wraps]
    if len(periodic) < 2:
        axes = [vector / np.linalg.norm(vector) for vector in periodic] or np.eye(3)
        motions += [np.cross(axis, centred).ravel() for axis in axes]
    basis = _orthonormal(np.array(motions))
    if held:
        blocked = np.array([row - _without(row, held) for row in basis])
        _, values, turned = np.linalg.svd(blocked.T, full_matrices=True)
        size = np.concatenate([values, np.zeros(len(basis) - len(values))])
        basis = turned[size < RIGID] @ basis
    return basis


def _orthonormal(rows: Array) -> Array:
    """An orthonormal basis of the span of the rows."""
    _, values, basis = np.linalg.svd(rows, full_matrices=False)
    return np.asarray(basis[values > RIGID * values.max(initial=0.0)], dtype=np.float64)


def _without(u: Array, held: Held) -> Array:
    moved = u.reshape(-1, 3).copy()
    for i, basis in held:
        moved[i] -= basis.T @ (basis @ moved[i])
    return moved.ravel()


def promoted(base: type[Optimizer]) -> type[Optimizer]:
    """A class of ASE's optimizers that goes on where forces have converged at a saddle.

    Its name is Neon. It has the signature of `base`, the keyword arguments `gamma`, `delta` and `seed` of `is_minimum`,
    and `max_escapes`. `run(fmax, steps)` returns True if forces have converged at a minimum; it ends with False if that
    cannot be decided. `verdict` is the last verdict, and `escapes` the number of saddles left. A step off a saddle (see
    `leave`) is a step of the run: it is logged, observed, and written to the trajectory.
    """

    class Neon(base):  # type: ignore[misc]
        __doc__ = f"ASE's {base.__name__}, promoted: see `unsaddle.interop.ase.promoted`."

        def __init__(
            self,
            atoms: Atoms,
            *args: Any,
            gamma: float | None = None,
            delta: float = 0.05,
            max_escapes: int = 100,
            seed: int = 0,
            **kwargs: Any,
        ) -> None:
            EnergySurface(atoms)  # Raises errors before any file is opened.
            self.gamma, self.delta, self.max_escapes, self.seed = gamma, delta, max_escapes, seed
            self.verdict: Verdict | None = None
            self.escapes = 0
            super().__init__(atoms, *args, **kwargs)

        def gradient_converged(self, gradient: Array) -> bool:
            self.verdict = None
            if not super().gradient_converged(gradient):
                return False
            seed = self.seed + self.escapes
            self.verdict = is_minimum(self.atoms, fmax=self.fmax, gamma=self.gamma, delta=self.delta, seed=seed)
            if self.verdict.kind != "saddle" or self.escapes >= self.max_escapes:
                self.max_steps = self.nsteps  # More steps would not change the verdict.
            return self.verdict.kind == "minimum"

        def step(self, *args: Any, **kwargs: Any) -> None:
            if self.verdict is None or self.verdict.direction is None:
                super().step(*args, **kwargs)
                return
            leave(self.atoms, self.verdict.direction.numpy())
            self.escapes += 1
            self.initialize()  # The base's estimate of the Hessian is that of the saddle.

    Neon.__qualname__ = "Neon"
    return Neon


Neon = promoted(BFGS)
"""ASE's BFGS, promoted."""


def leave(atoms: Atoms, direction: Array) -> None:
    """Moves the atoms along ±direction as far as their forces drive them on. Forces only.

    The force along the direction gives the sign, plus if it is zero. The length is doubled from `FIRST` up to `LONGEST`
    while the force points on. If it does not at `FIRST`, the length is halved, down to `SHORTEST`.
    """
    start, v = atoms.positions.copy(), direction.reshape(-1, 3)
    v = v / float(np.linalg.norm(v, axis=1).max())

    def force() -> float:
        return float((atoms.get_forces(apply_constraint=False) * v).sum())

    def driven(length: float) -> bool:
        atoms.set_positions(start + length * v, apply_constraint=False)
        return force() > 0.0

    v = -v if force() < 0.0 else v
    length = FIRST
    while not driven(length) and length > SHORTEST:
        length /= 2.0
    while 2.0 * length <= LONGEST and length >= FIRST and driven(2.0 * length):
        length *= 2.0
    atoms.set_positions(start + length * v, apply_constraint=False)
