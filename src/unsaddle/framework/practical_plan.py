"""NEON-A with measured constants."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from torch import Tensor

from unsaddle import vectors
from unsaddle.curvature.krylov.smoothness import smoothness
from unsaddle.escape import steps as escape
from unsaddle.first_order.anchor import Anchor, anchor_at
from unsaddle.first_order.method import FirstOrderMethod, Local
from unsaddle.framework.plan import Evidence
from unsaddle.framework.sampled_extraction import until_decided
from unsaddle.options import Options
from unsaddle.run import Ending, Run, RunEnded
from unsaddle.theory import extraction
from unsaddle.theory.quadratics import stationary_gradient

FIRST_SAMPLES = 64
"""The number of samples that measure V at the start and after an escape."""

TEST_FACTOR = 4.0
"""A decisive first-order test has TEST_FACTOR·V/ε² samples: a standard error of ε/2."""

RECOVERIES = 20
"""Rounds between two escapes that may end in numbers that are not finite, before the run counts as divergent."""

ESCAPES = ("line search", "measured", "gradient", "random")


@dataclass
class PracticalPlan:
    """NEON-A with measured constants. None has to be given.

    - *Test*: V and ĝ of the last test give the size of the next. A test that reads below 1.5ε but does not pass is
      repeated on 4V/ε² samples. After such a repetition fails, 1, 3, 7, … rounds pass before another one.
    - *Extraction*: on 128 samples, then on four times as many until it decides (`until_decided`).
    - *Escape*: the better of both signs. The step is doubled while the value on fresh samples falls. The other ways
      take 2q/L2 along a measured curvature −q, not cγ/L2: "measured" with the better sign, "gradient" with that of eq.
      (8), "random" with that of eq. (9).
    """

    options: Options
    escape_by: str = "line search"
    hessian_lipschitz: float | None = None
    """L2. Only the line search does not need it."""
    fixed_step: bool = False
    """Whether the caller gave the step size, so that a larger L1 would not change it."""
    _failed_tests: int = field(default=0, repr=False)
    _rounds_to_wait: int = field(default=0, repr=False)
    _recoveries: int = field(default=0, repr=False)

    def __post_init__(self) -> None:
        if self.escape_by not in ESCAPES:
            raise ValueError(f"escape must be one of {', '.join(ESCAPES)}; got {self.escape_by!r}")
        if self.escape_by != "line search" and self.hessian_lipschitz is None:
            raise ValueError(f"escape={self.escape_by!r} needs hessian_lipschitz; give it, or use escape='line search'")

    def begin(self, run: Run, x: Tensor, local: Local) -> None:
        n, self._recoveries = run.num_samples, 0
        size = None if n is not None and n <= 2 * FIRST_SAMPLES else FIRST_SAMPLES
        first = anchor_at(run.objective, x, size, run.generator)
        local.variance = 0.0 if first.everything else first.variance
        local.gradient_norm = first.norm
        finite = first.is_finite and math.isfinite(local.variance)
        if finite and run.escapes:  # A run that ends from here on returns x, not the saddle.
            error = math.sqrt(first.squared_error)
            run.checked(x, value=first.value, gradient_norm=first.norm, gradient_error=error, note="after an escape")
        measured = smoothness(run.objective, x, run.generator) if finite else math.nan
        if not math.isfinite(measured):
            raise RunEnded(Ending.DIVERGED if run.escapes else Ending.NOT_FINITE)
        # If the Hessian vanishes, any first step will do. The guards of the methods correct it.
        local.smoothness = measured if measured > 0.0 else max(1.0, first.norm)
        if self.options.eps_follows_smoothness:
            run.eps = local.eps = stationary_gradient(smoothness=local.smoothness, x_norm=vectors.norm(x))

    def test(self, run: Run, y: Tensor, method: FirstOrderMethod, local: Local) -> Anchor:
        seen = anchor_at(run.objective, y, method.test_size(local), run.generator)
        self._learn(seen, local)
        if seen.everything or seen.passes(run.eps) or not seen.may_pass(run.eps):
            return seen
        if self._rounds_to_wait > 0:
            self._rounds_to_wait -= 1
            return seen
        at_zero = Local(run.eps, run.num_samples, variance=local.variance, gradient_norm=0.0)
        size = at_zero.samples_for(TEST_FACTOR, at_least=seen.samples)
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
        return until_decided(run, y, self.options)

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
        return escape.better_sign(run.objective.sample(found.samples, run.generator), y, v, length)

    def recover(self, run: Run, local: Local) -> bool:
        if self.fixed_step or self._recoveries == RECOVERIES:
            return False
        self._recoveries += 1
        local.smoothness *= 8.0
        return True
