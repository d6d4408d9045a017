"""NEON-A with the constants of Theorem 3 and its corollaries: to check the theory, as its runs take too long."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from unsaddle import vectors
from unsaddle.escape import steps as escape
from unsaddle.first_order.anchor import Anchor, anchor_at
from unsaddle.first_order.method import FirstOrderMethod, Local
from unsaddle.first_order.premises import ProblemConstants
from unsaddle.framework.plan import Evidence
from unsaddle.framework.sampled_extraction import by_lemma_2
from unsaddle.options import Options
from unsaddle.run import Run
from unsaddle.theory import extraction


@dataclass(frozen=True, kw_only=True)
class TheoryPlan:
    """NEON-A with the constants of the theorems.

    - *Test*: |S| = 8G²(1 + 8·log(1/δ))/ε² (Lemma 3), or everything if that is less. The gradient is then known to ε/2.
      The test switches at a true norm in [ε/2, 3ε/2], and the target of 𝒜 is ε/2 (E18).
    - *Extraction*: NEON or NEON⁺ with the settings of its theorem, on Lemma 2's |S2| (`by_lemma_2`). Its δ is at most
      cγ/(2(cγ + L1)), so that the escape gains in expectation, whether or not the extraction fails.
    - *Escape*: cγ/L2 with a random sign, eq. (9).

    δ is that of each test and of each extraction. The paper's "Claim" assumes a union bound over all iterations. Their
    number follows from F(x0) − min F and ε_𝒜 (`theory.framework.num_outer_iterations`), which are not asked for here. A
    caller who knows them divides δ by it.
    """

    options: Options
    constants: ProblemConstants

    def __post_init__(self) -> None:
        if self.options.gamma is None:
            raise ValueError("settings='theory' needs gamma; give it, or use settings='practical'")

    @property
    def _gamma(self) -> float:
        assert self.options.gamma is not None
        return self.options.gamma

    def begin(self, run: Run, x: Tensor, local: Local) -> None:
        local.smoothness, local.variance = self.constants.smoothness, self.constants.variance

    def test(self, run: Run, y: Tensor, method: FirstOrderMethod, local: Local) -> Anchor:
        size = None
        if self.constants.sub_gaussian > 0.0:
            size = extraction.gradient_sample_size(
                eps=self.options.eps / 2.0, sub_gaussian=self.constants.sub_gaussian, delta=self.options.delta
            )
        elif run.num_samples is None:
            raise ValueError("settings='theory' on a stream needs sub_gaussian, the scale of its gradients' noise")
        seen = anchor_at(run.objective, y, size, run.generator)
        local.gradient_norm = seen.norm
        return seen

    def is_small(self, run: Run, seen: Anchor) -> bool:
        return seen.norm <= self.options.eps

    def extract(self, run: Run, y: Tensor) -> Evidence:
        return by_lemma_2(run, y, self.options, self.constants)

    def escape(self, run: Run, y: Tensor, seen: Anchor, found: Evidence) -> Tensor | None:
        assert found.direction is not None
        known, gamma, dimension = self.constants, self._gamma, vectors.dimension(y)
        c = known.direction_fraction(dimension=dimension, gamma=gamma, delta=self.options.delta)
        length = extraction.escape_length(fraction=c, gamma=gamma, hessian_lipschitz=known.hessian_lipschitz)
        return escape.at_random(y, found.direction, length, run.generator)

    def recover(self, run: Run, local: Local) -> bool:
        return False
