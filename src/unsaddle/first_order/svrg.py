"""SVRG for non-convex finite sums (Reddi, Hefny, Sra, Póczos and Smola 2016), with which NEON-SVRG is made."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from unsaddle.first_order.anchor import Anchor, anchor_at
from unsaddle.first_order.method import Local, guarded
from unsaddle.first_order.variance_reduced import InnerLoop, descend
from unsaddle.objective import Objective


@dataclass
class Svrg:
    """SVRG with measured constants: the anchor is the whole sum, an epoch has n/b steps.

        b = 0.2·n^{2/3},   η = 0.5/L1,   m = n/b

    An epoch that raises F is undone (`guarded`). y and z are the last iterate; the theory's y is a random one, which
    costs half as much again. Cost: n + 2bm component gradients an epoch, and n values.
    """

    batch_size: int | None = None
    step_size: float | None = None
    num_steps: int | None = None

    def test_size(self, local: Local) -> int | None:
        return None

    def advance(
        self, objective: Objective, x: Tensor, seen: Anchor | None, local: Local, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        seen = anchor_at(objective, x, None, generator) if seen is None else seen
        b = math.ceil(0.2 * seen.samples ** (2.0 / 3.0)) if self.batch_size is None else self.batch_size
        loop = InnerLoop(
            batch_size=b,
            step_size=0.5 / local.smoothness if self.step_size is None else self.step_size,
            num_steps=math.ceil(seen.samples / b) if self.num_steps is None else self.num_steps,
        )
        x, secant = descend(objective, seen.x, seen.gradient, loop, generator)
        x = guarded(seen, x, local, secant) if self.step_size is None else x
        return x, x

    def forget(self) -> None:
        pass
