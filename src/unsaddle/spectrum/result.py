"""What the calls on the spectrum return."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from torch import Tensor

from unsaddle.cost import Cost
from unsaddle.curvature.result import IN_FLOAT64
from unsaddle.told import Pictured, as_text, counted, measured
from unsaddle.vectors import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Status(Enum):
    """How a call on the spectrum ended. The value is a sentence that says what to do next."""

    CONVERGED = "every value is known to the tolerance"
    INACCURATE = (
        "some values are less accurate than asked for, since gradients at different distances from x disagree: "
        "read the errors; kinks do this, as of ReLU and max-pooling, and float32 or less inside of the function"
    )
    BUDGET_SPENT = "the budget ended first, and values are as far as they got: raise max_gradients, or the tolerance"
    NOT_FINITE = "a value or gradient was NaN or infinite: look for NaN and Inf in the data, or move x"


@dataclass(frozen=True, kw_only=True, repr=False)
class Eigenpairs(Pictured):
    """The answer of `eigenpairs`."""

    values: Array
    """Eigenvalues, ascending: first the lowest that were asked for, then the highest."""
    errors: Array
    """How far each value may be from an eigenvalue of F_S: what its residual tells, and what radii disagree by."""
    vectors: Tensor
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
    in_float64: bool = False
    """Whether it is of F computed in float64, on a copy, since kinks or rounding hide the values in float32."""

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        ends = f" from {self.values[0]:.4g} to {self.values[-1]:.4g}" if len(self) else ""
        return f"<Eigenpairs {_word(self.status)}: {counted(len(self), 'value')}{ends}, {_work(self.cost)}>"

    def __str__(self) -> str:
        sampled = any(error > 0.0 for error in self.sampling_errors)
        said = [f"{v:.5g} ± {e:.1g}" for v, e in zip(self.values, self.errors, strict=True)]
        if sampled:
            said = [f"{text} (sampling {e:.1g})" for text, e in zip(said, self.sampling_errors, strict=True)]
        ends = {"lowest": said[: self.lowest], "highest": said[self.lowest :]}
        rows = [(name, ", ".join(texts)) for name, texts in ends.items() if texts]
        low, high = self.bound
        known = [f"below {low:.4g}"] * math.isfinite(low) + [f"above {high:.4g}"] * math.isfinite(high)
        if known:
            rows.append(("all others", f"not {' or '.join(known)}, at confidence {self.confidence:g}"))
        rows += [("status", self.status.value), *_precision(self.in_float64), ("cost", _work(self.cost))]
        counts = " and ".join(f"{len(texts)} {name}" for name, texts in ends.items() if texts) or "None"
        return as_text(f"{counts} of {counted(self.dimension, 'eigenvalue')}.", rows)

    def plot(self) -> Figure:
        """Draw the values with their errors, and the bound on all others. Needs matplotlib, of the extra `plot`."""
        from unsaddle.spectrum.plots import plot_eigenpairs

        return plot_eigenpairs(self)


@dataclass(frozen=True, kw_only=True, repr=False)
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
    vectors: Tensor
    """Their unit vectors, in rows."""
    smoothness: float
    """The largest |eigenvalue| seen."""
    dimension: int
    status: Status
    cost: Cost
    in_float64: bool = False
    """As for `Eigenpairs`."""

    @property
    def decided(self) -> bool:
        """Whether the bounds are equal."""
        return self.lower == self.upper

    @property
    def _count(self) -> str:
        return f"{self.lower}" if self.decided else f"between {self.lower} and {self.upper}"

    def __repr__(self) -> str:
        return f"<MorseIndex {self._count}, below {-self.gamma or 0.0:.4g}, {_work(self.cost)}>"

    def __str__(self) -> str:
        which = f"eigenvalues below {-self.gamma or 0.0:.4g}, of {self.dimension}"
        rows = [("confidence", f"{self.confidence:g}")]
        if len(self.values):
            error = f"± {self.errors.max():.1g} at most"
            rows.append(("values", f"from {self.values[0]:.5g} to {self.values[-1]:.5g}, {error}"))
        rows += [*([] if self.decided else [("status", self.status.value)]), *_precision(self.in_float64)]
        return as_text(f"Morse index {self._count}: {which}.", [*rows, ("cost", _work(self.cost))])


@dataclass(frozen=True, kw_only=True, repr=False)
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
    """How far that may be off: at confidence 0.95 over the probes, and by what radii disagree."""
    nodes: Array
    """Values and weights before smoothing: quadrature nodes, or the eigenvalues. The weights sum to 1."""
    weights: Array
    probes: int
    steps: int
    """Products a probe."""
    exact: bool
    """Whether every eigenvalue is known, as it is in few dimensions."""
    dimension: int
    status: Status
    cost: Cost
    in_float64: bool = False
    """As for `Eigenpairs`."""

    def __repr__(self) -> str:
        trace = f"trace {measured(self.trace, self.trace_error)}, " if self.nodes.size else ""
        return f"<Density {_word(self.status)}: d = {self.dimension}, {trace}{_work(self.cost)}>"

    def __str__(self) -> str:
        rows = [("status", self.status.value), *_precision(self.in_float64), ("cost", _work(self.cost))]
        if self.nodes.size:
            how = "every eigenvalue" if self.exact else f"{self.probes} probes of {self.steps} steps"
            negative = float(self.weights[self.nodes < -self.width].sum())
            rows = [
                ("between", f"{self.nodes.min():.4g} and {self.nodes.max():.4g}"),
                ("trace", measured(self.trace, self.trace_error)),
                ("negative", f"a share of {negative:.2g} is below {-self.width:.2g}, minus the smoothing width"),
                ("by", how),
                *rows,
            ]
        return as_text(f"Density of {counted(self.dimension, 'eigenvalue')}.", rows)

    def plot(self) -> Figure:
        """Draw the density on a logarithmic scale, with its spread. Needs matplotlib, of the extra `plot`."""
        from unsaddle.spectrum.plots import plot_density

        return plot_density(self)


def _word(status: Status) -> str:
    """The name of a status in small letters, for a line: 'not finite'."""
    return status.name.lower().replace("_", " ")


def _precision(in_float64: bool) -> list[tuple[str, str]]:
    return [("precision", IN_FLOAT64)] * in_float64


def _work(cost: Cost) -> str:
    return counted(cost.gradients, "gradient")
