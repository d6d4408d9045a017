"""The cost of a computation, in oracle calls.

The paper uses two units, from Reddi et al. (2017): one *IFO* call is one gradient of one component, ∇f(x; ξ), and one
*ISO* call is one Hessian product of one component, ∇²f(x; ξ)v. One gradient of F_S on 6000 samples is 6000 IFO calls;
`Cost` counts both. A value that comes with a gradient at the same point is free and not counted.
"""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Oracle calls, and the samples that they used.

    >>> Cost(gradients=2, samples=200) + Cost(values=1, value_samples=100)
    Cost(gradients=2, values=1, hessian_products=0, samples=200, value_samples=100, hessian_samples=0)
    """

    gradients: int = 0
    """Gradients of F_S."""
    values: int = 0
    """Values of F_S that did not come with a gradient."""
    hessian_products: int = 0
    """Products ∇²F_S(x)v."""
    samples: int = 0
    """IFO calls: component gradients, the sum of |S| over all gradients."""
    value_samples: int = 0
    """Component values, the sum of |S| over all values."""
    hessian_samples: int = 0
    """ISO calls: component Hessian products, the sum of |S| over all products."""

    def __add__(self, other: Cost) -> Cost:
        return Cost(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(Cost)})

    def __sub__(self, other: Cost) -> Cost:
        return Cost(**{f.name: getattr(self, f.name) - getattr(other, f.name) for f in fields(Cost)})


class Ledger:
    """Counts oracle calls as they happen; `cost` reads it. Several sampled functions may share one ledger.

    It holds plain integers, because a stochastic method writes to it once per sample.
    """

    __slots__ = ("gradients", "hessian_products", "hessian_samples", "samples", "value_samples", "values")

    def __init__(self) -> None:
        self.gradients = self.values = self.hessian_products = 0
        self.samples = self.value_samples = self.hessian_samples = 0

    @property
    def cost(self) -> Cost:
        return Cost(**{f.name: getattr(self, f.name) for f in fields(Cost)})

    def add_gradient(self, size: int) -> None:
        self.gradients += 1
        self.samples += size

    def add_values(self, size: int, count: int = 1) -> None:
        self.values += count
        self.value_samples += count * size

    def add_hessian_product(self, size: int) -> None:
        self.hessian_products += 1
        self.hessian_samples += size
