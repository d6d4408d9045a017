"""The Hessian of F_S at x as a map v ↦ ∇²F_S(x)v, by gradient differences at a radius that follows what was measured.

Gradients around x are surveyed first. Where they are as good as their dtype, a product takes one gradient, next to x:
25 roundings of float32, where products of networks are within a per cent. Where noise asks for more distance, products
are from both sides, so that the third derivative drops out. Where kinks, as of ReLU, are to blame instead, or
rounding is more than is allowed, F is asked in float64, on a copy; or, without one, products are taken between kinks.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.cost import Ledger
from unsaddle.curvature.displaced import DisplacedFunction
from unsaddle.curvature.in_double import InFloat64, in_double, may_double
from unsaddle.curvature.kinks import (
    FAR,
    GRADIENTS_A_PRODUCT,
    LACKS,
    MOST_GRADIENTS,
    SPARE_GRADIENTS,
    BetweenKinks,
    between_kinks,
    may_have_kinks,
)
from unsaddle.curvature.krylov.attempts import FARTHER, FARTHEST
from unsaddle.curvature.question import RELATIVE_GAMMA, Question
from unsaddle.measure.direction import ROUNDINGS
from unsaddle.measure.noise import FIRST_RADIUS, gradient_noise
from unsaddle.measure.survey import Survey, survey
from unsaddle.objective import BaseObjective, as_objective
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

SHARES = (1.0, 1e-2)
"""In float64, products are taken at the first of these shares of the first radius at which they are those of a Hessian:
kinks may be nearer."""

SYMMETRIC, ASKEW = 0.1, 0.02
"""They are if they are as symmetric, to the first share. A search in float32 ends where its products are not, by the
second share of the largest |eigenvalue|, if F may be asked in float64. Rounding makes 0.002 to 0.015 of it."""


class Inexact(Exception):  # noqa: N818  (an outcome, not an error)
    """Products are not good enough for a search, and F may be asked in float64."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Hessian:
    """∇²F_S(x), known by its products."""

    objective: BaseObjective
    f_hat: DisplacedFunction
    around: Survey
    sampled: bool
    """Whether F_S is less than F."""
    dtype: torch.dtype
    """That of the caller's vectors."""
    share: float = 0.0
    """Where F is asked in float64 all through: the radius of all products, as a share of the first one. Else 0."""
    in_float64: bool = False
    """Whether `f_hat` is that of a copy of F in float64."""
    wary: bool = False
    """Whether F may be asked in float64 yet, so that a search is to end where products are off."""
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
        if self.share > 0.0:
            return self.first
        size, first = self.f_hat.x_norm or 1.0, self.first
        noise = max(self.around.noise, self.f_hat.f.gradient_error(self.f_hat.value0, self.f_hat.grad_norm))
        largest = max(largest, self.around.curvature)
        wanted = math.sqrt(2.0) * noise / (ROUNDING_SHARE * RELATIVE_GAMMA * largest) if largest > 0.0 else 0.0
        farthest = (FARTHER if self.around.suspicious else FARTHEST) * size
        return max(min(max(first, wanted), farthest), self.around.nearest)

    @property
    def first(self) -> float:
        """The radius of the first products."""
        eps, share = torch.finfo(self.x.dtype).eps, self.share or 1.0
        return share * (FIRST_RADIUS[self.x.dtype] * self.f_hat.x_norm if self.f_hat.x_norm > 0.0 else math.sqrt(eps))

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

    It takes a few more where gradients contradict each other. Where products do, it takes up to 26 to ask F in float64,
    or else up to 64 to find the gap between kinks. A budget that is too small for that leaves it out.
    """
    f = objective.sample(Question(samples=samples).sample_size(objective), generator, ledger=ledger)
    f_hat = DisplacedFunction(f, x)
    around = Survey(noise=math.nan, curvature=math.nan, drowned=True)
    if f_hat.is_finite:
        around = survey(f.grad, x, f_hat.x_norm, f_hat.grad0, generator)
        if around.again is not None:  # The first gradient is that of a solver that had not moved.
            f_hat.renew(around.again)
    sampled = objective.num_samples is None or f.size < objective.num_samples
    wary = f_hat.is_finite and not sampled and not around.has_memory and may_double(objective, x, None)
    hessian = Hessian(objective=objective, f_hat=f_hat, around=around, sampled=sampled, dtype=x.dtype, wary=wary)
    if max_gradients is None or max_gradients >= 2 * MOST_GRADIENTS:
        hessian = _beside_kinks(hessian, generator)
    return hessian if max_gradients is None else replace(hessian, wary=False)


def _beside_kinks(hessian: Hessian, generator: torch.Generator) -> Hessian:
    """The Hessian, with products in float64 or between kinks if its own are not those of a Hessian, and there is room.

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
    double = asked_in_double(hessian, q, generator)
    if double is not None:
        return double
    hessian, between = replace(hessian, wary=False), between_kinks(f_hat, q, generator)
    if between is not None:
        return replace(hessian, between=between)
    hessian.multiply(q, near, length)
    off = vectors.norm(near - hessian.measure(q, length))  # Noise is small where products are taken; kinks are not.
    return replace(hessian, kinks=not off <= CONTRADICT * vectors.norm(near), contradiction=off)


def asked_in_double(hessian: Hessian, v: Tensor, generator: torch.Generator) -> Hessian | None:
    """The Hessian of F in float64 all through, for one along whose unit vector v two radii disagreed.

    None if F cannot be had in float64, or if its products are not those of a Hessian at any of `SHARES`. Up to 26
    gradients.
    """
    around = hessian.around
    if not hessian.wary:
        return None
    double = in_double(hessian.objective, hessian.x, around.curvature, around.noise, 0.0, hessian.ledger)
    if double is None:
        return None
    try:
        asked = _of_copy(hessian, double, generator)
        v, nearer = v.to(double.x.dtype), (replace(asked, share=share) for share in SHARES)
        return next((one for one in nearer if _is_a_hessian(one, v, generator)), None)
    except Exception:  # The caller's code may refuse float64 beside x alone.
        return None


def _of_copy(hessian: Hessian, double: InFloat64, generator: torch.Generator) -> Hessian:
    """The Hessian of F in float64, with its gradients surveyed."""
    f = as_objective(double.objective).sample(generator=generator, ledger=hessian.ledger)
    f_hat = DisplacedFunction(f, double.x)
    seen = gradient_noise(f.grad, f_hat.x, f_hat.x_norm, f_hat.grad0, generator)
    return replace(
        hessian,
        objective=as_objective(double.objective),
        f_hat=f_hat,
        around=Survey(noise=seen.noise, curvature=seen.curvature, drowned=seen.drowned),
        in_float64=double.objective is not hessian.objective,
        wary=False,
    )


def _is_a_hessian(hessian: Hessian, v: Tensor, generator: torch.Generator) -> bool:
    """Whether products next to x are the same at two radii, not far shorter than farther out, and symmetric.

    Along v, and along the product of a random vector, where eigenvalues are large. Nine gradients.
    """
    f_hat, random = hessian.f_hat, vectors.random_direction(hessian.x, generator)
    q = f_hat.product(random, hessian.first)
    size = vectors.norm(q)
    if not (math.isfinite(size) and size > 0.0):
        return False
    q.div_(size)
    for u in (q, v):
        near = f_hat.product(u, hessian.first)
        length = max(size, vectors.norm(near))
        if not vectors.norm(near - hessian.measure(u, length)) <= AGREE * length:
            return False
        if u is q:
            (back,) = vectors.dots((random, near))
            far = min(vectors.norm(f_hat.central_product(q, share * (f_hat.x_norm or 1.0))) for share in FAR)
            if not (abs(back - size) <= SYMMETRIC * size and LACKS * far <= length):
                return False
    return True


def nearer_kinks(hessian: Hessian, v: Tensor, generator: torch.Generator) -> Hessian | None:
    """The Hessian with products between kinks, for one along whose unit vector v two radii disagreed; None if it has
    them already, or there is no room for them. Up to 64 gradients.

    The first comparison is along one vector. Kinks may lie elsewhere.
    """
    if hessian.between is not None or hessian.kinks or hessian.around.narrow > 0.0:
        return None
    if not may_have_kinks(hessian.f_hat, hessian.around):
        return None
    between = between_kinks(hessian.f_hat, v.to(hessian.x.dtype), generator)
    return None if between is None else replace(hessian, between=between)
