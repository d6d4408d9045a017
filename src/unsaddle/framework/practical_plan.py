"""NEON-A with constants that are measured."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.curvature.extract import answer
from unsaddle.curvature.krylov.smoothness import smoothness
from unsaddle.curvature.question import Question
from unsaddle.curvature.result import Curvature, Status
from unsaddle.escape import steps as escape
from unsaddle.first_order.anchor import Anchor, anchor_at
from unsaddle.first_order.method import FirstOrderMethod, Local
from unsaddle.framework.plan import Evidence, weighed
from unsaddle.judgement.judge import judge
from unsaddle.judgement.minimum import SAMPLE_MARGIN
from unsaddle.judgement.sampling_error import hessian_error
from unsaddle.options import Options
from unsaddle.run import Ending, Run, RunEnded
from unsaddle.theory import extraction
from unsaddle.theory.quadratics import stationary_gradient

FIRST_SAMPLES = 64
"""Samples that V is measured from at the start and after an escape."""

FIRST_EXTRACTION, GROWTH, LARGEST_EXTRACTION = 128, 4, 128 * 4**6
"""|S2| of the first extraction, what it is multiplied by where it does not decide, and the largest of a stream."""

EXTRACTIONS = 100
"""δ is that of a run of up to so many extractions, at each of which a saddle could be taken for a minimum."""

TEST_FACTOR = 4.0
"""A first-order test that decides takes TEST_FACTOR·V/ε² samples: a standard error of ε/2."""

RECOVERIES = 20
"""Rounds that may end in infinity, between two escapes, before the run is called divergent."""

ESCAPES = ("line search", "measured", "gradient", "random")


@dataclass
class PracticalPlan:
    """Every constant from what is seen; nothing has to be given.

    - *Test*: V and ĝ of the last look size the next; one that reads below 1.5ε without deciding is repeated on 4V/ε²
      samples. After a larger test that fails, 1, 3, 7, … rounds pass before the next, so that tests stay a small share.
    - *Extraction*: on 128 samples, then four times as many until it decides. Directions are confirmed on fresh batches;
      "nothing" counts when the Hessian's sampling error along the lowest directions leaves λ_min above −γ.
    - *Escape*: the better of both signs, then doubled while the value on fresh samples falls.
    """

    options: Options
    escape_by: str = "line search"
    hessian_lipschitz: float | None = None
    """L2, which every other escape needs."""
    fixed_step: bool = False
    """Whether the caller gave the step size, so that there is nothing to make more careful."""
    _failed_tests: int = field(default=0, repr=False)
    _rounds_to_wait: int = field(default=0, repr=False)
    _recoveries: int = field(default=0, repr=False)

    def __post_init__(self) -> None:
        if self.escape_by not in ESCAPES:
            raise ValueError(f"escape must be one of {', '.join(ESCAPES)}; got {self.escape_by!r}")
        if self.escape_by != "line search" and self.hessian_lipschitz is None:
            raise ValueError(f"escape={self.escape_by!r} needs hessian_lipschitz; give it, or use escape='line search'")

    def begin(self, run: Run, x: Tensor, local: Local) -> None:
        n = run.num_samples
        self._recoveries = 0
        size = None if n is not None and n <= 2 * FIRST_SAMPLES else FIRST_SAMPLES
        first = anchor_at(run.objective, x, size, run.generator)
        local.variance = 0.0 if first.everything else first.variance
        local.gradient_norm = first.norm
        finite = first.is_finite and math.isfinite(local.variance)
        if finite and run.escapes:  # From here on a run that is ended has more to return than the saddle.
            error = math.sqrt(first.squared_error)
            run.checked(x, value=first.value, gradient_norm=first.norm, gradient_error=error, note="after an escape")
        measured = smoothness(run.objective, x, run.generator) if finite else math.nan
        if not math.isfinite(measured):
            raise RunEnded(Ending.DIVERGED if run.escapes else Ending.NOT_FINITE)
        # Where the Hessian vanishes, any step will do to begin with; the guards of the methods see to the rest.
        local.smoothness = measured if measured > 0.0 else max(1.0, first.norm)
        if self.options.eps_follows_smoothness:
            run.eps = local.eps = stationary_gradient(smoothness=local.smoothness, x_norm=vectors.norm(x))

    def test(self, run: Run, y: Tensor, method: FirstOrderMethod, local: Local) -> Anchor:
        seen = anchor_at(run.objective, y, method.test_size(local), run.generator)
        self._learn(seen, local)
        undecided = not seen.everything and not seen.passes(run.eps) and seen.may_pass(run.eps)
        if not undecided:
            return seen
        if self._rounds_to_wait > 0:
            self._rounds_to_wait -= 1
            return seen
        size = Local(run.eps, run.num_samples, variance=local.variance, gradient_norm=0.0).samples_for(
            TEST_FACTOR, at_least=seen.samples
        )
        if size is not None and size <= seen.samples:
            return seen
        seen = anchor_at(run.objective, y, size, run.generator)
        self._learn(seen, local)
        self._failed_tests = 0 if seen.passes(run.eps) else self._failed_tests + 1
        self._rounds_to_wait = 2**self._failed_tests - 1
        return seen

    def _learn(self, seen: Anchor, local: Local) -> None:
        local.gradient_norm = math.sqrt(max(0.0, seen.norm**2 - seen.squared_error))
        if not seen.everything and math.isfinite(seen.variance):
            local.variance = seen.variance

    def is_small(self, run: Run, seen: Anchor) -> bool:
        return seen.passes(run.eps)

    def extract(self, run: Run, y: Tensor) -> Evidence:
        n = run.num_samples
        size: int | None = FIRST_EXTRACTION
        while True:
            if n is not None and size is not None and 2 * size > n:
                size = None
            question = Question(
                gamma=self.options.gamma,
                sample_margin=SAMPLE_MARGIN,
                extractor=self.options.extractor,
                samples=size,
                delta=self.options.delta / (2.0 * EXTRACTIONS),
                seed=int(torch.randint(2**31, (), generator=run.generator)),
            )
            found, slack = answer(run.objective, y, question, run.ledger), 0.0
            if size is not None and found.status is Status.NOTHING_FOUND:
                slack = hessian_error(run.objective, y, found, size, self.options.delta / 2.0, run.generator).slack
            evidence = weighed(found, judge(found, slack=slack), size, slack, self._eps_at(y, found))
            if evidence.decided or size is None or size >= LARGEST_EXTRACTION:
                return evidence
            size *= GROWTH

    def _eps_at(self, y: Tensor, found: Curvature) -> float:
        if not self.options.eps_follows_smoothness:
            return math.nan
        return stationary_gradient(smoothness=found.smoothness, x_norm=vectors.norm(y))

    def escape(self, run: Run, y: Tensor, seen: Anchor, found: Evidence) -> Tensor | None:
        assert found.direction is not None
        v, q = found.direction, -found.curvature
        if self.escape_by == "line search":
            f = run.objective.sample(found.samples, run.generator)
            return escape.by_line_search(f, y, v, curvature=q, first_length=4.0 * found.radius)
        assert self.hessian_lipschitz is not None
        length = extraction.measured_escape_length(curvature=-q, hessian_lipschitz=self.hessian_lipschitz)
        if self.escape_by == "random":
            return escape.at_random(y, v, length, run.generator)
        if self.escape_by == "gradient":
            return escape.against_gradient(y, v, seen.gradient, length)
        f = run.objective.sample(found.samples, run.generator)
        return escape.better_sign(f, y, v, length)

    def recover(self, run: Run, local: Local) -> bool:
        if self.fixed_step or self._recoveries == RECOVERIES:
            return False
        self._recoveries += 1
        local.smoothness *= 8.0
        return True
