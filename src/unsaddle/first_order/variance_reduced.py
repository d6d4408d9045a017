"""The inner loop that SVRG and SCSG share: steps along ∇F_Sk(x) − ∇F_Sk(x₀) + h, with h the gradient at the anchor."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.objective import Objective

SECANTS, SECANT_EVERY = 4, 8
"""About so many secants are taken in a loop, and no more than each so many steps: one costs two norms, which a step on
one sample would notice."""


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
    step, room = torch.empty_like(h), torch.empty_like(h)
    b, eta, every = settings.batch_size, settings.step_size, max(SECANT_EVERY, settings.num_steps // SECANTS)
    for k in range(settings.num_steps):
        f = objective.sample(b, generator)
        # The function may answer both calls in the same memory, so the first answer is used before the second call.
        torch.sub(h, f.grad(anchor), out=step)
        step.add_(f.grad(x))
        if k % every == every - 1:
            distance = vectors.norm(torch.sub(x, anchor, out=room))
            if distance > 0.0:
                secant = max(secant, vectors.norm(torch.sub(step, h, out=room)) / distance)
        x.sub_(step, alpha=eta)
        del f  # Else its rows live on while the next are gathered, and memory goes back and forth to the system.
    return x, secant
