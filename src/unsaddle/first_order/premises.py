"""What Theorem 3 and its corollaries take as known."""

from __future__ import annotations

from dataclasses import dataclass

from unsaddle.first_order.anchor import at_most
from unsaddle.options import Options
from unsaddle.theory import extraction, framework


@dataclass(frozen=True, kw_only=True)
class ProblemConstants:
    """What the theorems take as known."""

    smoothness: float
    """L1."""
    hessian_lipschitz: float
    """L2."""
    variance: float = 0.0
    """V."""
    sub_gaussian: float = 0.0
    """G."""


@dataclass(frozen=True, kw_only=True)
class Premises:
    """What a corollary has a first-order method's constants from."""

    options: Options
    constants: ProblemConstants
    num_samples: int | None
    """n, or None."""

    @property
    def eps(self) -> float:
        """The target that the method is called with: half of the ε of the test (E18)."""
        return framework.first_order_target(eps=self.options.eps)

    @property
    def gamma(self) -> float:
        if self.options.gamma is None:
            raise ValueError("settings='theory' needs gamma; give it, or use settings='practical'")
        return self.options.gamma

    def at_most(self, size: int) -> int | None:
        """The size, or None for everything where that is no more."""
        return at_most(size, self.num_samples)

    def escape_constant(self, dimension: int) -> float:
        """C, with the c that Lemma 2 promises of a direction found on samples."""
        ell = extraction.sampled_log_factor(
            dimension=dimension, smoothness=self.constants.smoothness, gamma=self.gamma, delta=self.options.delta
        )
        fraction = extraction.sampling_accuracy(log_factor=ell)
        return framework.escape_constant(fraction=fraction, hessian_lipschitz=self.constants.hessian_lipschitz)
