"""Natasha1.5 (Allen-Zhu 2017) as a method that NEON-A promotes: NEON-Natasha."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from unsaddle.first_order.anchor import Anchor, anchor_at
from unsaddle.first_order.method import Local, guarded
from unsaddle.first_order.natasha15 import Natasha15Settings, natasha15_epoch
from unsaddle.objective import Objective

SUB_EPOCHS = 2


@dataclass
class Natasha:
    """Natasha1.5 with measured constants: SCSG's anchor and batch, p = 2 sub-epochs, σ = 0.1·L1.

        α = 0.5/(L1 + 2σ),   m = |S1|/(b·p)

    An epoch that raises F_S1 is undone (`guarded`). Cost: |S1| + 2b·m·p component gradients, and |S1| values.
    """

    batch_size: int | None = None
    step_size: float | None = None
    anchor_size: int | None = None
    sigma: float | None = None

    def test_size(self, local: Local) -> int | None:
        return local.samples_for(4.0, at_least=64) if self.anchor_size is None else self.anchor_size

    def advance(
        self, objective: Objective, x: Tensor, seen: Anchor | None, local: Local, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        seen = anchor_at(objective, x, self.test_size(local), generator) if seen is None else seen
        b = math.ceil(0.2 * seen.samples ** (2.0 / 3.0)) if self.batch_size is None else self.batch_size
        sigma = 0.1 * local.smoothness if self.sigma is None else self.sigma
        settings = Natasha15Settings(
            step_size=0.5 / (local.smoothness + 2.0 * sigma) if self.step_size is None else self.step_size,
            sigma=sigma,
            sub_epochs=SUB_EPOCHS,
            steps=math.ceil(seen.samples / (b * SUB_EPOCHS)),
            batch_size=b,
        )
        x, _ = natasha15_epoch(objective, seen.x, seen.gradient, settings, generator)
        x = guarded(seen, x, local) if self.step_size is None else x
        return x, x

    def forget(self) -> None:
        pass
