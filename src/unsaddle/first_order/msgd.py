"""Mini-batch SGD, eq. (18) and Corollary 2: one step on a batch so large that its gradient is accurate."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from unsaddle.first_order.anchor import Anchor, anchor_at, at_most
from unsaddle.first_order.method import FAILURE, SUCCESS, FirstOrderMethod, Local, Pair, Plain
from unsaddle.first_order.premises import Premises
from unsaddle.objective import Objective
from unsaddle.options import check_settings
from unsaddle.theory import framework

BACKTRACKS = 40


def corollary_2(premises: Premises) -> Plain:
    """y = x, z = x − ∇F_S(x)/L1 with |S| = 2V/ε²."""
    known = premises.constants
    size = at_most(framework.msgd_sample_size(eps=premises.eps, variance=known.variance), premises.num_samples)

    def run(objective: Objective, x: Tensor, generator: Generator) -> Pair:
        g = objective.sample(size, generator).grad(x)
        return x, torch.sub(x, g, alpha=1.0 / known.smoothness)

    return run


@dataclass(kw_only=True)
class Msgd(FirstOrderMethod):
    """Mini-batch SGD with measured constants: z = x − h/L1 with h = ∇F_S1(x), |S1| = 2V/max(ε², ĝ²/4).

    L1 is doubled until F_S1 falls by ‖h‖²/(4·L1). The paper's y is x. Here y is z: the framework tests on S1, so the
    tests are the same, one step later. Cost: |S1| component gradients, and |S1| values for each L1 tried.
    """

    batch_size: int | None = None
    step_size: float | None = None

    theory = staticmethod(corollary_2)

    def __post_init__(self) -> None:
        check_settings(self, positive=("step_size",), counts=("batch_size",), hint="leave it out to have it follow L1")

    def test_size(self, local: Local) -> int | None:
        return local.samples_for(2.0, at_least=16) if self.batch_size is None else self.batch_size

    def advance(self, objective: Objective, x: Tensor, seen: Anchor | None, local: Local, generator: Generator) -> Pair:
        seen = anchor_at(objective, x, self.test_size(local), generator) if seen is None else seen
        if self.step_size is not None:
            z = torch.sub(seen.x, seen.gradient, alpha=self.step_size)
            return z, z
        squared = seen.norm**2
        for _ in range(BACKTRACKS):
            z = torch.sub(seen.x, seen.gradient, alpha=1.0 / local.smoothness)
            if seen.value_at(z) <= seen.value - 0.25 * squared / local.smoothness + seen.rounding:
                local.smoothness *= SUCCESS
                return z, z
            local.smoothness *= FAILURE
        return seen.x, seen.x  # No step in the precision of x lowers F_S.
