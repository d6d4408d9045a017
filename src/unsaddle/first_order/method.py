"""The interface between NEON-A and a first-order method."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from torch import Generator, Tensor

from unsaddle.first_order.anchor import Anchor
from unsaddle.objective import Objective

Pair = tuple[Tensor, Tensor]
"""(y, z): NEON-A tests y next. If y fails, the next call starts at z. Often they are the same."""

Plain = Callable[[Objective, Tensor, Generator], Pair]
"""The paper's 𝒜(F, x) → (y, z). `minimize` takes a callable like this as its `method`."""


@dataclass
class Local:
    """What is known about F near the current point. The framework and the methods update it.

    Letters: ε = `eps`, n = `num_samples` (None for a stream), L1 = `smoothness`, V = `variance`, ĝ = `gradient_norm` of
    the last test.
    """

    eps: float
    num_samples: int | None
    smoothness: float = math.nan
    variance: float = 0.0
    gradient_norm: float = math.inf

    def samples_for(self, factor: float, at_least: int) -> int | None:
        """factor·V/max(ε², ĝ²/4) samples, or `at_least` if that is more. None means everything.

        If this is more than half of n, everything is taken, as that has no sampling error.
        """
        small = max(self.eps, min(self.gradient_norm, 1e150) / 2.0)
        wanted = factor * self.variance / small / small  # The square of a tiny or huge ε would leave the range.
        size = max(at_least, math.ceil(min(wanted, 1e15)))
        return None if self.num_samples is not None and 2 * size > self.num_samples else size


class FirstOrderMethod:
    """A method that NEON-A can promote: a dataclass whose fields are its settings, checked in `__post_init__`."""

    needs_finite_sum: ClassVar[bool] = False
    """Whether the method needs a full gradient, which a stream does not have."""
    theory: ClassVar[Callable[..., Plain] | None] = None
    """(premises, *, free settings of the corollary) → the method with the constants of settings='theory'."""

    def test_size(self, local: Local) -> int | None:
        """|S| of the first-order test; None for everything."""
        raise NotImplementedError

    def advance(self, objective: Objective, x: Tensor, seen: Anchor | None, local: Local, generator: Generator) -> Pair:
        """The paper's 𝒜: (y, z) from x.

        `seen` is the anchor of the test at x, if there was one; its samples may be used again. L1 in `local` may be
        raised if it turns out to be too small.
        """
        raise NotImplementedError

    def forget(self) -> None:
        """Drop velocities, if there are any: the run has jumped."""


SUCCESS, FAILURE = 0.9, 2.0
"""Factors on L1 after an epoch that lowered F_S, and after one that did not. Secants keep L1 from falling too low."""


def guarded(seen: Anchor, x: Tensor, local: Local, secant: float = 0.0) -> Tensor:
    """x if F_S is no higher there than at the anchor; else the anchor's point, and L1 is doubled. One value on S.

    A rise within rounding is allowed. Else rounding would undo every other epoch near a minimum.
    """
    lower = seen.value_at(x) <= seen.value + seen.rounding  # False for nan.
    local.smoothness = max(local.smoothness * SUCCESS, secant) if lower else local.smoothness * FAILURE
    return x if lower else seen.x


@dataclass
class PlainMethod(FirstOrderMethod):
    """A callable (F, x, generator) → (y, z) as a method that NEON-A can promote."""

    run: Plain

    def test_size(self, local: Local) -> int | None:
        return local.samples_for(4.0, at_least=64)

    def advance(self, objective: Objective, x: Tensor, seen: Anchor | None, local: Local, generator: Generator) -> Pair:
        answer = self.run(objective, x.clone(), generator)
        if not (isinstance(answer, tuple) and len(answer) == 2):
            raise TypeError(f"a method must return a pair (y, z), got {type(answer).__name__}; return (x, x) for one x")
        return answer
