"""What an extractor states about itself, so that no other file treats one by name."""

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
    """Whether it takes Hessian products. All others get a function that has none."""
    has_theory: bool = True
    """Whether a theorem gives its constants."""
    keeps_gradient: bool = False
    """Whether ∇f(x) may stay in memory while the candidate is measured. The measurement then estimates L2 too."""


def on_f_hat(algorithm: Callable[..., Candidate]) -> Callable[[Search, Any], Candidate]:
    """The `run` of `by_settings`, for an algorithm that takes (f̂, settings, generator)."""
    return lambda search, settings: algorithm(
        search.f_hat, settings, search.generator, keep_history=search.question.keep_history
    )


def by_settings(
    run: Callable[[Search, Any], Candidate],
    *,
    practical: Callable[[Search], Any],
    theory: Callable[..., Any] | None = None,
    calls_a_step: int = 1,
    extra_calls: Callable[[Any], int] = lambda settings: 0,
    **stated: bool,
) -> Extractor:
    """An extractor that makes its settings first and then takes at most `settings.num_steps` steps.

    Args:
        run: the algorithm, for one search and its settings.
        practical: makes usable settings.
        theory: makes the theorem's settings, from γ, δ, d, L1 and L2; None if `practical` makes them already.
        calls_a_step: gradients or products of one step.
        extra_calls: gradients or products of the run beside its steps.
        stated: other fields of `Extractor`.
    """

    def extract(search: Search) -> Candidate:
        settings = practical(search) if theory is None or not search.question.theory else search.settings(theory)
        return search.within_budget(
            settings, lambda s: run(search, s), calls_a_step=calls_a_step, extra_calls=extra_calls(settings)
        )

    return Extractor(extract=extract, **stated)
