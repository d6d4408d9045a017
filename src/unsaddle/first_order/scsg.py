"""SCSG (Lei, Ju, Chen and Jordan 2017), the method in NEON-SCSG: Corollary 3 and the supplement's SCSG-epoch."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from unsaddle import checks, vectors
from unsaddle.first_order.anchor import Anchor, anchor_at
from unsaddle.first_order.method import FirstOrderMethod, Local, Pair, Plain, guarded
from unsaddle.first_order.premises import Premises
from unsaddle.first_order.variance_reduced import Descent, InnerLoop, descend
from unsaddle.objective import Objective
from unsaddle.options import check_settings
from unsaddle.theory import framework

LONGEST = 10.0
"""The longest epoch, in units of the mean. The geometric law has no bound."""


def epoch_length(anchor_size: int, batch_size: int, generator: Generator) -> int:
    """N with P(N = k) = (B/(B+b))^k · b/(B+b), k = 0, 1, …. Its mean is B/b (E13). It is cut off at ten times that.

    >>> random = torch.Generator().manual_seed(0)
    >>> lengths = [epoch_length(100, 10, random) for _ in range(2000)]
    >>> abs(sum(lengths) / 2000 - 10) < 1
    True
    """
    uniform = 1.0 - float(torch.rand((), generator=generator, dtype=torch.float64, device=generator.device))
    ratio = anchor_size / (anchor_size + batch_size)
    return min(math.floor(math.log(uniform) / math.log(ratio)), math.ceil(LONGEST * anchor_size / batch_size))


def scsg_epoch(
    objective: Objective, seen: Anchor, *, batch_size: int, step_size: float, generator: Generator
) -> Descent:
    """One epoch from an anchor at x₀ on the samples S1.

        h = ∇F_S1(x₀);  N geometric with mean |S1|/b;  N steps of `descend`

    Cost, with the anchor: |S1| + 2bN component gradients, 3|S1| in expectation (E14).
    """
    num_steps = epoch_length(seen.samples, batch_size, generator)
    loop = InnerLoop(batch_size=batch_size, step_size=step_size, num_steps=num_steps)
    return descend(objective, seen.x, seen.gradient, loop, generator)


def corollary_3(premises: Premises, *, batch_size: int = 1) -> Plain:
    """y = z = the end of an epoch. The anchor's size and the step follow from ε, γ, V and L1."""
    known = premises.constants
    checks.count(batch_size, "batch_size")

    def run(objective: Objective, x: Tensor, generator: Generator) -> Pair:
        size = framework.scsg_anchor_size(
            eps=premises.eps,
            gamma=premises.gamma,
            batch_size=batch_size,
            variance=known.variance,
            smoothness=known.smoothness,
            escape_constant=premises.escape_constant(vectors.dimension(x)),
            population=premises.num_samples,
        )
        step = framework.scsg_step_size(anchor_size=size, batch_size=batch_size, smoothness=known.smoothness)
        seen = anchor_at(objective, x, size, generator)
        last = scsg_epoch(objective, seen, batch_size=batch_size, step_size=step, generator=generator).last
        return last, last

    return run


@dataclass(kw_only=True)
class Scsg(FirstOrderMethod):
    """SCSG with measured constants.

        |S1| = max(64, 4V/max(ε², ĝ²/4)),   b = 0.2·|S1|^{2/3},   η = 0.5/L1

    `guarded` undoes an epoch that raises F_S1. The paper's |S1| ≥ 12V/ε² is more than most data sets have. While the
    gradient is large, far fewer samples show its direction.
    """

    batch_size: int | None = None
    step_size: float | None = None
    anchor_size: int | None = None

    theory = staticmethod(corollary_3)

    def __post_init__(self) -> None:
        counts = ("batch_size", "anchor_size")
        check_settings(self, positive=("step_size",), counts=counts, hint="leave it out to have it follow L1")

    def test_size(self, local: Local) -> int | None:
        return local.samples_for(4.0, at_least=64) if self.anchor_size is None else self.anchor_size

    def advance(self, objective: Objective, x: Tensor, seen: Anchor | None, local: Local, generator: Generator) -> Pair:
        seen = anchor_at(objective, x, self.test_size(local), generator) if seen is None else seen
        b = math.ceil(0.2 * seen.samples ** (2.0 / 3.0)) if self.batch_size is None else self.batch_size
        step_size = 0.5 / local.smoothness if self.step_size is None else self.step_size
        done = scsg_epoch(objective, seen, batch_size=b, step_size=step_size, generator=generator)
        x = guarded(seen, done.last, local, done.secant) if self.step_size is None else done.last
        return x, x
