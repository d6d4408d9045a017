"""SVRG for non-convex finite sums (Reddi, Hefny, Sra, Póczos and Smola 2016), the method in NEON-SVRG."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from unsaddle import checks
from unsaddle.first_order.anchor import Anchor, anchor_at
from unsaddle.first_order.method import FirstOrderMethod, Local, Pair, Plain, guarded
from unsaddle.first_order.premises import Premises
from unsaddle.first_order.variance_reduced import InnerLoop, descend
from unsaddle.objective import Objective
from unsaddle.options import check_settings
from unsaddle.theory import framework


def reddi(premises: Premises, *, batch_size: int = 1) -> Plain:
    """An epoch with the step and the length of Reddi et al.'s theorem: y is a random inner iterate, z the last one."""
    assert premises.num_samples is not None
    checks.count(batch_size, "batch_size")
    sizes = {"population": premises.num_samples, "batch_size": batch_size}
    step = framework.svrg_step_size(smoothness=premises.constants.smoothness, **sizes)
    loop = InnerLoop(batch_size=batch_size, step_size=step, num_steps=framework.svrg_num_steps(**sizes))

    def run(objective: Objective, x: Tensor, generator: Generator) -> Pair:
        h = objective.sample().grad(x).clone()
        choose = int(torch.randint(loop.num_steps, (), generator=generator, device=generator.device))
        done = descend(objective, x, h, loop, generator, choose=choose)
        return done.chosen, done.last

    return run


@dataclass(kw_only=True)
class Svrg(FirstOrderMethod):
    """SVRG with measured constants. The anchor is the whole sum.

        b = 0.2·n^{2/3},   η = 0.5/L1,   m = n/b

    `guarded` undoes an epoch that raises F. y and z are the last iterate. The theory's y, a random iterate, costs half
    as much again. Cost of an epoch: n + 2bm component gradients, and n values.
    """

    batch_size: int | None = None
    step_size: float | None = None
    num_steps: int | None = None

    needs_finite_sum = True
    theory = staticmethod(reddi)

    def __post_init__(self) -> None:
        counts = ("batch_size", "num_steps")
        check_settings(self, positive=("step_size",), counts=counts, hint="leave it out to have it follow L1")

    def test_size(self, local: Local) -> int | None:
        return None

    def advance(self, objective: Objective, x: Tensor, seen: Anchor | None, local: Local, generator: Generator) -> Pair:
        seen = anchor_at(objective, x, None, generator) if seen is None else seen
        b = math.ceil(0.2 * seen.samples ** (2.0 / 3.0)) if self.batch_size is None else self.batch_size
        loop = InnerLoop(
            batch_size=b,
            step_size=0.5 / local.smoothness if self.step_size is None else self.step_size,
            num_steps=math.ceil(seen.samples / b) if self.num_steps is None else self.num_steps,
        )
        done = descend(objective, seen.x, seen.gradient, loop, generator)
        x = guarded(seen, done.last, local, done.secant) if self.step_size is None else done.last
        return x, x
