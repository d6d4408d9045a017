"""The extractors as the benchmarks of time and memory run them: for a given number of steps, none of them the last.

To measure another one, add a line to `EXTRACTORS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from unsaddle.curvature.displaced import DisplacedFunction
from unsaddle.curvature.neon import neon
from unsaddle.curvature.neon_plus import neon_plus
from unsaddle.curvature.neon_settings import NeonPlusSettings, NeonSettings
from unsaddle.curvature.result import Candidate

STEP_SIZE, NOISE_RADIUS = 1e-3, 1e-3
"""Small, so that the iterate neither leaves nor vanishes; the time of a step does not depend on them."""

Steps = Callable[[DisplacedFunction, int, torch.Generator], Candidate]


def _neon(f_hat: DisplacedFunction, num_steps: int, generator: torch.Generator) -> Candidate:
    settings = NeonSettings(
        step_size=STEP_SIZE, num_steps=num_steps, noise_radius=NOISE_RADIUS, target=math.inf, trust_radius=math.inf
    )
    return neon(f_hat, settings, generator)


def _neon_plus(f_hat: DisplacedFunction, num_steps: int, generator: torch.Generator) -> Candidate:
    settings = NeonPlusSettings(
        step_size=STEP_SIZE,
        num_steps=num_steps,
        noise_radius=NOISE_RADIUS,
        target=math.inf,
        trust_radius=math.inf,
        momentum=0.9,
    )
    return neon_plus(f_hat, settings, generator)


@dataclass(frozen=True, kw_only=True)
class Extractor:
    """How to run it, and what is wanted of it."""

    steps: Steps
    """Takes f̂, the number of steps and the randomness; no test of an iterate passes."""
    step_over_gradient: float
    """Time of a step over that of a gradient, on the paper's function with n=6000, d=5000."""
    axpys_beyond_gradient: float
    """What a step takes beyond its gradient, in axpys of the same length."""
    vectors: float
    """Peak memory beyond x and one gradient, in vectors."""

    def run(self, f_hat: DisplacedFunction, num_steps: int, generator: torch.Generator) -> None:
        """Take exactly `num_steps` steps."""
        before = f_hat.f.ledger.gradients
        candidate = self.steps(f_hat, num_steps, generator)
        taken = f_hat.f.ledger.gradients - before
        if not candidate.exhausted or taken != num_steps:
            raise RuntimeError(f"ended after {taken} of {num_steps} steps, so they cannot be timed: {candidate.status}")


EXTRACTORS = {
    "neon": Extractor(steps=_neon, step_over_gradient=1.05, axpys_beyond_gradient=5.0, vectors=4.0),
    "neon+": Extractor(steps=_neon_plus, step_over_gradient=1.10, axpys_beyond_gradient=9.0, vectors=6.0),
}
