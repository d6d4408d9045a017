"""The search for negative curvature of an energy: few force calls, forces that remember, and motions from bonds to
torsions.

The search of `unsaddle.is_minimum` assumes nothing, and takes some 13 gradients to find out how far to probe, and two a
step if gradients have memory. Here the domain tells the length: vibration codes displace atoms by 0.01 Å. So one
gradient a step does, what that leaves open is looked at from both sides, and a small molecule is looked at to the end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.curvature.krylov.process import KrylovProcess
from unsaddle.interop.ase.coordinates import Coordinates
from unsaddle.interop.ase.motions import Array
from unsaddle.objective import SampledFunction
from unsaddle.theory.start import log_unlucky

PROBE, CENTRAL = 0.01, 0.03
"""Å by which the atom moves that moves most: in a product of the search, from one side; and where a motion is measured,
from both. Vibration codes move atoms by 0.01 Å."""

MOST_STEPS = 200
"""The most products of a search."""

CLEAR, SETTLED = 3.0, 0.3
"""A Ritz value is clearly negative if it is below zero by so many times the error of products, with a residual of at
most this share of it."""

MEASURED_AT_MOST = 5
"""Motions that are measured from both sides. More soft ones are rare, and each takes two force calls."""

LEFT = 0.2
"""Of what forces and energies differ by, at least this share is left as an error: two lengths may agree by accident."""

NOISES = 3.0
"""The error of a force along one direction is taken to be at most this many times σ/√d, as in `measure.direction`."""


@dataclass(frozen=True, eq=False)
class Motion:
    """A unit displacement in the target's coordinates, measured from both sides."""

    direction: Array
    curvature: float
    """eV/Å²."""
    error: float
    length: float
    """t: it was measured at ±t along the direction, in Å."""
    energies: tuple[float, float]
    """At +t and −t; nan if the calculator has none."""

    @property
    def is_negative(self) -> bool:
        return self.curvature + self.error < 0.0


@dataclass(frozen=True, eq=False)
class Found:
    """What a search ends with. Curvatures are in eV/Å²."""

    motion: Motion | None
    """The lowest motion that was measured from both sides; None if the search needed none."""
    lowest: float
    """The lowest curvature seen, along `direction`."""
    error: float
    """How far that may be off."""
    direction: Array
    largest: float
    """The largest curvature seen."""
    bound: float
    """Curvature below −bound is excluded; inf if the budget ended before."""
    history: tuple[tuple[int, float], ...]
    """Force calls, and the lowest Ritz value in the scaled coordinates, for each step."""


class Probes:
    """Evaluations around the structure, in the coordinates z."""

    def __init__(self, f: SampledFunction, x: Tensor, space: Coordinates) -> None:
        self._f, self._x, self._space = f, x, space
        self._first: tuple[Tensor, Array] | None = None
        self.energy, self.gradient = self._at(None, 0.0)
        self.noise = self.energy_noise = 0.0

    def begin(self, q: Tensor) -> None:
        """Probes along q, then takes the gradient at the structure again.

        A solver that starts from its last answer gives another gradient after a move than before: all later ones come
        after moves, so the new one is the one to compare with.
        """
        self._first = q.clone(), self._forward(q)
        energy, again = self._at(None, 0.0)
        self.energy_noise = abs(energy - self.energy)
        self.noise = float(np.linalg.norm(again - self.gradient))
        self.energy, self.gradient = energy, again

    def product(self, q: Tensor, out: Tensor) -> None:
        """Writes Hq, from one side, in z."""
        there = self._first[1] if self._first and torch.equal(q, self._first[0]) else self._forward(q)
        radius = PROBE / self._space.movement(self._space.lift @ q.numpy())
        out.copy_(torch.from_numpy(self._space.lift.T @ (there - self.gradient) / radius))

    def _forward(self, q: Tensor) -> Array:
        u = self._space.lift @ q.numpy()
        return self._at(u, PROBE / self._space.movement(u))[1]

    def central(self, u: Array, move: float) -> tuple[Array, float, tuple[float, float]]:
        """Hu for a displacement u, from both sides; the length t, and the energies at ±tu."""
        t = move / self._space.movement(u)
        (up, above), (down, below) = self._at(u, t), self._at(u, -t)
        return (above - below) / (2.0 * t), t, (up, down)

    def energy_at(self, u: Array, t: float) -> float:
        return self._at(u, t)[0]

    def _at(self, u: Array | None, t: float) -> tuple[float, Array]:
        if u is None:
            value, grad = self._f.value_and_grad(self._x)
        else:
            value, grad = self._f.value_and_grad_at_sum(self._x, torch.from_numpy(u), t)
        return float(value), grad.numpy().copy()

    @property
    def calls(self) -> int:
        return self._f.ledger.gradients


def search(
    probes: Probes,
    space: Coordinates,
    *,
    delta: float,
    budget: int,
    generator: torch.Generator,
    measure_at_most: int = MEASURED_AT_MOST,
) -> Found:
    """Finds a motion of negative curvature, or shows that there is none.

    1. Krylov steps with products from one side, in z. They end as soon as a Ritz value is clearly negative; or all
       eigenvalues below the error e of the products are excluded, at confidence 1 − δ (`Projection.log_missed`, which
       holds above zero too); or every free motion was looked at.
    2. Motions that are not clear of e are measured from both sides, lowest first. What that tells replaces what
       products from one side told.

    Cost: one force call a step, two for each motion that is measured, and one for the structure again.
    """
    start = vectors.random_direction(torch.zeros(space.dimension, dtype=torch.float64), generator)
    probes.begin(start)
    process = KrylovProcess(probes.product, start, min(space.dimension, MOST_STEPS))
    seen, history = process.projection, list[tuple[int, float]]()
    unlucky = log_unlucky(space.dimension, delta)
    proven, trusted, error = False, True, math.inf
    while not (proven or process.exhausted or process.full) and probes.calls + 2 < budget:
        process.expand()
        lowest = float(seen.values[0])
        # The norm of a matrix with independent errors is √size times one of them.
        error = math.sqrt(seen.size) * seen.asymmetry
        history.append((probes.calls, lowest))
        proven = seen.log_missed(-error) <= unlucky
        if trusted and lowest < -CLEAR * error and float(seen.residuals[0]) <= SETTLED * abs(lowest):
            picture = _Picture(probes, space, process)
            picture.measure_lowest(budget)
            if picture.is_negative:
                return picture.found(error, False, tuple(history))
            trusted = False  # Products from one side mislead here. The search goes on without them saying when to end.
    picture = _Picture(probes, space, process)
    few = seen.size == 1  # One product has no symmetry to violate, so nothing tells its error.
    most = 1 if few else 0 if proven else measure_at_most
    while picture.measured_number < most and (few or picture.lowest_open() <= error) and probes.calls + 2 <= budget:
        picture.measure_lowest(budget)
    return picture.found(error, proven or process.exhausted, tuple(history))


class _Picture:
    """The Hessian on the space that was searched, as far as it is known: from one side, or from both."""

    def __init__(self, probes: Probes, space: Coordinates, process: KrylovProcess) -> None:
        size = process.projection.size
        self._probes = probes
        self._basis: Array = space.lift @ process.ritz_vectors(range(size)).numpy().T
        self._matrix: Array = np.diag(process.projection.values)
        self._exact: Array = np.zeros((0, size))
        self._motions: list[Motion] = []

    @property
    def measured_number(self) -> int:
        return len(self._motions)

    def _open(self) -> tuple[float, Array]:
        """The lowest curvature among what was seen from one side only, and its coefficients."""
        rest: Array = np.linalg.svd(self._exact, full_matrices=True)[2][len(self._exact) :]
        if not len(rest):
            return math.inf, np.zeros(len(self._matrix))
        values, vectors = np.linalg.eigh(rest @ self._matrix @ rest.T)
        return float(values[0]), rest.T @ vectors[:, 0]

    def lowest_open(self) -> float:
        return self._open()[0]

    def measure_lowest(self, budget: int) -> None:
        """Measures the lowest open motion from both sides."""
        _, y = self._open()
        u = self._basis @ y
        product, motion = measured(self._probes, u, budget)
        column = self._basis.T @ product
        column += (motion.curvature * float(u @ u) - y @ column) * y
        keep = np.eye(len(y)) - np.outer(y, y)
        across = np.outer(keep @ column, y)
        self._matrix = keep @ self._matrix @ keep + across + across.T + (y @ column) * np.outer(y, y)
        self._exact = np.vstack([self._exact, y])
        self._motions.append(motion)

    @property
    def is_negative(self) -> bool:
        return any(motion.is_negative for motion in self._motions)

    def found(self, error: float, ended: bool, history: tuple[tuple[int, float], ...]) -> Found:
        values, vectors = np.linalg.eigh(self._matrix)
        u = self._basis @ vectors[:, 0]
        top = self._basis @ vectors[:, -1]
        lowest, off = float(values[0]) / float(u @ u), error / float(u @ u)
        motion = min(self._motions, key=lambda m: m.curvature, default=None)
        bound = 0.0
        if motion is not None:
            value, y = self._open()
            beyond = (error - value) / float(np.sum((self._basis @ y) ** 2)) if y.any() else 0.0
            bound = max(0.0, motion.error - motion.curvature, beyond)
            if motion.curvature <= lowest:
                u, lowest, off = motion.direction, motion.curvature, motion.error
        return Found(
            motion=motion,
            lowest=lowest,
            error=off,
            direction=u / float(np.linalg.norm(u)),
            largest=float(values[-1]) / float(top @ top),
            bound=bound if ended else math.inf,
            history=history,
        )


def measured(probes: Probes, u: Array, budget: float = math.inf) -> tuple[Array, Motion]:
    """Hu, and the curvature along u, by forces and energies on both sides.

    Along a line, f(±t) gives f″ + t²f⁗/12, and f′(±t) gives f″ + t²f⁗/6. Both together tell f″, and what is left of
    the error is at most half of what they differ by. A straight line stretches the bonds of a group that turns: without
    that, a torsion of −0.04 eV/Å² measures −0.01. A calculator without finite energies is asked for forces at t/2
    instead.
    Where the sign stays open since t is too long, t/3 is tried, too: the two results then show what is left.
    """
    product, first, noise = _at_length(probes, u, CENTRAL)
    truncation = first.error - noise
    if abs(first.curvature) > first.error or noise > truncation or probes.calls + 2 > budget:
        return product, first
    product, second, noise = _at_length(probes, u, CENTRAL / 3.0)
    left = max(abs(second.curvature - first.curvature), LEFT * (second.error - noise))
    return product, replace(second, error=min(second.error, left + noise))


def _at_length(probes: Probes, u: Array, move: float) -> tuple[Array, Motion, float]:
    """Hu, the motion as measured at one length, and the part of its error that is noise."""
    product, t, energies = probes.central(u, move)
    size = float(np.linalg.norm(u))
    length = t * size
    far = float(u @ product) / size**2
    noise = NOISES * probes.noise / math.sqrt(len(u)) / (math.sqrt(2.0) * length)
    near = (sum(energies) - 2.0 * probes.energy) / length**2
    by_energies = math.isfinite(near)
    if by_energies:
        curvature, noise = 2.0 * near - far, noise + 4.0 * probes.energy_noise / length**2
    else:
        near = float(u @ probes.central(u, move / 2.0)[0]) / size**2
        curvature, noise = (4.0 * near - far) / 3.0, 3.0 * noise
    error = noise + 0.5 * abs(far - near)
    if by_energies and min(energies) >= probes.energy:
        error = max(error, abs(curvature))  # Energies have a veto: without a fall there is no negative curvature.
    return product, Motion(u / size, curvature, error, length, energies), noise
