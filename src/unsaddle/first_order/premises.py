"""The constants that Theorem 3 and its corollaries take as known."""

from __future__ import annotations

from dataclasses import dataclass

from unsaddle.options import Options
from unsaddle.theory import extraction, framework


@dataclass(frozen=True, kw_only=True)
class ProblemConstants:
    """Constants of F. Letters: L1 = `smoothness`, L2 = `hessian_lipschitz`, V = `variance`, G = `sub_gaussian`."""

    smoothness: float
    hessian_lipschitz: float
    variance: float = 0.0
    sub_gaussian: float = 0.0

    def direction_fraction(self, *, dimension: int, gamma: float, delta: float) -> float:
        """c of Lemma 2: a direction found on samples has curvature −cγ or less."""
        ell = extraction.sampled_log_factor(dimension=dimension, smoothness=self.smoothness, gamma=gamma, delta=delta)
        return extraction.sampling_accuracy(log_factor=ell)


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
