"""Functions with known constants on which the bounds of Table 1 can be measured.

    F(x) = h(x_1) + w(x_2) + ½ Σ_{i>2} s_i x_i²,    f(x; ξ, ζ) = F(x) + ξᵀx + σ Σ_i ζ_i (1 − cos x_i),

with ξ ~ N(0, V/(d−1)·I), but ξ_2 = 0, and ζ ~ N(0, I), drawn for each sample. All of it costs O(d), the lowest
curvature included, since the Hessian of F is diagonal; no method here knows of coordinates.

- s is spread evenly over [0.1, 1].
- The saddle w has w'' = −2γ + c|t|: curvature −2γ at 0, so that it has to be left, and wells at |t| = 4γ/c. c = 1, or
  c = γ for a saddle that is equally wide at every γ. At x_2 = 0 no sample's gradient has a part along it, so that
  sampling alone never leaves it.
- The slope h(t) = a·b(√(1 + (t/b)²) − 1) has |h'| < a, and |h'''| ≤ 1 with b² = 0.8587·a: a way down that is nowhere
  steeper than a and as long as F(x0) − min h = 1 lets it be. With a = 2ε it is about the longest along which ‖∇F‖ > ε:
  gradient descent takes 1/(4ηε²) steps, the order that the bounds allow. Without a slope (a = None), h(t) = t²/2.

L1 = 1 wherever |x_2| ≤ (1 + 2γ)/c, L2 = 1, F(x0) − min F ≤ 1 + 16γ³/(3c²); the variance of a gradient is V + σ² Σ sin²
x_i, that of a curvature at most σ². A run begins at x_1 with h = 1 (or 0), and 0 elsewhere: on the ridge of the saddle.

The mean of m samples is f with ξ ~ N(0, V/((d−1)m)·I) and ζ ~ N(0, I/m), exactly. So a batch of any size is drawn and
evaluated in O(d) and counted as m samples: what would take days on data is measured in seconds.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from unsaddle import checks
from unsaddle.experiments.case import Case
from unsaddle.objective import BaseObjective, Objective, Oracle
from unsaddle.objectives import FiniteSum

THIRD = 1.5 * 1.25**-2.5
"""max |3t(1 + t²)^{−5/2}|, at t = ½."""

LOWEST, LARGEST = 0.1, 1.0
"""The range of s."""

SMOOTHNESS = 1.0
"""L1."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """F and its first two derivatives, coordinate by coordinate."""

    dimension: int
    gamma: float
    """γ: the curvature at the saddle is −2γ."""
    slope: float | None = None
    """a."""
    bend: float = 1.0
    """c."""

    def __post_init__(self) -> None:
        checks.count(self.dimension, "dimension", at_least=3)
        checks.positive(self.gamma, "gamma")
        checks.positive(self.bend, "bend")
        if self.slope is not None:
            checks.positive(self.slope, "slope", "leave it out for no slope")

    @functools.cached_property
    def spectrum(self) -> Tensor:
        """s."""
        return torch.linspace(LOWEST, LARGEST, self.dimension - 2, dtype=torch.float64)

    @functools.cached_property
    def width(self) -> float:
        """b."""
        return math.inf if self.slope is None else math.sqrt(THIRD * self.slope)

    @property
    def start(self) -> Tensor:
        """x0."""
        x = torch.zeros(self.dimension, dtype=torch.float64)
        if self.slope is not None:  # h(t) = 1
            x[0] = self.width * math.sqrt((1.0 + 1.0 / (self.slope * self.width)) ** 2 - 1.0)
        return x

    def value(self, x: Tensor) -> Tensor:
        """F."""
        first, second = float(x[0]), float(x[1])
        slope = first**2 / 2.0 if self.slope is None else self.slope * self.width * (self._root(first) - 1.0)
        saddle = -self.gamma * second**2 + self.bend * abs(second) ** 3 / 6.0
        rest = x[2:]
        return 0.5 * torch.dot(self.spectrum, rest * rest) + (slope + saddle)

    def gradient(self, x: Tensor) -> Tensor:
        """∇F."""
        first, second = float(x[0]), float(x[1])
        g = torch.empty_like(x)
        torch.mul(self.spectrum, x[2:], out=g[2:])
        g[0] = first if self.slope is None else self.slope * first / (self.width * self._root(first))
        g[1] = (-2.0 * self.gamma + 0.5 * self.bend * abs(second)) * second
        return g

    def curvatures(self, x: Tensor) -> Tensor:
        """The diagonal of the Hessian, which is diagonal."""
        first, second = float(x[0]), float(x[1])
        c = torch.empty_like(x)
        c[2:] = self.spectrum
        c[0] = 1.0 if self.slope is None else self.slope / self.width * self._root(first) ** -3
        c[1] = -2.0 * self.gamma + self.bend * abs(second)
        return c

    def _root(self, t: float) -> float:
        return math.hypot(1.0, t / self.width)


class _Oracle(Oracle):
    """f with the mean of some samples' ξ and σζ."""

    def __init__(self, shape: Shape, xi: Tensor, zeta: Tensor) -> None:
        self._shape, self._xi, self._zeta = shape, xi, zeta

    def value(self, x: Tensor) -> Tensor:
        return self._shape.value(x) + torch.dot(self._xi, x) + torch.dot(self._zeta, 1.0 - x.cos())

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.value(x), self._shape.gradient(x).add_(self._xi).addcmul_(self._zeta, x.sin())

    def hvp(self, x: Tensor, v: Tensor) -> Tensor:
        return self._shape.curvatures(x).addcmul_(self._zeta, x.cos()).mul_(v)


@dataclass(frozen=True, kw_only=True)
class Family:
    """One function, its noise, and the point (ε, γ) that a run must reach."""

    shape: Shape
    eps: float
    variance: float = 1.0
    """V."""
    hessian_deviation: float = 0.5
    """σ."""
    num_samples: int | None = None
    """n of a finite sum, whose ξ and ζ are drawn once and sum to 0. None for a stream of fresh samples."""
    max_samples: int = 10**9

    def case(self) -> Case:
        """The case that judges whether a run reaches ‖∇F‖ ≤ ε and λ_min ≥ −γ."""
        shape, d = self.shape, self.shape.dimension
        return Case(
            name=f"slope {shape.slope}, d = {d}, ε = {self.eps:g}, γ = {shape.gamma:g}",
            objective=self._objective(),
            dimension=d,
            start=lambda seed: shape.start,
            value=lambda x: float(shape.value(x)),
            gradient=shape.gradient,
            lowest=lambda x: float(shape.curvatures(x).min()),
            eps=self.eps,
            gamma=shape.gamma,
            max_samples=self.max_samples,
        )

    def _objective(self) -> Objective:
        shape, d, n = self.shape, self.shape.dimension, self.num_samples
        of_gradient = torch.full((d,), math.sqrt(self.variance / (d - 1)), dtype=torch.float64)
        of_gradient[1] = 0.0
        scales = of_gradient, torch.full_like(of_gradient, self.hessian_deviation)
        if n is None:
            return _MeanStream(shape, scales)
        random = torch.Generator().manual_seed(0)
        noise = [torch.randn(n, d, generator=random, dtype=torch.float64) for _ in scales]
        rows = [(rows - rows.mean(dim=0)).mul_(scale) for rows, scale in zip(noise, scales, strict=True)]
        return FiniteSum.from_oracle(lambda xi, zeta: _Oracle(shape, xi.mean(dim=0), zeta.mean(dim=0)), *rows)


class _MeanStream(BaseObjective):
    """A stream that draws the mean of a batch, not its samples: one vector each of ξ and σζ."""

    num_samples = None

    def __init__(self, shape: Shape, scales: tuple[Tensor, Tensor]) -> None:
        self._shape, self._scales = shape, scales

    def _draw(self, size: int | None, generator: torch.Generator | None, replacement: bool) -> tuple[Oracle, int]:
        """`size` fresh samples; they are independent, so `replacement` makes no difference."""
        if size is None:
            raise ValueError("a stream has no end, so 'everything' does not exist; say how many samples to draw")
        size, random = checks.count(size, "size"), checks.generator(generator)
        shrink = 1.0 / math.sqrt(size)
        xi, zeta = (
            torch.randn(scale.numel(), generator=random, dtype=torch.float64).mul_(scale).mul_(shrink)
            for scale in self._scales
        )
        return _Oracle(self._shape, xi, zeta), size
