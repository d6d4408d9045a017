"""ASE optimizers that go on where forces have converged at a saddle."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from ase import Atoms
from ase.filters import Filter
from ase.optimize import BFGS
from ase.optimize.optimize import Optimizer

from unsaddle import checks
from unsaddle.interop.ase.minimum import checked_settings, is_minimum
from unsaddle.interop.ase.motions import Array, free_motions
from unsaddle.interop.ase.surface import CalculationError, EnergySurface, largest_force
from unsaddle.interop.ase.verdict import StructureVerdict, described

TIGHTEST, NOISES = 8.0, 3.0
"""From the second saddle on fmax is halved for each, down to this part of it, but not below so many times the error of
forces."""

RUN = (
    *("atoms", "optimizable", "logfile", "observers", "nsteps", "max_steps", "comm", "trajectory", "restart", "fmax"),
    *("_orig_trajectory", "_master", "_exitstack"),
)
"""What belongs to the run of an optimizer: a new start at another structure keeps it."""


@dataclass(frozen=True, kw_only=True)
class Left:
    """A saddle that a run has left."""

    energy: float
    """eV, at the saddle; nan if the calculator has none."""
    verdict: StructureVerdict
    """With its mode and frequency."""

    def __str__(self) -> str:
        v = self.verdict
        tone = f", {described(v.frequency)}" if math.isfinite(v.frequency) else ""
        fall = f", falls by {1e3 * v.drop:.3g} meV" if math.isfinite(v.drop) else ""
        return f"saddle at {self.energy:.6f} eV{tone}, {v.curvature:.3g} eV/Å²{fall}"


def promoted(base: type[Optimizer]) -> type[Optimizer]:
    """A class of ASE's optimizers that goes on where forces have converged at a saddle.

    Its name is Neon. It has the signature of `base`, the keyword arguments `gamma`, `delta` and `seed` of `is_minimum`
    (an argument that `base` has goes to `base`), and `max_escapes`. `run(fmax, steps)` returns True if forces have
    converged at a minimum; it ends with False if that cannot be decided. `verdict` is the last verdict. `left` tells of
    each saddle that was left its energy, mode and frequency, and so does a line of the logfile. A step off a saddle
    leads to the lowest energy that the check saw along the mode. It is a step of the run: logged, observed, and written
    to the trajectory. After it `base` starts anew. Like ASE's optimizers, it needs a calculator with energies.
    """
    signature = inspect.signature(base)
    ours = {"gamma": None, "delta": 0.05, "seed": 0, "max_escapes": 20}
    theirs = ours.keys() & signature.parameters.keys()

    class Neon(base):  # type: ignore[misc]
        __doc__ = f"{base.__name__}, promoted: see `unsaddle.interop.ase.promoted`."
        fmax: float

        def __init__(self, atoms: Atoms | Filter, *args: Any, **kwargs: Any) -> None:
            EnergySurface(atoms)  # These two raise errors before any file is opened.
            free_motions(atoms)
            chosen = {name: kwargs.pop(name) for name in ours.keys() & kwargs.keys() - theirs}
            check = ours | chosen
            self._most = checks.count(check.pop("max_escapes"), "max_escapes", at_least=0)
            self._check: dict[str, Any] = dict(zip(("gamma", "delta", "seed"), checked_settings(**check), strict=True))
            self._given = (args, kwargs)
            self._starts: list[Optimizer] = []
            self.verdict: StructureVerdict | None = None
            self.left: list[Left] = []
            super().__init__(atoms, *args, **kwargs)

        @property
        def escapes(self) -> int:
            """The number of saddles left."""
            return len(self.left)

        def gradient_converged(self, gradient: Array) -> bool:
            self.verdict = None
            if not np.isfinite(gradient).all():
                raise CalculationError("the calculator returned forces that are not finite; the run cannot go on")
            if not self._small(gradient):
                return False
            check = self._check | {"seed": self._check["seed"] + self.escapes}
            # The base says that these forces are small. It may count in coordinates of its own, as Sella does.
            small = max(self.fmax, largest_force(self.atoms))
            self.verdict = is_minimum(self.atoms, fmax=small, **check)
            if self.verdict.kind != "saddle" or self.escapes >= self._most:
                self.max_steps = self.nsteps  # More steps would not change the verdict.
            return self.verdict.kind == "minimum"

        def _small(self, gradient: Array) -> bool:
            """Whether the base has converged; from the second saddle on, to less than fmax.

            In a flat valley forces are soon below fmax wherever a step leads: the run would creep from check to check.
            """
            asked = self.fmax
            if self.escapes > 1:
                noise = NOISES * max(left.verdict.evidence.noise for left in self.left)
                self.fmax = max(asked / min(2.0 ** (self.escapes - 1), TIGHTEST), min(asked, noise))
            try:
                return bool(super().gradient_converged(gradient))
            finally:
                self.fmax = asked

        def step(self, *args: Any, **kwargs: Any) -> None:
            if self.verdict is None or self.verdict.direction is None:
                super().step(*args, **kwargs)
                return
            left = Left(energy=self.verdict.energy, verdict=self.verdict)
            if self.logfile is not None:
                self.logfile.write(f"# {left}\n")
            v = self.verdict.direction.numpy().reshape(-1, 3)
            self.atoms.set_positions(self.atoms.get_positions() + self.verdict.length * v)
            self.left.append(left)
            self._start_anew()

        def _start_anew(self) -> None:
            """Takes over the state of a new `base`: the old estimate of the Hessian is that of the saddle."""
            args, kwargs = self._given
            # ASE's optimizers write their trajectory as observers of the run. Sella keeps an open one in its state.
            files = {"restart": None, "logfile": None, "trajectory": getattr(getattr(self, "pes", None), "traj", None)}
            bound = signature.bind(self.atoms, *args, **kwargs)
            others = [p.name for p in signature.parameters.values() if p.kind is p.VAR_KEYWORD]
            for name, value in files.items():
                named = name in signature.parameters or not others
                (bound.arguments if named else bound.arguments.setdefault(others[0], {}))[name] = value
            fresh = base(*bound.args, **bound.kwargs)
            self._starts.append(fresh)  # Files that it would close when it is deleted are ours.
            self.__dict__.update({name: value for name, value in vars(fresh).items() if name not in RUN})

    Neon.__qualname__ = "Neon"
    return Neon


Neon = promoted(BFGS)
"""ASE's BFGS, promoted."""
