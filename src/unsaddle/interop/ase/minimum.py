"""`is_minimum` for structures."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from ase import Atoms
from ase.filters import Filter

from unsaddle import checks
from unsaddle.cost import Ledger
from unsaddle.curvature.result import Curvature, Status
from unsaddle.interop.ase.coordinates import coordinates
from unsaddle.interop.ase.search import PROBE, Found, Motion, Probes, search
from unsaddle.interop.ase.surface import EnergySurface, largest_force, results_kept
from unsaddle.interop.ase.verdict import StructureVerdict, described, frequency, in_chemistry
from unsaddle.judgement.drop import NO_DIRECTION, Drop
from unsaddle.judgement.judge import Kind, judge
from unsaddle.judgement.verdict import assembled
from unsaddle.measure.direction import Measurement
from unsaddle.told import measured

START_DELTA = 1e-3
"""The largest part of δ that the random start may use: a tenth of it costs a step or two more."""

LONGEST = 0.4
"""Å: so far the fall along a mode is followed, for the atom that moves most."""

SPARE = 3
"""A check takes at most two force calls for each free motion and so many more: fewer than a vibrational analysis."""

NEGLIGIBLE = 5e-6
"""eV: a smaller fall makes no saddle. Energies of an SCF are not known so well: tblite converges them to 3e-5."""

FLAT = 1e-6
"""A largest curvature below this share of the model's is none: forces do not change."""


def is_minimum(
    atoms: Atoms | Filter, *, fmax: float = 0.05, gamma: float | None = None, delta: float = 0.05, seed: int = 0
) -> StructureVerdict:
    """Whether a relaxed structure is a minimum of the energy, a saddle, or not relaxed. `atoms` is not changed.

    Made for forces as calculators give them by default: atoms are displaced by 0.01 Å, and forces that depend on what
    was computed before (an SCF that starts from its last density) are compared with forces after a move. The check
    looks along all motions that constraints, the filter, and free translations and rotations leave.

    `print(verdict)` says it in a sentence. `verdict.frequency` is in cm⁻¹, imaginary ones negative, `verdict.drop` in
    eV, `verdict.curvature` in eV/Å². `verdict.write_mode("mode.traj")` writes the motion for `ase gui`.
    `verdict.cost.gradients` is the number of force calls: at most that of a vibrational analysis.

    Args:
        atoms: Atoms with a calculator, or a filter such as `FrechetCellFilter`. Constraints may be FixAtoms,
            FixCartesian, FixedLine and FixedPlane.
        fmax: forces up to this, in eV/Å for each atom, count as relaxed.
        gamma: a minimum may have curvatures down to −γ, in eV/Å². By default what the forces can tell: `bound` says
            how much that is. Negative curvature that is seen counts, whatever γ.
        delta: the probability of a wrong verdict, at most. The random start takes no more than 0.001 of it.
        seed: of the random start.

    >>> from ase.build import molecule
    >>> from ase.calculators.emt import EMT
    >>> water = molecule("H2O", calculator=EMT())
    >>> is_minimum(water).kind
    'not stationary'
    """
    fmax = checks.positive(fmax, "fmax", "ASE's optimizers take 0.05")
    gamma, delta, seed = checked_settings(gamma, delta, seed)
    surface, ledger = EnergySurface(atoms), Ledger()
    space = coordinates(atoms)
    probes = Probes(surface.sample(ledger=ledger), surface.point, space)
    force, drop = largest_force(atoms), NO_DIRECTION
    found, seen = _nothing(delta, force, ledger), None
    if space.dimension:
        budget = 2 * (space.dimension + SPARE)
        with results_kept(atoms.calc):
            generator = torch.Generator().manual_seed(seed)
            how: dict[str, Any] = {"delta": min(delta, START_DELTA), "budget": budget, "generator": generator}
            if gamma is not None:  # As far as calls last: the bound is to come below γ.
                how["measure_at_most"] = budget
            seen = search(probes, space, **how)
            if seen.motion is not None and seen.motion.is_negative:
                drop = _fall(probes, seen.motion, LONGEST / space.movement(seen.motion.direction), budget)
                if drop.value < NEGLIGIBLE:
                    seen, drop = replace(seen, motion=None), NO_DIRECTION
        found = _evidence(seen, drop, probes, gamma, delta, force, ledger)
    judgement = judge(found, gradient_norm=force, eps=fmax)
    known: dict[str, Any] = {"gradient_norm": force, "gradient_error": 0.0, "eps": fmax, "delta": delta}
    told = drop if judgement.kind in (Kind.SADDLE, Kind.NOT_STATIONARY) else NO_DIRECTION
    told = told._replace(length=abs(told.length))
    verdict = assembled(surface, surface.point, found, judgement, drop=told, cost=ledger.cost, **known)
    return in_chemistry(verdict, atoms, probes.energy, _reason(judgement.kind, atoms, seen, drop))


def checked_settings(gamma: Any, delta: Any, seed: Any) -> tuple[float | None, float, int]:
    """γ, δ and the seed of `is_minimum`. Raises an error for a wrong one."""
    gamma = None if gamma is None else checks.positive(gamma, "gamma", "leave it out to go as far as forces tell")
    return gamma, checks.probability(delta, "delta"), checks.seed(seed)


def _fall(probes: Probes, motion: Motion, longest: float, budget: int) -> Drop:
    """How far the energy falls along the motion: lengths are doubled while it does. The sign of the length is that of
    the lower side."""
    here, (up, down) = probes.energy, motion.energies
    if not math.isfinite(here):
        return NO_DIRECTION
    sign, best = (1.0, up) if up <= down else (-1.0, down)
    length, both = motion.length, max(up, down) < here
    while 2.0 * length <= longest and probes.calls < budget:
        farther = probes.energy_at(motion.direction, 2.0 * sign * length)
        if not farther < best:
            break
        length, best = 2.0 * length, farther
    return Drop(here - best, (here - best, here - best), sign * length, both)


def _evidence(
    seen: Found, drop: Drop, probes: Probes, gamma: float | None, delta: float, force: float, ledger: Ledger
) -> Curvature:
    """What the search saw, for the judge."""
    known: dict[str, Any] = {"direction": None, "curvature": math.nan, "status": Status.NOTHING_FOUND}
    known["deciding"] = (torch.from_numpy(seen.direction),)
    motion = seen.motion
    if motion is not None and motion.is_negative:
        at = Measurement(curvature=motion.curvature, error=motion.error, radius=motion.length, samples=1, fresh=False)
        down = torch.from_numpy(-motion.direction if drop.length < 0.0 else motion.direction.copy())
        known |= {"direction": down, "curvature": motion.curvature, "measurements": (at,), "deciding": ()}
        known["status"] = Status.FOUND
    elif abs(seen.history[-1][1]) < FLAT and seen.largest < FLAT:
        known["status"] = Status.FLAT
    elif math.isinf(seen.bound):
        known["status"] = Status.BUDGET_SPENT
    elif gamma is not None and seen.bound > gamma:
        known["status"] = Status.PRECISION_TOO_LOW
    sought = gamma if gamma is not None else seen.bound if known["status"] is Status.NOTHING_FOUND else math.nan
    return Curvature(
        gradient_norm=force,
        cost=ledger.cost,
        gamma=sought,
        sought=sought,
        delta=delta,
        extractor="krylov",
        smoothness=seen.largest,
        radius=PROBE,
        noise=probes.noise,
        relative_noise=math.nan,
        hessian_lipschitz=math.nan,
        lowest=seen.lowest,
        upper=seen.lowest + seen.error,
        bound=seen.bound,
        history=seen.history,
        **known,
    )


def _nothing(delta: float, force: float, ledger: Ledger) -> Curvature:
    """The evidence where nothing can move."""
    names = ("gamma", "sought", "curvature", "lowest", "smoothness", "relative_noise", "hessian_lipschitz")
    known: dict[str, Any] = dict.fromkeys(names, math.nan) | {"gradient_norm": force, "noise": 0.0, "radius": PROBE}
    return Curvature(
        direction=None,
        status=Status.NOTHING_FOUND,
        cost=ledger.cost,
        delta=delta,
        extractor="krylov",
        bound=0.0,
        **known,
    )


def _reason(kind: Kind, target: Atoms | Filter, seen: Found | None, drop: Drop) -> str:
    """The reason in words of the domain."""
    if seen is None:
        return "Nothing can move: every motion is held, or rigid."
    lowest, error, direction = seen.lowest, seen.error, seen.direction
    if seen.motion is not None and seen.motion.is_negative:
        lowest, error, direction = seen.motion.curvature, seen.motion.error, seen.motion.direction
    wave = frequency(target, direction, lowest)
    tone = f" ({described(wave)})" if math.isfinite(wave) else ""
    value = f"{measured(lowest, error)} eV/Å²{tone}"
    fall = ""
    if math.isfinite(drop.value):
        fall = f" The energy falls by {1e3 * drop.value:.3g} meV along it, at a distance of {abs(drop.length):.2g} Å."
    if kind is Kind.SADDLE:
        return f"The curvature along the mode is {value}.{fall}"
    if kind is Kind.NOT_STATIONARY:
        return f"Forces are not small: relax further.{f' There is a mode of {value}, too.' if fall else ''}"
    if kind is Kind.MINIMUM:
        soft = f" Curvature above -{seen.bound:.2g} eV/Å² counts as none." if seen.bound > 0.0 else ""
        return f"No mode has negative curvature. The lowest one met has {value}; others may be softer.{soft}"
    if math.isinf(seen.bound):
        return "The force calls of a vibrational analysis were spent, and soft modes are not excluded: run one."
    if seen.largest < FLAT:
        return "Forces do not change when atoms move: nothing holds them, or the calculator does not see them."
    return f"Forces are known too badly to exclude curvature above -{seen.bound:.2g} eV/Å²: converge the calculator."
