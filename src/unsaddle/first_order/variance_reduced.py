"""The inner loop that SVRG and SCSG share: steps along ∇F_Sk(x) − ∇F_Sk(x₀) + h, with h the gradient at the anchor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.first_order.anchor import at_most
from unsaddle.objective import Objective, SampledFunction

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


class Descent(NamedTuple):
    """What the loop comes to."""

    last: Tensor
    """x_N."""
    chosen: Tensor
    """x_k of the k that was asked for, or x_N."""
    secant: float
    """The largest ‖∇F_Sk(x) − ∇F_Sk(x₀)‖/‖x − x₀‖ that was measured; 0 if none was."""


def reduced_gradient(f: SampledFunction, x: Tensor, anchor: Tensor, h: Tensor, out: Tensor | None = None) -> Tensor:
    """∇F_S(x) − ∇F_S(x₀) + h, in `out` if there is one. Its noise vanishes with ‖x − x₀‖. Two gradients."""
    # The function may answer both calls in the same memory, so the first answer is used before the second call.
    step = torch.sub(h, f.grad(anchor), out=out)
    return step.add_(f.grad(x))


def descend(
    objective: Objective,
    anchor: Tensor,
    h: Tensor,
    settings: InnerLoop,
    generator: torch.Generator,
    *,
    choose: int | None = None,
) -> Descent:
    """N variance-reduced steps from the anchor x₀.

        x = x₀;  k = 1 … N:  S_k fresh, |S_k| = b;  x ← x − η(∇F_Sk(x) − ∇F_Sk(x₀) + h)

    Cost: 2bN component gradients.

    Args:
        h: the gradient at the anchor.
        choose: the step, 0 … N − 1, before which the iterate is kept as well; the theory of SVRG returns a random one.
    """
    x = chosen = anchor.clone()
    step, room, secant = torch.empty_like(h), torch.empty_like(h), 0.0
    b, eta = at_most(settings.batch_size, objective.num_samples), settings.step_size
    every = max(SECANT_EVERY, settings.num_steps // SECANTS)
    for k in range(settings.num_steps):
        if k == choose:
            chosen = x.clone()
        f = objective.sample(b, generator)
        reduced_gradient(f, x, anchor, h, out=step)
        if k % every == every - 1:
            distance = vectors.norm(torch.sub(x, anchor, out=room))
            if distance > 0.0:
                secant = max(secant, vectors.norm(torch.sub(step, h, out=room)) / distance)
        x.sub_(step, alpha=eta)
        del f  # Else its rows live on while the next are gathered, and memory goes back and forth to the system.
    return Descent(x, chosen, secant)
