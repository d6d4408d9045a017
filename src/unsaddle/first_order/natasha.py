"""Natasha1.5 (Allen-Zhu 2017) as a method that NEON-A promotes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from unsaddle import checks
from unsaddle.first_order.anchor import Anchor, anchor_at, at_most
from unsaddle.first_order.method import FirstOrderMethod, Local, Pair, Plain, guarded
from unsaddle.first_order.natasha15 import Natasha15Settings, natasha15_epoch
from unsaddle.first_order.premises import Premises
from unsaddle.objective import Objective
from unsaddle.options import check_settings
from unsaddle.theory import framework

SUB_EPOCHS = 2


def allen_zhu(premises: Premises, *, batch_size: int = 1, sigma: float | None = None) -> Plain:
    """An epoch of Natasha1.5 with the constants of Allen-Zhu's theorem: y is a random centre, z the last one.

    Departure: Natasha1.5 ends with SGD on F(x) + σ‖x − y‖², which bounds the gradient. Here NEON-A tests it instead.

    The theorem needs ∇²F ⪰ −σI along the whole epoch. Nothing here keeps the iterates where a test has excluded
    curvature below −γ. So σ is L1, which always holds and gives the rate of SCSG. A caller who knows a smaller one may
    give it. (Natasha 2 earns a smaller σ̃ by a penalty: it keeps an epoch near a point whose curvature was tested.)
    """
    known, n, eps = premises.constants, premises.num_samples, premises.eps
    scales = {"eps": eps, "smoothness": known.smoothness, "variance": known.variance}
    given = known.smoothness if sigma is None else checks.positive(sigma, "sigma", "leave it out to take L1")
    sigma = framework.natasha_convexity(sigma=given, **scales)
    size = at_most(framework.natasha_anchor_size(eps=eps, variance=known.variance), n)
    sub_epochs = framework.natasha_num_sub_epochs(sigma=sigma, **scales)
    steps = framework.natasha_num_steps(anchor_size=(n or 1) if size is None else size, num_sub_epochs=sub_epochs)
    steps = max(2, steps)  # With m = 1 the random one of x_0 … x_{m−1} is x_0, and x would never move.
    epoch = Natasha15Settings(
        step_size=framework.natasha_step_size(sigma=sigma, num_steps=steps),
        sigma=sigma,
        sub_epochs=sub_epochs,
        steps=steps,
        batch_size=batch_size,
        centre="random",
    )

    def run(objective: Objective, x: Tensor, generator: Generator) -> Pair:
        mean = objective.sample(size, generator).grad(x).clone()
        last, centres = natasha15_epoch(objective, x, mean, epoch, generator)
        return centres[int(torch.randint(len(centres), (), generator=generator, device=generator.device))], last

    return run


@dataclass(kw_only=True)
class Natasha(FirstOrderMethod):
    """Natasha1.5 with measured constants: SCSG's anchor and batch, p = 2 sub-epochs, σ = 0.1·L1.

        α = 0.5/(L1 + 2σ),   m = |S1|/(b·p)

    y and z are the last iterate. `guarded` undoes an epoch that raises F_S1. Cost: |S1| + 2b·m·p component gradients,
    and |S1| values.
    """

    batch_size: int | None = None
    step_size: float | None = None
    anchor_size: int | None = None
    sigma: float | None = None

    theory = staticmethod(allen_zhu)

    def __post_init__(self) -> None:
        positive, counts = ("step_size", "sigma"), ("batch_size", "anchor_size")
        check_settings(self, positive=positive, counts=counts, hint="leave it out to have it follow L1")

    def test_size(self, local: Local) -> int | None:
        return local.samples_for(4.0, at_least=64) if self.anchor_size is None else self.anchor_size

    def advance(self, objective: Objective, x: Tensor, seen: Anchor | None, local: Local, generator: Generator) -> Pair:
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
