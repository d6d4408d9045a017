"""What NEON-A asks of a first-order method, and what it tells it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from unsaddle.first_order.anchor import Anchor
from unsaddle.objective import Objective

Plain = Callable[[Objective, Tensor, torch.Generator], tuple[Tensor, Tensor]]
"""A method as the paper has it, 𝒜(F, x) → (y, z): y is tested, and z is where the next call starts if y is not yet
stationary. A callable like this can be given to `minimize` as its `method`."""


@dataclass
class Local:
    """What is known about F where the run is. The framework and the methods keep it up to date."""

    eps: float
    num_samples: int | None
    """n, or None."""
    smoothness: float = math.nan
    """L1."""
    variance: float = 0.0
    """V."""
    gradient_norm: float = math.inf
    """ĝ, as the last test saw it."""

    def samples_for(self, factor: float, at_least: int) -> int | None:
        """factor·V/max(ε², ĝ²/4) samples: as many as the gradient needs, and no more. None for everything.

        Where more than half of all would be drawn, everything is: it has no sampling error at all.
        """
        wanted = factor * self.variance / max(self.eps**2, min(self.gradient_norm, 1e150) ** 2 / 4.0)
        size = max(at_least, math.ceil(min(wanted, 1e15)))
        return None if self.num_samples is not None and 2 * size > self.num_samples else size


class FirstOrderMethod:
    """A method that NEON-A can promote: a dataclass whose fields are its settings, checked in `__post_init__`.

    `advance` is the paper's 𝒜. It is handed the anchor that the framework's test took at x, if it took one, and may use
    its samples; and `local`, whose L1 it may raise when it sees that it is too small.
    """

    needs_finite_sum: ClassVar[bool] = False
    """Whether there must be something to go through: a stream has no full gradient."""
    theory: ClassVar[Callable[..., Plain] | None] = None
    """(premises, *, settings that the corollary leaves free) → the method with its constants, for settings='theory'."""

    def test_size(self, local: Local) -> int | None:
        """|S| of the first-order test; None for everything."""
        raise NotImplementedError

    def advance(
        self, objective: Objective, x: Tensor, seen: Anchor | None, local: Local, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """(y, z): the point to be tested next, and the one to go on from if it fails. Often they are the same."""
        raise NotImplementedError

    def forget(self) -> None:
        """The run has jumped elsewhere: drop velocities, if there are any."""


SUCCESS, FAILURE = 0.9, 2.0
"""What L1 is multiplied by when an epoch lowered F_S, and when it did not. Secants keep it from falling too low."""


def guarded(seen: Anchor, x: Tensor, local: Local, secant: float = 0.0) -> Tensor:
    """x, if F_S is no higher there than where it was looked at; else that point, with L1 doubled. One value on S.

    Up to rounding: near a minimum it is all that is left of the difference, and would undo every other epoch.
    """
    lower = seen.value_at(x) <= seen.value + seen.rounding  # False for nan.
    local.smoothness = max(local.smoothness * SUCCESS, secant) if lower else local.smoothness * FAILURE
    return x if lower else seen.x


@dataclass
class PlainMethod(FirstOrderMethod):
    """A callable (F, x, generator) → (y, z) as a method that can be promoted."""

    run: Plain

    def test_size(self, local: Local) -> int | None:
        return local.samples_for(4.0, at_least=64)

    def advance(
        self, objective: Objective, x: Tensor, seen: Anchor | None, local: Local, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        answer = self.run(objective, x.clone(), generator)
        if not (isinstance(answer, tuple) and len(answer) == 2):
            raise TypeError(f"a method must return a pair (y, z), got {type(answer).__name__}; return (x, x) for one x")
        y, z = answer
        return y, z
