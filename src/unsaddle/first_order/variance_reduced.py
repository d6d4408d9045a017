"""The inner loop of SVRG and SCSG: steps along ∇F_Sk(x) − ∇F_Sk(x₀) + h, with h the gradient at the anchor x₀."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from unsaddle import vectors
from unsaddle.first_order.anchor import at_most
from unsaddle.objective import Objective, SampledFunction

SECANTS, SECANT_EVERY = 4, 8
"""A loop takes about SECANTS secants, at least SECANT_EVERY steps apart: each costs two norms, which is much beside a
step on one sample."""


@dataclass(frozen=True, kw_only=True)
class InnerLoop:
    """Constants of the loop. Letters: b = |S_k| = `batch_size`, η = `step_size`, N = `num_steps`."""

    batch_size: int
    step_size: float
    num_steps: int


class Descent(NamedTuple):
    """The result of the loop: `last` is x_N."""

    last: Tensor
    chosen: Tensor
    """The iterate that `choose` asked for, or x_N."""
    secant: float
    """The largest measured ‖∇F_Sk(x) − ∇F_Sk(x₀)‖/‖x − x₀‖; 0 without one."""


def reduced_gradient(f: SampledFunction, x: Tensor, anchor: Tensor, h: Tensor, out: Tensor | None = None) -> Tensor:
    """∇F_S(x) − ∇F_S(x₀) + h, in `out` if given. Its noise vanishes with ‖x − x₀‖. Two gradients."""
    # The function may answer both calls in the same memory, so the first answer is used before the second call.
    return torch.sub(h, f.grad(anchor), out=out).add_(f.grad(x))


def descend(
    objective: Objective, x0: Tensor, h: Tensor, settings: InnerLoop, generator: Generator, *, choose: int | None = None
) -> Descent:
    """N variance-reduced steps from the anchor x₀, at which h is the gradient.

        x = x₀;  k = 1 … N:  S_k fresh, |S_k| = b;  x ← x − η(∇F_Sk(x) − ∇F_Sk(x₀) + h)

    If `choose` is one of 0 … N − 1, the iterate before that step is returned, too: the theory of SVRG needs a random
    one. Cost: 2bN component gradients.
    """
    x = chosen = x0.clone()
    step, room, secant = torch.empty_like(h), torch.empty_like(h), 0.0
    b, eta = at_most(settings.batch_size, objective.num_samples), settings.step_size
    every = max(SECANT_EVERY, settings.num_steps // SECANTS)
    for k in range(settings.num_steps):
        if k == choose:
            chosen = x.clone()
        f = objective.sample(b, generator)
        reduced_gradient(f, x, x0, h, out=step)
        if k % every == every - 1:
            distance = vectors.norm(torch.sub(x, x0, out=room))
            if distance > 0.0:
                secant = max(secant, vectors.norm(torch.sub(step, h, out=room)) / distance)
        x.sub_(step, alpha=eta)
        del f  # Frees its rows before the next are gathered. Else memory goes back and forth to the system.
    return Descent(x, chosen, secant)
