"""Constants that the rivals' papers assume to be known: given, or measured."""

from __future__ import annotations

import math
from dataclasses import replace

from torch import Tensor

from unsaddle import checks, vectors
from unsaddle.curvature.krylov.smoothness import smoothness as smoothness_at
from unsaddle.curvature.question import RELATIVE_GAMMA
from unsaddle.options import Options
from unsaddle.run import Ending, Run, RunEnded
from unsaddle.theory.quadratics import stationary_gradient

FLAT = 1e-6
"""A measured L1 below it is that of a zero Hessian, up to rounding, and says nothing about L1 a step further."""


def needed(options: Options, *names: str) -> list[float]:
    """The constants that a theorem presupposes, which nobody but the caller can know."""
    known = options.method_settings
    for name in names:
        if name not in known:
            raise ValueError(f"settings='theory' needs {name}, got none; pass {name}=..., or use settings='practical'")
    return [checks.positive(known[name], name) for name in names]


def smoothness(run: Run, options: Options, x: Tensor | None = None) -> float:
    """L1 as given, or as ten Lanczos steps with gradient differences see it; 1 where the Hessian is zero there.

    Where the run begins, x being left out, it is measured once.
    """
    known = options.method_settings.get("smoothness")
    if known is not None:
        return checks.positive(known, "smoothness", "leave it out to have it measured")
    if x is None and run.smoothness is not None:
        return run.smoothness
    measured = smoothness_at(run.objective, run.x if x is None else x, run.generator)
    if not math.isfinite(measured):
        raise RunEnded(Ending.NOT_FINITE if x is None else Ending.DIVERGED)
    measured = measured if measured > FLAT else 1.0
    run.smoothness = measured if x is None else run.smoothness
    return measured


def with_eps(run: Run, options: Options) -> Options:
    """The options with ε: where none was given, it follows L1 where the run is, which begins there."""
    if options.eps_follows_smoothness:
        run.eps = stationary_gradient(smoothness=smoothness(run, options), x_norm=vectors.norm(run.x))
        return replace(options, eps=run.eps)
    return options


def curvature_sought(options: Options, smoothness: float) -> float:
    """γ as given, or a hundredth of L1."""
    return RELATIVE_GAMMA * smoothness if options.gamma is None else options.gamma
