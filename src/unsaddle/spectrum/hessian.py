"""The Hessian of F_S at x as a map v ↦ ∇²F_S(x)v, by gradient differences at a radius that follows what was measured.

Gradients around x are surveyed first. Where they are as good as their dtype, a product takes one gradient, next to x:
25 roundings of float32, where products of networks are within a per cent. Where noise asks for more distance, products
are from both sides, so that the third derivative drops out. Where kinks, as of ReLU, are to blame instead, products are
taken between them (`kinks`).
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from unsaddle import checks, vectors
from unsaddle.cost import Cost, Ledger
from unsaddle.curvature.displaced import DisplacedFunction
from unsaddle.curvature.kinks import (
    GRADIENTS_A_PRODUCT,
    MOST_GRADIENTS,
    SPARE_GRADIENTS,
    BetweenKinks,
    between_kinks,
    may_have_kinks,
)
from unsaddle.curvature.krylov.attempts import FARTHER, FARTHEST
from unsaddle.curvature.question import RELATIVE_GAMMA, Question
from unsaddle.measure.direction import ROUNDINGS
from unsaddle.measure.noise import FIRST_RADIUS
from unsaddle.measure.survey import Survey, survey
from unsaddle.objective import BaseObjective, Objective, as_objective, point_of, with_its_ranks
from unsaddle.ranks import Ranks, together
from unsaddle.vectors import Array

ROUNDING_SHARE = 0.03
"""The rounding of a product, √2σ/r, as a share of a hundredth of the largest eigenvalue."""

ONE_SIDED = 30.0
"""Products are from one side up to so many times the first radius: 1e-4 of ‖x‖ in float32. Farther out, the third
derivative would change eigenvalues by more than rounding does."""

ALONG = 2.0
"""The error along the eigenvector of the largest eigenvalue is taken to be at most so many roundings of a product. It
was up to 1.35 of them in `benchmarks.spectrum --only errors`."""

FARTHER_OUT = 2.0
"""What a search found is measured again so many times as far from x."""


BLIND, NEGLIGIBLE = 0.5, 1e-3
"""Products that are off by more than the first share of a level do not tell what lies beyond it. An error below the
second share of the largest |eigenvalue| is none, however small the level is."""

AGREE, CONTRADICT = 0.02, 0.1
"""Products at two radii are those of a Hessian if they differ by the first share at most. Where they differ by more
than the second one, there is no Hessian to be seen."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Hessian:
    """∇²F_S(x), known by its products."""

    objective: BaseObjective
    f_hat: DisplacedFunction
    around: Survey
    sampled: bool
    """Whether F_S is less than F."""
    between: BetweenKinks | None = None
    """Products between the kinks next to x; None if there are no kinks, or no room between them."""
    kinks: bool = False
    """Whether there are kinks without room between them: whatever the radius, products contradict each other."""
    contradiction: float = 0.0
    """By how much they do, in norm, along one unit vector."""

    @property
    def x(self) -> Tensor:
        return self.f_hat.x

    @property
    def ledger(self) -> Ledger:
        return self.f_hat.f.ledger

    @property
    def is_finite(self) -> bool:
        return self.f_hat.is_finite and math.isfinite(self.around.noise + self.around.curvature)

    def is_one(self, level: float, largest: float) -> bool:
        """Whether products at different radii are those of one matrix, down to eigenvalues of the size of `level`.

        They are not where they contradict each other by more than half of it: at kinks without room between them, or
        where gradients far from x have an even part. Where the Hessian is zero they do, too, but by next to nothing.
        """
        if self.between is not None:
            error = self.between.rounding
        else:
            broken = self.rounding(largest) if self.around.broken else 0.0  # The even part of a far product.
            error = self.contradiction if self.kinks else broken
        return error <= max(BLIND * level, NEGLIGIBLE * largest)

    def radius(self, largest: float) -> float:
        """r for products, if `largest` is the largest |eigenvalue| seen so far."""
        size, first = self.f_hat.x_norm or 1.0, self.first
        noise = max(self.around.noise, self.f_hat.f.gradient_error(self.f_hat.value0, self.f_hat.grad_norm))
        largest = max(largest, self.around.curvature)
        wanted = math.sqrt(2.0) * noise / (ROUNDING_SHARE * RELATIVE_GAMMA * largest) if largest > 0.0 else 0.0
        farthest = (FARTHER if self.around.suspicious else FARTHEST) * size
        return max(min(max(first, wanted), farthest), self.around.nearest)

    @property
    def first(self) -> float:
        """The radius of the first products."""
        eps = torch.finfo(self.x.dtype).eps
        return FIRST_RADIUS[self.x.dtype] * self.f_hat.x_norm if self.f_hat.x_norm > 0.0 else math.sqrt(eps)

    def is_central(self, radius: float) -> bool:
        """Whether products at this radius are taken from both sides."""
        return radius > ONE_SIDED * self.first or self.around.has_memory or self.around.nearest > 0.0

    def gradients_a_step(self, largest: float) -> int:
        """Gradients that a product takes, at most; between kinks, on average."""
        if self.between is not None:
            return GRADIENTS_A_PRODUCT
        return 1 + self.is_central(self.radius(largest))

    def steps_left(self, max_gradients: int | None, largest: float) -> float:
        """Products that a budget of gradients still allows; inf without one."""
        if max_gradients is None:
            return math.inf
        spare = SPARE_GRADIENTS if self.between is not None else 0
        return max(0, max_gradients - spare - self.ledger.gradients) // self.gradients_a_step(largest)

    def rounding(self, largest: float) -> float:
        """The rounding of a product, √2σ/r, in norm."""
        if self.between is not None:
            return self.between.rounding
        return math.sqrt(2.0) * self.around.noise / self.radius(largest)

    def error_along(self, curvature: Array, largest: float) -> Array:
        """What two radii may not show in curvatures along unit vectors, since they may agree by chance.

        The part of a product's rounding that lies along one vector: a √d-th of it, and a share that grows with the
        curvature, as the rounding of x + rv does. Between kinks, also jumps of the gradient that no radius could avoid.
        """
        share = np.abs(curvature) / largest if largest > 0.0 else np.zeros_like(curvature)
        even = ROUNDINGS / math.sqrt(vectors.dimension(self.x))
        if self.between is None:
            return self.rounding(largest) * (ALONG * share + even)
        sums = ROUNDINGS * torch.finfo(self.x.dtype).eps * largest
        return self.between.jump + even * self.between.noise + sums * np.ones_like(share)

    def multiply(self, q: Tensor, out: Tensor, largest: float) -> None:
        """out ← ∇²F_S(x)q for a unit q. One gradient, or two where products are central; about three between kinks."""
        if self.between is not None:
            self.between.multiply(q, out)
            return
        r = self.radius(largest)
        (self.f_hat.central_product if self.is_central(r) else self.f_hat.product)(q, r, out)

    def held(self) -> AbstractContextManager[None]:
        """For many products in a row: a model is put back at the end, not after each."""
        return self.f_hat.f.held()

    def measure(self, v: Tensor, largest: float) -> Tensor:
        """∇²F_S(x)v for a unit v, in a new vector, at another radius than `multiply`: with another error.

        On the other side of x, by one gradient; or from both sides, farther out, where products are central.
        """
        if self.between is not None:
            return self.between.again(v)
        r, farthest = self.radius(largest), FARTHER * (self.f_hat.x_norm or 1.0)
        if self.is_central(r):
            return self.f_hat.central_product(v, min(FARTHER_OUT * r, max(farthest, r)))
        return self.f_hat.product(v, -FARTHER_OUT * r)

    def is_one_sided(self, largest: float) -> bool:
        """Whether `multiply` and `measure` take one gradient, each on its side of x."""
        return self.between is None and not self.is_central(self.radius(largest))

    def opposite(self, v: Tensor, largest: float) -> Tensor:
        """`measure` on the other side of x, which is that of `multiply`. One gradient."""
        return self.f_hat.product(v, FARTHER_OUT * self.radius(largest))

    def both(self, near: Array, far: Array, largest: float) -> Array:
        """Curvatures along vectors, from those by `multiply` and by `measure`.

        On opposite sides of x the third derivative enters with opposite signs, in proportion to the radius. These
        weights cancel it.
        """
        if self.between is not None or self.is_central(self.radius(largest)):
            return far
        mean: Array = (FARTHER_OUT * near + far) / (FARTHER_OUT + 1.0)
        return mean


def hessian_at(
    objective: BaseObjective,
    x: Tensor,
    samples: int | None,
    generator: torch.Generator,
    ledger: Ledger,
    max_gradients: int | None = None,
) -> Hessian:
    """Draws F_S, takes ∇F_S(x), surveys the gradients around x, and compares products at two radii: ten gradients.

    It takes a few more where gradients contradict each other, and up to 64 to find the gap between kinks, where
    products do. A budget that is too small for that leaves it out.
    """
    f = objective.sample(Question(samples=samples).sample_size(objective), generator, ledger=ledger)
    f_hat = DisplacedFunction(f, x)
    around = Survey(noise=math.nan, curvature=math.nan, drowned=True)
    if f_hat.is_finite:
        around = survey(f.grad, x, f_hat.x_norm, f_hat.grad0, generator)
        if around.again is not None:  # The first gradient is that of a solver that had not moved.
            f_hat.renew(around.again)
    sampled = objective.num_samples is None or f.size < objective.num_samples
    hessian = Hessian(objective=objective, f_hat=f_hat, around=around, sampled=sampled)
    if max_gradients is not None and max_gradients < 2 * MOST_GRADIENTS:
        return hessian
    return _beside_kinks(hessian, generator)


def _beside_kinks(hessian: Hessian, generator: torch.Generator) -> Hessian:
    """The Hessian, with products between kinks if its own are not those of a Hessian, and there is room.

    Asked along the product of a random vector, where eigenvalues are large.
    """
    f_hat = hessian.f_hat
    if not hessian.is_finite or hessian.around.narrow > 0.0 or not may_have_kinks(f_hat, hessian.around):
        return hessian
    q = f_hat.product(vectors.random_direction(hessian.x, generator), hessian.first)
    length = vectors.norm(q)
    if not (math.isfinite(length) and length > 0.0):
        return hessian
    q.div_(length)
    near = f_hat.product(q, hessian.first)
    length = vectors.norm(near)
    if vectors.norm(near - hessian.measure(q, length)) <= AGREE * length:
        return hessian
    between = between_kinks(f_hat, q, generator)
    if between is not None:
        return replace(hessian, between=between)
    hessian.multiply(q, near, length)
    off = vectors.norm(near - hessian.measure(q, length))  # Noise is small where products are taken; kinks are not.
    return replace(hessian, kinks=not off <= CONTRADICT * vectors.norm(near), contradiction=off)


def nearer_kinks(hessian: Hessian, v: Tensor, generator: torch.Generator) -> Hessian | None:
    """The Hessian with products between kinks, for one along whose unit vector v two radii disagreed; None if it has
    them already, or there is no room for them. Up to 64 gradients.

    The first comparison is along one vector. Kinks may lie elsewhere.
    """
    if hessian.between is not None or hessian.kinks or hessian.around.narrow > 0.0:
        return None
    if not may_have_kinks(hessian.f_hat, hessian.around):
        return None
    between = between_kinks(hessian.f_hat, v, generator)
    return None if between is None else replace(hessian, between=between)


class HessianOperator:
    """v ↦ ∇²F(x)v by gradient differences, as a callable on flat torch vectors.

    Made by `hessian_operator`. One gradient a product; two where the gradients around x are noisy, so that products
    have to be taken farther out.
    """

    def __init__(self, hessian: Hessian, ranks: Ranks | None) -> None:
        self._hessian, self._ranks, self._largest = hessian, ranks, 0.0

    @property
    def dimension(self) -> int:
        """d of the whole vector, also where this rank holds a part of it."""
        with together(self._ranks):
            return vectors.dimension(self._hessian.x)

    @property
    def x(self) -> Tensor:
        return self._hessian.x

    @property
    def cost(self) -> Cost:
        """All evaluations so far."""
        return self._hessian.ledger.cost

    def __call__(self, v: Tensor) -> Tensor:
        """∇²F(x)v, in a new vector."""
        x = self._hessian.x
        v = checks.vector_like(v, x, "v")
        with together(self._ranks):
            length = vectors.norm(v)
            if length == 0.0:
                return torch.zeros_like(x)
            out = torch.empty_like(x)
            self._hessian.multiply(v / length, out, 0.0)
            return out.mul_(length)


def hessian_operator(
    objective: Objective, x: Tensor | None = None, *, samples: int | None = None, seed: int = 0
) -> HessianOperator:
    """The Hessian of F at x as a callable v ↦ ∇²F(x)v on torch vectors, with gradients only.

    Args:
        objective: F.
        x: the point. It may be left out for an objective that has a `point` of its own.
        samples: |S|, drawn once; None for everything, or for 1024 samples of a stream.
        seed: of the samples, and of the survey of the gradients around x.

    `unsaddle.interop.scipy.hessian_operator` is the same for SciPy's sparse linear algebra.

    >>> from unsaddle import Function
    >>> H = hessian_operator(Function(lambda x: x[0] ** 2 - x[1] ** 2), torch.zeros(2, dtype=torch.float64))
    >>> [round(float(entry), 6) for entry in H(torch.tensor([3.0, 1.0], dtype=torch.float64))]
    [6.0, -2.0]
    """
    whole = as_objective(objective)
    return HessianOperator(_prepared(whole, x=point_of(whole, x), samples=samples, seed=seed), whole.ranks)


@with_its_ranks
def _prepared(objective: BaseObjective, *, x: Tensor, samples: int | None, seed: int) -> Hessian:
    generator = torch.Generator().manual_seed(checks.seed(seed))
    return hessian_at(objective, x, samples, generator, Ledger())
