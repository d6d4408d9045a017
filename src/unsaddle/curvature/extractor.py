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
    settings: type | None = None
    """The dataclass of its constants, which a caller may give; None if it takes none."""
    has_theory: bool = True
    """Whether a theorem gives its constants."""
    keeps_gradient: bool = False
    """Whether ∇f(x) may stay in memory while the candidate is measured. The measurement then estimates L2 too."""


def by_settings(
    algorithm: Callable[..., Candidate],
    *,
    settings: type,
    inputs: Callable[[Search], tuple[Any, ...]] = lambda search: (search.f_hat,),
    practical: Callable[[Search], Any],
    theory: Callable[..., Any] | None = None,
    calls_a_step: int = 1,
    extra_calls: Callable[[Any], int] = lambda settings: 0,
    **stated: bool,
) -> Extractor:
    """An extractor that makes its settings first and then takes at most `settings.num_steps` steps.

    Args:
        algorithm: called with (*inputs(search), settings, generator, keep_history=...).
        settings: the dataclass of its constants.
        inputs: f̂ by default.
        practical: makes usable settings.
        theory: makes the theorem's settings, from γ, δ, d, L1 and L2; None if `practical` makes them already.
        calls_a_step: gradients or products of one step.
        extra_calls: gradients or products of the run beside its steps.
        stated: other fields of `Extractor`.
    """

    def extract(search: Search) -> Candidate:
        chosen = search.question.own_settings
        if chosen is None:
            chosen = practical(search) if theory is None or not search.question.theory else search.settings(theory)
        return search.within_budget(
            chosen,
            lambda s: algorithm(*inputs(search), s, search.generator, keep_history=search.question.keep_history),
            calls_a_step=calls_a_step,
            extra_calls=extra_calls(chosen),
        )

    return Extractor(extract=extract, settings=settings, **stated)
