"""The gradient at a point and its variance, from fresh, independent batches.

NEON-A's first-order test takes one. A variance-reduced epoch then uses the same batches as its anchor, so the test is
free for methods that need an anchor.
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
"""The number of batches in an anchor on a sample. V is measured from them."""


@dataclass(frozen=True, kw_only=True)
class Anchor:
    """`value` = F_S(x) and `gradient` = ∇F_S(x) on fresh samples S, |S| = `samples`."""

    x: Tensor = field(repr=False)
    functions: tuple[SampledFunction, ...] = field(repr=False)
    """S, in batches whose sizes differ by at most one."""
    gradient: Tensor = field(repr=False)
    value: float
    variance: float = math.nan
    """V, the variance of one sample's gradient at x; nan if S is everything, as it is not measured then."""
    samples: int
    everything: bool = False
    """Whether F_S = F."""

    @property
    def norm(self) -> float:
        return vectors.norm(self.gradient)

    @property
    def squared_error(self) -> float:
        """E‖∇F_S(x) − ∇F(x)‖² = V/|S|; 0 if S is everything."""
        return 0.0 if self.everything else self.variance / self.samples

    @property
    def is_finite(self) -> bool:
        return math.isfinite(self.value) and math.isfinite(self.norm)

    def passes(self, eps: float) -> bool:
        """‖∇F_S(x)‖² + V/|S| ≤ ε²: noise in the gradient counts against it."""
        return math.hypot(self.norm, math.sqrt(self.squared_error)) <= eps

    def may_pass(self, eps: float, slack: float = 1.5) -> bool:
        """Whether ‖∇F(x)‖ ≤ slack·ε is likely: sampling adds V/|S| to the squared norm, which is subtracted."""
        return self.norm <= math.hypot(slack * eps, math.sqrt(self.squared_error))

    @property
    def rounding(self) -> float:
        """The rounding error of a difference of values near this one: four roundings."""
        return 4.0 * torch.finfo(self.x.dtype).eps * abs(self.value)

    def value_at(self, x: Tensor) -> float:
        """F_S at another point, on the same S."""
        return sum(f.size * float(f.value(x)) for f in self.functions) / self.samples


def at_most(size: int, num_samples: int | None) -> int | None:
    """The size of a sample; None, which means everything, if that is at most `size`."""
    return None if num_samples is not None and size >= num_samples else size


def anchor_at(objective: Objective, x: Tensor, size: int | None, generator: torch.Generator) -> Anchor:
    """∇F_S(x) on `size` fresh samples in eight batches; on everything if size is None, or if there are no more.

    A sample has at least two elements, as V needs two.

    >>> from unsaddle import Function
    >>> seen = anchor_at(Function(lambda x: x @ x / 2), torch.ones(2), None, torch.Generator())
    >>> seen.value, seen.norm == 2**0.5, seen.everything
    (1.0, True, True)
    """
    if size is None or at_most(size, objective.num_samples) is None:
        f = objective.sample()
        value, grad = f.value_and_grad(x)
        return Anchor(x=x, functions=(f,), gradient=grad.clone(), value=float(value), samples=f.size, everything=True)
    size = max(2, size)
    count, total = min(CHUNKS, size), 0.0
    functions = tuple(objective.sample((size + k) // count, generator) for k in range(count))

    def gradients() -> Iterator[tuple[int, Tensor]]:
        nonlocal total
        for f in functions:
            value, grad = f.value_and_grad(x)
            total += f.size * float(value)
            yield f.size, grad

    g = mean_gradient(gradients())
    return Anchor(
        x=x, functions=functions, gradient=g.mean, value=total / g.samples, variance=g.variance, samples=g.samples
    )
