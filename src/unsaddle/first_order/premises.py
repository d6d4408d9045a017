"""The constants that Theorem 3 and its corollaries take as known."""

from __future__ import annotations

from dataclasses import dataclass

from unsaddle import checks
from unsaddle.options import Options, check_settings
from unsaddle.theory import extraction, framework


@dataclass(frozen=True, kw_only=True)
class ProblemConstants:
    """Constants of F. Letters: L1 = `smoothness`, L2 = `hessian_lipschitz`, V = `variance`, G = `sub_gaussian`."""

    smoothness: float
    hessian_lipschitz: float
    variance: float = 0.0
    sub_gaussian: float = 0.0
    second_moment: float | None = None
    """σ² ≥ E‖∇f(x; ξ)‖² = ‖∇F(x)‖² + V at every x of the run: Corollary 1 needs it for heavy ball and Nesterov."""

    def __post_init__(self) -> None:
        check_settings(self, positive=("smoothness", "hessian_lipschitz", "second_moment"))
        for name in ("variance", "sub_gaussian"):
            checks.not_negative(getattr(self, name), name)
        if self.second_moment is not None and self.second_moment < self.variance:
            raise ValueError(
                f"second_moment must be at least variance = {self.variance}, got {self.second_moment}; it bounds "
                "E‖∇f‖² = ‖∇F‖² + V"
            )

    def extraction_delta(self, *, dimension: int, gamma: float, delta: float) -> float:
        """δ of an extraction in NEON-A: δ as given, but at most cγ/(2(cγ + L1)) (proof of Theorem 3)."""
        return framework.extraction_failure_probability(
            delta=delta, gamma=gamma, smoothness=self.smoothness, dimension=dimension
        )

    def direction_fraction(self, *, dimension: int, gamma: float, delta: float) -> float:
        """c of Lemma 2 at `extraction_delta`: a direction found on samples has curvature −cγ or less."""
        delta = self.extraction_delta(dimension=dimension, gamma=gamma, delta=delta)
        return extraction.sampled_fraction(dimension=dimension, smoothness=self.smoothness, gamma=gamma, delta=delta)


@dataclass(frozen=True, kw_only=True)
class Premises:
    """The input of a corollary, which gives the constants of a first-order method. n = `num_samples`, or None."""

    options: Options
    constants: ProblemConstants
    num_samples: int | None

    @property
    def eps(self) -> float:
        """The method's target: half of the ε of the test (E18)."""
        return framework.first_order_target(eps=self.options.eps)

    @property
    def gamma(self) -> float:
        if self.options.gamma is None:
            raise ValueError("settings='theory' needs gamma; give it, or use settings='practical'")
        return self.options.gamma

    def escape_constant(self, dimension: int) -> float:
        """C of Theorem 3, with the c of Lemma 2."""
        c = self.constants.direction_fraction(dimension=dimension, gamma=self.gamma, delta=self.options.delta)
        return framework.escape_constant(fraction=c, hessian_lipschitz=self.constants.hessian_lipschitz)
