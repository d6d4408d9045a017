"""A fresh look at a point: the gradient on independent batches, with its variance; and L1 as it is there.

The look is NEON-A's first-order test, and the same batches then serve as the anchor of a variance-reduced epoch: the
test is free for methods that need an anchor anyway.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.curvature.displaced import DisplacedFunction
from unsaddle.curvature.krylov.certificate import KrylovSettings, krylov
from unsaddle.objective import Objective, SampledFunction

CHUNKS = 8
"""Batches that a look consists of, where it is not of everything: what V is measured from."""

SMOOTHNESS_SAMPLES, SMOOTHNESS_STEPS = 256, 10
"""Samples and Lanczos steps by which L1 is measured."""


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


def anchor_at(objective: Objective, x: Tensor, size: int | None, generator: torch.Generator) -> Anchor:
    """Look at x on `size` fresh samples, in `CHUNKS` batches; on everything if that is all there is, or None.

    Two at least, or there would be no V: the mean g of batches of m_1, m_2, … samples has Σ m_k‖g_k − g‖² = (K − 1)·V
    in expectation, whatever the m_k.

    >>> from unsaddle import Function
    >>> seen = anchor_at(Function(lambda x: x @ x / 2), torch.ones(2), None, torch.Generator())
    >>> seen.value, seen.norm == 2**0.5, seen.everything
    (1.0, True, True)
    """
    n = objective.num_samples
    if size is None or (n is not None and size >= n):
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
    value, grad = functions[0].value_and_grad(x)
    samples = functions[0].size
    mean, total, squares = grad.clone(), samples * float(value), 0.0
    for f in functions[1:]:  # Welford's recurrence: no batch's gradient is kept.
        value, grad = f.value_and_grad(x)
        off = grad - mean
        before, samples = samples, samples + f.size
        mean.add_(off, alpha=f.size / samples)
        squares += vectors.norm(off) ** 2 * f.size * before / samples
        total += f.size * float(value)
    return Anchor(
        x=x,
        functions=functions,
        gradient=mean,
        value=total / samples,
        variance=squares / (count - 1),
        samples=samples,
        everything=False,
    )


def smoothness(objective: Objective, x: Tensor, generator: torch.Generator, samples: int = SMOOTHNESS_SAMPLES) -> float:
    """L1 at x: the largest |eigenvalue| that ten Lanczos steps on some samples see. nan or inf if they see none.

    >>> from unsaddle import Function
    >>> round(smoothness(Function(lambda x: 3 * x @ x / 2), torch.ones(5), torch.Generator().manual_seed(0)), 3)
    3.0
    """
    n = objective.num_samples
    f = objective.sample(None if n is not None and samples >= n else samples, generator)
    f_hat = DisplacedFunction(f, x)
    if not f_hat.is_finite:
        return math.nan
    settings = KrylovSettings(
        num_steps=SMOOTHNESS_STEPS,
        delta=1e-300,
        accuracy=0.0,
        smallest_radius=math.sqrt(torch.finfo(x.dtype).eps) * max(1.0, f_hat.x_norm),
    )
    return krylov(f_hat, settings, generator).scale.smoothness
