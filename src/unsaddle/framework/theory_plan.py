"""NEON-A with the constants of Theorem 3 and its corollaries: to check the theory, as its runs take too long."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.curvature.extract import answer
from unsaddle.curvature.question import Question
from unsaddle.curvature.registry import EXTRACTORS
from unsaddle.curvature.result import Status
from unsaddle.escape import steps as escape
from unsaddle.first_order.anchor import Anchor, anchor_at, at_most
from unsaddle.first_order.method import FirstOrderMethod, Local
from unsaddle.first_order.premises import ProblemConstants
from unsaddle.framework.plan import Evidence, weighed
from unsaddle.judgement.judge import judge
from unsaddle.options import Options
from unsaddle.run import Ending, Run, RunEnded
from unsaddle.theory import extraction


@dataclass(frozen=True, kw_only=True)
class TheoryPlan:
    """NEON-A with the constants of the theorems.

    - *Test*: |S| = 8G²(1 + 8·log(1/δ))/ε² (Lemma 3), or everything if that is less. The gradient is then known to ε/2.
      The test switches at a true norm in [ε/2, 3ε/2], and the target of 𝒜 is ε/2 (E18).
    - *Extraction*: NEON or NEON⁺ with the settings of its theorem, on Lemma 2's |S2|.
    - *Escape*: cγ/L2 with a random sign, eq. (9).
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
        name = "neon+" if self.options.extractor == "auto" else self.options.extractor
        unbounded, theory = math.isinf(run.ledger.limit), EXTRACTORS[name].has_theory
        if theory and unbounded:
            raise ValueError(f"settings='theory' gives {name} more steps than can be waited for; pass max_samples")
        gamma, delta = self._gamma, self.options.delta
        needed = extraction.sample_size(
            dimension=vectors.dimension(y), smoothness=self.constants.smoothness, gamma=gamma, delta=delta
        )
        size = at_most(needed, run.num_samples)
        question = Question(
            gamma=gamma,
            extractor=name,
            samples=size,
            delta=delta,
            smoothness=self.constants.smoothness,
            hessian_lipschitz=self.constants.hessian_lipschitz,
            max_gradients=None if unbounded else max(1, int(run.ledger.left)),
            seed=int(torch.randint(2**31, (), generator=run.generator)),
            theory=theory,
        )
        found = answer(run.objective, y, question, run.ledger)
        if found.status is Status.BUDGET_SPENT:
            raise RunEnded(Ending.BUDGET_SPENT)
        return weighed(found, judge(found), size)

    def escape(self, run: Run, y: Tensor, seen: Anchor, found: Evidence) -> Tensor | None:
        assert found.direction is not None
        known, gamma, dimension = self.constants, self._gamma, vectors.dimension(y)
        c = known.direction_fraction(dimension=dimension, gamma=gamma, delta=self.options.delta)
        length = extraction.escape_length(fraction=c, gamma=gamma, hessian_lipschitz=known.hessian_lipschitz)
        return escape.at_random(y, found.direction, length, run.generator)

    def recover(self, run: Run, local: Local) -> bool:
        return False
