"""Constants that the rivals' papers take as known. Here the caller gives them, or they are measured."""

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
"""A measured L1 below this is rounding: the Hessian is zero there, which says nothing about L1 a step further."""


def needed(options: Options, *names: str) -> list[float]:
    """The constants that a theorem takes as known. Only the caller can give them."""
    known = options.method_settings
    for name in names:
        if name not in known:
            raise ValueError(f"settings='theory' needs {name}, got none; pass {name}=..., or use settings='practical'")
    return [checks.positive(known[name], name) for name in names]


def smoothness(run: Run, options: Options, x: Tensor | None = None) -> float:
    """L1 as given, or as ten Lanczos steps with gradient differences measure it. 1 where the Hessian is zero.

    It is measured at x. Without x it is measured once, where the run begins.
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
    """The options with ε. If none was given, ε follows L1 at the point of the run, where a method is about to begin."""
    if options.eps_follows_smoothness:
        run.eps = stationary_gradient(smoothness=smoothness(run, options), x_norm=vectors.norm(run.x))
        return replace(options, eps=run.eps)
    return options


def curvature_sought(options: Options, smoothness: float) -> float:
    """γ as given, or a hundredth of L1."""
    return RELATIVE_GAMMA * smoothness if options.gamma is None else options.gamma
