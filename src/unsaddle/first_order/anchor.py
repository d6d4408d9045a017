"""The gradient at a point on fresh, independent batches, with its variance.

It is NEON-A's first-order test, and the same batches then serve as the anchor of a variance-reduced epoch: the test is
free for methods that need an anchor anyway.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.measure.batches import mean_gradient
from unsaddle.objective import Objective, SampledFunction

CHUNKS = 8
"""Batches that an anchor consists of, where it is not of everything: what V is measured from."""


@dataclass(frozen=True, kw_only=True)
class Anchor:
    """∇F_S(x) on fresh samples, and S itself."""

    x: Tensor = field(repr=False)
    functions: tuple[SampledFunction, ...] = field(repr=False)
    """S, in batches whose sizes differ by one at most."""
    gradient: Tensor = field(repr=False)
    """∇F_S(x)."""
    value: float
    """F_S(x)."""
    variance: float
    """V, of one sample's gradient at x; nan where S is everything and nothing was seen of it."""
    samples: int
    """|S|."""
    everything: bool
    """Whether F_S = F."""

    @property
    def norm(self) -> float:
        return vectors.norm(self.gradient)

    @property
    def squared_error(self) -> float:
        """E‖∇F_S(x) − ∇F(x)‖²: V/|S|, and nothing where S is everything."""
        return 0.0 if self.everything else self.variance / self.samples

    @property
    def is_finite(self) -> bool:
        return math.isfinite(self.value) and math.isfinite(self.norm)

    def passes(self, eps: float) -> bool:
        """‖∇F_S(x)‖² + V/|S| ≤ ε²: the noise in the gradient counts against it."""
        return self.norm**2 + self.squared_error <= eps**2

    def may_pass(self, eps: float, slack: float = 1.5) -> bool:
        """Whether ‖∇F(x)‖ ≤ slack·ε is likely, with what sampling adds to the norm taken out."""
        return self.norm**2 - self.squared_error <= (slack * eps) ** 2

    @property
    def rounding(self) -> float:
        """By how much two values near this one may differ for no reason: four roundings."""
        return 4.0 * torch.finfo(self.x.dtype).eps * abs(self.value)

    def value_at(self, x: Tensor) -> float:
        """F_S at another point, on the same samples."""
        return sum(f.size * float(f.value(x)) for f in self.functions) / self.samples


def at_most(size: int, num_samples: int | None) -> int | None:
    """The size of a sample, or None for everything where that is no more."""
    return None if num_samples is not None and size >= num_samples else size


def anchor_at(objective: Objective, x: Tensor, size: int | None, generator: torch.Generator) -> Anchor:
    """∇F_S(x) on `size` fresh samples, in eight batches; on everything if that is all there is, or if size is None.

    Two samples at least, or there would be no V.

    >>> from unsaddle import Function
    >>> seen = anchor_at(Function(lambda x: x @ x / 2), torch.ones(2), None, torch.Generator())
    >>> seen.value, seen.norm == 2**0.5, seen.everything
    (1.0, True, True)
    """
    if size is None or at_most(size, objective.num_samples) is None:
        f = objective.sample()
        value, grad = f.value_and_grad(x)
        return Anchor(
            x=x,
            functions=(f,),
            gradient=grad.clone(),
            value=float(value),
            variance=math.nan,
            samples=f.size,
            everything=True,
        )
    size = max(2, size)
    count = min(CHUNKS, size)
    functions = tuple(objective.sample((size + k) // count, generator) for k in range(count))
    total = 0.0

    def gradients() -> Iterator[tuple[int, Tensor]]:
        nonlocal total
        for f in functions:
            value, grad = f.value_and_grad(x)
            total += f.size * float(value)
            yield f.size, grad

    seen = mean_gradient(gradients())
    return Anchor(
        x=x,
        functions=functions,
        gradient=seen.mean,
        value=total / seen.samples,
        variance=seen.variance,
        samples=seen.samples,
        everything=False,
    )
