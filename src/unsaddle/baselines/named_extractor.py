"""The extractor that a caller names for a rival, in the place of the rival's own."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from torch import Tensor

from unsaddle.first_order.premises import ProblemConstants
from unsaddle.framework.neon_a import FRUITLESS
from unsaddle.framework.plan import Evidence
from unsaddle.framework.sampled_extraction import by_lemma_2, until_decided
from unsaddle.options import Options
from unsaddle.run import Run


class Settings(Protocol):
    """What a rival's settings tell an extractor: γ, L1 and L2."""

    @property
    def gamma(self) -> float: ...

    @property
    def smoothness(self) -> float: ...

    @property
    def hessian_lipschitz(self) -> float | None: ...


def is_named(options: Options) -> bool:
    """Whether the caller named an extractor. "auto" is the rival's own method."""
    return options.extractor != "auto"


def extraction(run: Run, options: Options, x: Tensor, settings: Settings) -> Evidence:
    """Looks for curvature below −γ at x by the extractor that the caller named, as NEON-A does.

    On more and more samples until they decide, in up to three tries; with settings='theory' on those of Lemma 2.
    """
    options = replace(options, gamma=settings.gamma)
    if options.theory:
        return by_lemma_2(run, x, options, _constants(settings))
    for _ in range(FRUITLESS):
        found = until_decided(run, x, options)
        if found.decided:
            break
    return found


def promised_fraction(options: Options, settings: Settings, dimension: int) -> float:
    """c, if a theorem promises curvature −cγ or less: that of Lemma 2 for a named extractor, 1/2 for a rival's own."""
    if not is_named(options):
        return 0.5
    known = _constants(settings)
    return known.direction_fraction(dimension=dimension, gamma=settings.gamma, delta=options.delta)


def _constants(settings: Settings) -> ProblemConstants:
    assert settings.hessian_lipschitz is not None  # A rival's theory has asked for it.
    return ProblemConstants(smoothness=settings.smoothness, hessian_lipschitz=settings.hessian_lipschitz)
