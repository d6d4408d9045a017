"""How many samples a verdict needs: what a sample may have missed, and the number to pass for `samples`."""

from __future__ import annotations

import math

from unsaddle.curvature.result import Curvature, Status
from unsaddle.measure.batches import CHECKS, EVERYTHING

RAREST = 3e-3
"""Parts of the data down to this share are covered by a verdict. A rarer part, that no sample contains, may change it:
the gradients of a class that was never drawn cannot be guessed from those of others."""

SAFETY, MOST = 1.5, 100.0
"""The number named is 1.5 times what the errors ask for, as these are estimates, and at most 100 times that drawn."""


def missed_share(checked: int | None, delta: float) -> float:
    """The largest share of the data that `checked` samples may all have missed, with probability δ; 0 for everything.

    (1 − p)^m ≤ δ from p = ln(1/δ)/m on.

    >>> round(missed_share(1000, 0.05), 4), missed_share(None, 0.05)
    (0.003, 0.0)
    """
    return 0.0 if checked is None else math.log(1.0 / max(delta, 1e-300)) / checked


def more_samples(
    found: Curvature,
    *,
    samples: int | None,
    n: int | None,
    delta: float,
    gradient_norm: float,
    gradient_error: float,
    eps: float,
) -> str:
    """Advice in terms of the argument `samples`: "pass samples=4096", or "leave samples out to take all n = 1000".

    The number is the largest that any part of the verdict asks for: no part of the data of `RAREST` is missed; the
    gradient's error, which falls with the square root, is below its distance from ε; and so is that of the curvature.
    A power of two, as it is an estimate. `samples` is None if nothing was sampled.
    """
    if samples is None:
        return "draw more samples where there are any"
    unsure = max(_for_gradient(gradient_norm, gradient_error, eps), _for_curvature(found))
    factor = max(1.0, missed_share(CHECKS * samples, delta) / RAREST, min(SAFETY * unsure, MOST))
    number = 2 ** math.ceil(math.log2(factor * samples))
    number = number if number > samples else 2 * number
    if n is not None and EVERYTHING * number >= n:
        return f"leave samples out to take all n = {n}"
    return f"pass samples={number}"


def _for_gradient(norm: float, error: float, eps: float) -> float:
    """The factor on the samples that decides about the gradient; 0 if it is decided."""
    gap = abs(norm - eps)
    if not error > gap:
        return 0.0
    return (error / gap) ** 2 if gap > 0.0 else math.inf


def _for_curvature(found: Curvature) -> float:
    """The factor on the samples that decides about the curvature; 0 if it is decided.

    Fresh samples show c along the direction, where the sample that it was found on shows less, by its error. With more
    samples either the interval around c is below zero, or the search ends above −γ/2.
    """
    if found.status is not Status.SAMPLE_ONLY:
        return 0.0
    same, fresh = found.measurements[0], found.measurements[-1]
    c, goal = fresh.curvature, fresh.curvature + found.sought / 2.0
    to_confirm = (fresh.error / c) ** 2 if c < 0.0 else math.inf
    to_clear = ((c - same.curvature) / goal) ** 2 if goal > 0.0 else math.inf
    factor = min(to_confirm, to_clear)
    return max(2.0 / SAFETY, factor) if math.isfinite(factor) else math.inf
