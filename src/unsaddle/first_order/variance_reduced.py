"""The inner loop that SVRG and SCSG share: steps along ∇F_Sk(x) − ∇F_Sk(x₀) + h, with h the gradient at the anchor."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.objective import Objective

SECANT_EVERY = 8
"""A secant is taken each so many steps: it costs two inner products, which a step on one sample would notice."""


@dataclass(frozen=True, kw_only=True)
class InnerLoop:
    """Constants of the loop."""

    batch_size: int
    """b = |S_k|."""
    step_size: float
    """η."""
    num_steps: int
    """N."""


def descend(
    objective: Objective,
    anchor: Tensor,
    h: Tensor,
    settings: InnerLoop,
    generator: torch.Generator,
    start: Tensor | None = None,
) -> tuple[Tensor, float]:
    """x_N, and the largest secant ‖∇F_Sk(x) − ∇F_Sk(x₀)‖/‖x − x₀‖ that was looked at.

        x = x₀;  k = 1 … N:  S_k fresh, |S_k| = b;  x ← x − η(∇F_Sk(x) − ∇F_Sk(x₀) + h)

    The noise of a step vanishes with ‖x − x₀‖. A loop can be gone on with from `start`. Cost: 2bN component gradients.
    """
    x, secant = (anchor if start is None else start).clone(), 0.0
    step, b, eta = torch.empty_like(h), settings.batch_size, settings.step_size
    for k in range(settings.num_steps):
        f = objective.sample(b, generator)
        # The function may answer both calls in the same memory, so the first answer is used before the second call.
        torch.sub(h, f.grad(anchor), out=step)
        step.add_(f.grad(x))
        if k % SECANT_EVERY == SECANT_EVERY - 1:
            off, change = torch.sub(x, anchor), torch.sub(step, h)
            distance, growth = vectors.dots((off, off), (change, change))
            secant = max(secant, (growth / distance) ** 0.5 if distance > 0.0 else 0.0)
        x.sub_(step, alpha=eta)
        del f  # Else its rows live on while the next are gathered, and memory goes back and forth to the system.
    return x, secant
