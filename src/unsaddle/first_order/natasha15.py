"""Natasha 1.5: variance reduction in sub-epochs, each tied to a centre."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from unsaddle import checks
from unsaddle.first_order.anchor import at_most
from unsaddle.first_order.variance_reduced import reduced_gradient
from unsaddle.objective import Objective

CENTRES = ("random", "average", "last")

Penalty = Callable[[Tensor], Tensor | None]
"""The gradient of a term added to F that needs no samples; None if it is zero."""


@dataclass(frozen=True, kw_only=True)
class Natasha15Settings:
    """Constants of one epoch. Letters: α = `step_size`, p = `sub_epochs`, m = `steps` a sub-epoch, b = `batch_size`."""

    step_size: float
    sigma: float
    """σ: each sub-epoch works on F(x) + σ‖x − x̂‖². The theory needs ∇²F ⪰ −σI, which holds for σ = L1."""
    sub_epochs: int
    steps: int
    batch_size: int = 1
    centre: str = "last"
    """The next sub-epoch's x̂: a "random" one of x_0 … x_{m−1} (the paper), their "average" (its advice), or the "last",
    x_m. With m = 1 the first two are x_0, so x does not move."""

    def __post_init__(self) -> None:
        checks.positive(self.step_size, "step_size")
        checks.not_negative(self.sigma, "sigma", "0 gives SVRG with a fixed length")
        for name in ("sub_epochs", "steps", "batch_size"):
            checks.count(getattr(self, name), name)
        checks.choice(self.centre, "centre", CENTRES)


def natasha15_epoch(
    objective: Objective,
    x: Tensor,
    anchor_gradient: Tensor,
    settings: Natasha15Settings,
    generator: Generator,
    *,
    penalty: Penalty | None = None,
) -> tuple[Tensor, list[Tensor]]:
    """One epoch of Natasha 1.5 from x. Returns the last x̂, and the p centres that the sub-epochs started from.

        x̃ = x̂ = x;   μ = ∇F_S(x̃)
        for s = 0 … p−1:   x_0 = x̂
            for t = 0 … m−1:   x_{t+1} = x_t − α(∇f_i(x_t) − ∇f_i(x̃) + μ + ∇ψ(x_t) + 2σ(x_t − x̂)),   i fresh
            x̂ = one of x_0 … x_m, as `centre` says

    Allen-Zhu (2017), Algorithm 1, without its end: SGD on F(x) + σ‖x − x̂‖² from a random centre x̂. μ =
    `anchor_gradient` is that at x, on the anchor's samples. ψ = `penalty` is an addition of Natasha 2. Departure: b
    samples a step instead of one. Cost: 2·b·m·p component gradients, without the anchor's.

    >>> from unsaddle import Function
    >>> bowl, x = Function(lambda x: x @ x / 2), torch.ones(1)
    >>> settings = Natasha15Settings(step_size=0.5, sigma=0.0, sub_epochs=2, steps=1)
    >>> last, centres = natasha15_epoch(bowl, x, x, settings, torch.Generator())
    >>> last.tolist(), [centre.tolist() for centre in centres]
    ([0.25], [[1.0], [0.5]])
    """
    m, size = settings.steps, at_most(settings.batch_size, objective.num_samples)
    anchor, centre, centres, at_random = x, x, [], settings.centre == "random"
    for _ in range(settings.sub_epochs):
        x = centre.clone()
        centres.append(centre)
        chosen = int(torch.randint(m, (), generator=generator, device=generator.device)) if at_random else -1
        kept = torch.zeros_like(x)
        for t in range(m):
            if t == chosen:
                kept = x.clone()
            elif settings.centre == "average":
                kept.add_(x, alpha=1.0 / m)
            step = reduced_gradient(objective.sample(size, generator), x, anchor, anchor_gradient)
            if settings.sigma > 0.0:
                step.add_(x, alpha=2.0 * settings.sigma).sub_(centre, alpha=2.0 * settings.sigma)
            if penalty is not None and (extra := penalty(x)) is not None:
                step.add_(extra)
            x.sub_(step, alpha=settings.step_size)
        centre = x if settings.centre == "last" else kept
    return centre, centres
