"""What is asked of an extractor, in one piece."""

from __future__ import annotations

from dataclasses import dataclass

from unsaddle import checks
from unsaddle.objective import Objective

RELATIVE_GAMMA = 1e-2
"""γ by default, as a share of L1."""

STREAM_SAMPLES = 1024
"""Samples drawn from a stream by default."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """Is there curvature below −γ at x? With everything that may be said about how to look for it.

    Every field has a default that works; each is checked when the question is made.

    >>> Question(gamma=0.1).gamma_at(smoothness=4.0), Question().gamma_at(smoothness=4.0)
    (0.1, 0.04)
    """

    gamma: float | None = None
    """γ, the curvature sought in F. None for `RELATIVE_GAMMA` of the largest |eigenvalue| that is seen."""
    sample_margin: float = 0.0
    """On samples this share of γ is left to the difference between F_S and F, and (1 − margin)·γ is looked for."""
    delta: float = 0.05
    """δ, the probability that an unlucky random start hides it."""
    extractor: str = "auto"
    """A name of the registry, or "auto"."""
    samples: int | None = None
    """|S|; None for everything, or for `STREAM_SAMPLES` where samples never run out."""
    smoothness: float | None = None
    """L1; None to have it measured where it is needed."""
    hessian_lipschitz: float | None = None
    """L2; None where it is not known."""
    basis: int | None = None
    """Vectors that krylov may hold; None to let memory decide."""
    max_gradients: int | None = None
    """A bound on the gradients plus Hessian products of this call."""
    probe_radius: float | None = None
    """A distance at which krylov may take f to be quadratic. It is tried first, without measuring the noise."""
    smallest_radius: float | None = None
    """A distance below which krylov does not probe, and at which it measures the noise; None to have it follow ‖x‖."""
    theory: bool = False
    """Constants of the theorems instead of usable ones."""
    keep_history: bool = False
    """Keep (gradients or products spent, quotient) for each step."""
    seed: int = 0
    """Of the samples and the random start."""

    def __post_init__(self) -> None:
        if self.gamma is not None:
            checks.positive(self.gamma, "gamma", "leave it out to take a hundredth of L1")
        checks.probability(self.delta, "delta")
        if self.smoothness is not None:
            checks.positive(self.smoothness, "smoothness", "leave it out to measure it")
        if self.hessian_lipschitz is not None:
            checks.not_negative(self.hessian_lipschitz, "hessian_lipschitz", "leave it out if it is not known")
        if self.basis is not None:
            checks.count(self.basis, "basis", at_least=3)
        if self.max_gradients is not None:
            checks.count(self.max_gradients, "max_gradients")
        if self.probe_radius is not None:
            checks.positive(self.probe_radius, "probe_radius", "leave it out to have the noise measured")
        if self.smallest_radius is not None:
            checks.positive(self.smallest_radius, "smallest_radius", "leave it out to have it follow the norm of x")
        checks.count(self.seed, "seed", at_least=0)

    def gamma_at(self, smoothness: float) -> float:
        """γ, given or relative to L1."""
        return RELATIVE_GAMMA * smoothness if self.gamma is None else self.gamma

    def sample_size(self, objective: Objective) -> int | None:
        """|S| as asked for; without that everything, or a default where there is no end to samples."""
        n = objective.num_samples
        if self.samples is not None and n is not None and checks.count(self.samples, "samples") > n:
            raise ValueError(f"samples must be at most n = {n}, got {self.samples}; leave it out to take everything")
        if self.samples is not None:
            return checks.count(self.samples, "samples")
        return STREAM_SAMPLES if n is None else None
