"""What the calls on the spectrum return."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from torch import Tensor

from unsaddle.cost import Cost
from unsaddle.told import Pictured
from unsaddle.vectors import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Status(Enum):
    """How a call on the spectrum ended. The value is a sentence that says what to do next."""

    CONVERGED = "every value is known to the tolerance"
    INACCURATE = (
        "some values are not known to the tolerance, since gradients at different radii disagree by more: "
        "read .errors, use float64, or look for kinks and low precision in the function"
    )
    BUDGET_SPENT = "the budget ended first, and values are as far as they got: raise max_gradients, or the tolerance"
    NOT_FINITE = "a value or gradient was NaN or infinite: look for NaN and Inf in the data, or move x"


@dataclass(frozen=True, kw_only=True)
class Eigenpairs(Pictured):
    """The answer of `eigenpairs`."""

    values: Array
    """Eigenvalues, ascending: first the lowest that were asked for, then the highest."""
    errors: Array
    """How far each value may be from an eigenvalue of F_S: what its residual tells, and what radii disagree by."""
    vectors: Tensor = field(repr=False)
    """Unit eigenvectors in rows, in the order of the values. On several ranks, this rank's part of each."""
    lowest: int
    """How many of the values are from the lower end."""
    bound: tuple[float, float]
    """Any other eigenvalue lies between these, at the confidence; ±inf at an end that nothing is known about."""
    confidence: float
    """1 − δ, over the random starts."""
    sampling_errors: Array
    """How far each value of F_S may be from the curvature of F along its vector, by fresh samples; 0 if F_S is F."""
    samples: int
    """|S|."""
    dimension: int
    status: Status
    cost: Cost
    memory: int
    """Vectors that were held at once."""

    def __len__(self) -> int:
        return len(self.values)

    def __str__(self) -> str:
        sampled = any(error > 0.0 for error in self.sampling_errors)
        lines = [f"{'eigenvalue':>12}  {'error':>8}" + (f"  {'sampling':>8}" if sampled else "")]
        for i, (value, error, fresh) in enumerate(zip(self.values, self.errors, self.sampling_errors, strict=True)):
            if i == self.lowest and i > 0:
                lines.append(f"{'...':>12}")
            lines.append(f"{value:>12.5g}  {error:>8.1g}" + (f"  {fresh:>8.1g}" if sampled else ""))
        low, high = self.bound
        known = [f"below {low:.4g}"] * math.isfinite(low) + [f"above {high:.4g}"] * math.isfinite(high)
        rest = f" No other eigenvalue is {' or '.join(known)}, at confidence {self.confidence:g}." if known else ""
        said = self.status.value[0].upper() + self.status.value[1:]
        lines.append(f"{said}.{rest} d = {self.dimension}, {self.cost.gradients} gradients.")
        return "\n".join(lines)

    def plot(self) -> Figure:
        """Draw the values with their errors, and the bound on all others. Needs matplotlib, of the extra `plot`."""
        from unsaddle.spectrum.plots import plot_eigenpairs

        return plot_eigenpairs(self)


@dataclass(frozen=True, kw_only=True)
class MorseIndex:
    """The answer of `morse_index`."""

    lower: int
    """At least so many eigenvalues are below −γ. The error of the products is taken off."""
    upper: int
    """At most so many are, at the confidence. Where it is decided, this is `lower`."""
    gamma: float
    confidence: float
    values: Array
    """The eigenvalues that were found below −γ, ascending."""
    errors: Array
    """How far each may be from an eigenvalue."""
    vectors: Tensor = field(repr=False)
    """Their unit vectors, in rows."""
    smoothness: float
    """The largest |eigenvalue| seen."""
    dimension: int
    status: Status
    cost: Cost

    @property
    def decided(self) -> bool:
        """Whether the bounds are equal."""
        return self.lower == self.upper

    def __str__(self) -> str:
        count = f"{self.lower}" if self.decided else f"between {self.lower} and {self.upper}"
        which = f"eigenvalues below {-self.gamma or 0.0:.4g}, at confidence {self.confidence:g}"
        rest = "" if self.decided else f" {self.status.value[0].upper()}{self.status.value[1:]}."
        return f"Morse index {count}: {which}. d = {self.dimension}, {self.cost.gradients} gradients.{rest}"


@dataclass(frozen=True, kw_only=True)
class Density(Pictured):
    """The answer of `spectral_density`."""

    grid: Array
    density: Array
    """The density of eigenvalues on the grid; it integrates to 1. It is smoothed by a Gaussian of width `width`."""
    spread: Array
    """Its standard error on the grid, over the probes; 0 where every eigenvalue is known."""
    width: float
    trace: float
    """The sum of all eigenvalues."""
    trace_error: float
    """How far that may be off, at confidence 0.95 over the probes."""
    nodes: Array = field(repr=False)
    """Values and weights before smoothing: quadrature nodes, or the eigenvalues. The weights sum to 1."""
    weights: Array = field(repr=False)
    probes: int
    steps: int
    """Products a probe."""
    exact: bool
    """Whether every eigenvalue is known, as it is in few dimensions."""
    dimension: int
    status: Status
    cost: Cost

    def __str__(self) -> str:
        how = "every eigenvalue" if self.exact else f"{self.probes} probes of {self.steps} steps"
        if not self.nodes.size:
            return f"Density of d = {self.dimension} eigenvalues: {self.status.value}."
        ends = f"between {self.nodes.min():.4g} and {self.nodes.max():.4g}"
        negative = float(self.weights[self.nodes < -self.width].sum())
        return (
            f"Density of d = {self.dimension} eigenvalues, {ends}, by {how}. Trace {self.trace:.5g} ± "
            f"{self.trace_error:.1g}. A share of {negative:.2g} is below {-self.width:.2g}, the negative of the "
            f"smoothing width. {self.cost.gradients} gradients."
        )

    def plot(self) -> Figure:
        """Draw the density on a logarithmic scale, with its spread. Needs matplotlib, of the extra `plot`."""
        from unsaddle.spectrum.plots import plot_density

        return plot_density(self)
