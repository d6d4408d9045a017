"""The question that an extractor answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from unsaddle import checks
from unsaddle.objective import Objective

RELATIVE_GAMMA = 1e-2
"""The default of γ, as a share of L1."""

CLOSE = 0.05
"""The accuracy of curvatures that are told to people: some eigenvalue is within so small a share. To escape, less is
enough."""

STREAM_SAMPLES = 1024
"""Samples drawn from a stream by default."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """Is there curvature below −γ at x? The fields say how to look for it; they are checked at once.

    >>> Question(gamma=0.1).gamma_at(smoothness=4.0), Question().gamma_at(smoothness=4.0)
    (0.1, 0.04)
    """

    gamma: float | None = None
    """γ, the curvature sought in F; None for `RELATIVE_GAMMA` times the largest |eigenvalue| seen."""
    sample_margin: float = 0.0
    """A share of γ for the difference between F_S and F: on samples, (1 − margin)·γ is looked for."""
    seen_counts: bool = False
    """Whether curvature above −γ that is negative beyond its error counts as found."""
    farther: int = 0
    """Steps that krylov may take in all, though nothing is below −γ, to see softer curvature."""
    delta: float = 0.05
    """δ, the probability that an unlucky random start hides such a curvature."""
    extractor: str = "auto"
    """A name of the registry, or "auto"."""
    samples: int | None = None
    """|S|; None for everything, or for `STREAM_SAMPLES` of a stream."""
    smoothness: float | None = None
    """L1; None to measure it where it is needed."""
    hessian_lipschitz: float | None = None
    """L2; None if it is not known."""
    basis: int | None = None
    """Vectors that krylov may hold; None to choose by memory."""
    max_gradients: int | None = None
    """A bound on the gradients plus Hessian products of this call."""
    survey_first: bool = False
    """Survey the gradients around x before the search, not only if it finds nothing: for a verdict."""
    ends_where_steep: bool = False
    """Leave out the searches among kinks where the gradient clearly leads down: x is not stationary, and that is told.
    Only where F is not sampled."""
    full_precision: bool = False
    """F computes in the precision of x all through. So what krylov finds and confirms nearest to x is no staircase, and
    counts, whatever gradients do farther out: there are kinks."""
    gradient_off: float = 0.0
    """How far ∇F(x) is from that in the caller's precision, which is all that the caller can follow."""
    first_attempt_only: bool = False
    """Leave out what krylov does where its first attempt fails, as F is asked in float64 then (`in_double`). Not where
    gradients have memory: such an F is not asked again."""
    accuracy: float = 0.1
    """krylov returns a direction when its residual is at most this share of its curvature."""
    probe_radius: float | None = None
    """krylov first takes f to be quadratic within this distance, and does not measure the noise."""
    smallest_radius: float | None = None
    """krylov does not probe nearer than this, and measures the noise here; None to choose by ‖x‖."""
    theory: bool = False
    """Constants of the theorems instead of usable ones."""
    own_settings: Any = None
    """Constants of the extractor that the caller made; None to have them made."""
    keep_history: bool = False
    """Keep (gradients or products spent, quotient) for each step."""
    seed: int = 0

    def __post_init__(self) -> None:
        checked = {
            "gamma": self._if_given("gamma", checks.positive, "leave it out to take a hundredth of L1"),
            "farther": checks.count(self.farther, "farther", at_least=0),
            "delta": checks.probability(self.delta, "delta"),
            "smoothness": self._if_given("smoothness", checks.positive, "leave it out to measure it"),
            "hessian_lipschitz": self._if_given(
                "hessian_lipschitz", checks.not_negative, "leave it out if it is not known"
            ),
            "basis": self._if_given("basis", checks.count, 3),
            "max_gradients": self._if_given("max_gradients", checks.count),
            "accuracy": checks.positive(self.accuracy, "accuracy"),
            "probe_radius": self._if_given("probe_radius", checks.positive, "leave it out to have the noise measured"),
            "smallest_radius": self._if_given(
                "smallest_radius", checks.positive, "leave it out to have it follow the norm of x"
            ),
            "seed": checks.seed(self.seed),
        }
        for name, value in checked.items():  # Python's own numbers: NumPy's float32 would round what it meets.
            object.__setattr__(self, name, value)

    def _if_given(self, name: str, check: Callable[..., Any], *how: Any) -> Any:
        value = getattr(self, name)
        return None if value is None else check(value, name, *how)

    def gamma_at(self, smoothness: float) -> float:
        """γ, given or relative to L1."""
        return RELATIVE_GAMMA * smoothness if self.gamma is None else self.gamma

    def sample_size(self, objective: Objective) -> int | None:
        """|S| as asked for; by default None, which is everything, or `STREAM_SAMPLES` of a stream."""
        n = objective.num_samples
        if self.samples is None:
            return STREAM_SAMPLES if n is None else None
        size = checks.count(self.samples, "samples")
        if n is not None and size > n:
            raise ValueError(f"samples must be at most n = {n}, got {size}; leave it out to take everything")
        return size
