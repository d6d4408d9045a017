"""What an extractor states about itself, so that nobody has to know it by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from unsaddle.curvature.result import Candidate
from unsaddle.curvature.search import Search


@dataclass(frozen=True, kw_only=True)
class Extractor:
    """An entry of the registry."""

    extract: Callable[[Search], Candidate]
    """Looks for a direction, within the budget of the search."""
    needs_products: bool = False
    """Whether it takes Hessian products; all others are given a function that has none."""
    has_theory: bool = True
    """Whether there is a theorem to take constants from."""
    keeps_gradient: bool = False
    """Whether ∇f(x) may stay in memory while its candidate is measured, which then sees L2 as well."""


def by_settings(
    run: Callable[[Search, Any], Candidate],
    *,
    practical: Callable[[Search], Any],
    theory: Callable[..., Any],
    calls_a_step: int = 1,
    extra_calls: Callable[[Any], int] = lambda settings: 0,
    **stated: bool,
) -> Extractor:
    """An extractor that makes its settings first and then takes at most `settings.num_steps` steps.

    Args:
        run: the algorithm, for one search and its settings.
        practical: makes usable settings.
        theory: makes those of the theorem, from γ, δ, d, L1 and L2.
        calls_a_step: gradients or products that a step takes.
        extra_calls: what the run takes beside its steps.
        stated: what else `Extractor` states.
    """

    def extract(search: Search) -> Candidate:
        settings = search.settings(theory, practical)
        return search.within_budget(
            settings, lambda s: run(search, s), calls_a_step=calls_a_step, extra_calls=extra_calls(settings)
        )

    return Extractor(extract=extract, **stated)
