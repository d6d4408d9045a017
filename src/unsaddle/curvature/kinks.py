"""Products between the kinks next to x, for functions whose gradient jumps: ReLU, max-pooling.

The Hessian of such a function at x is that of the piece that x lies in. Probes that leave the piece see jumps of the
gradient instead. They look like noise, and noise asks for probes farther out, where there are more of them.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.curvature.displaced import DisplacedFunction
from unsaddle.measure.between_kinks import Gap, Opposite, gap, opposite
from unsaddle.measure.noise import FIRST_RADIUS, is_low_precision
from unsaddle.measure.survey import NARROW, Survey

START = {torch.float32: 5e-5, torch.float64: 1e-9}
"""The first radius that is tried between kinks, as a share of ‖x‖: some times that of a first search, as rounding falls
with it."""

LEVEL_RADII, LEVEL = (1.0, 0.5, 0.25), 3.0
"""Rounding is measured at these shares of the first radius of a search: nearer to x few coordinates move, and gradients
round less than in a product. Parts of gradients that are not linear count as rounding up to so many times the least."""

EXACT = 16.0
"""Where a second difference is exactly zero, rounding counts as so many units of precision: some for the sum, some for
the point beside a kink, which is farther out."""

NEAREST = {torch.float32: 3.0, torch.float64: 1e4}
"""The nearest radius of a product, in roundings of x. Nearer, a third of it would be rounding; in float64, 1e-4."""

ASIDE = 3.0
"""Where x lies on a kink, to rounding, products are taken so many first radii beside it."""

WIDER = 2.0
"""After a product whose first radius had no kink, the next one begins so many times farther out."""

APART = 1.5
"""Products are taken again from so many times the radius on, inwards: halvings never lead back to it."""

AGREE, SYMMETRIC = 0.1, 2
"""Products at half the radius differ by this share at most, if they are those of a Hessian, and are as symmetric, along
so many random vectors."""

LACKS = 0.2
"""Products next to x that are shorter than this share of those farther out lack a part of the function: it computes in
less than the precision of x."""

FAR = (1e-3, 3e-2)
"""Farther out: these shares of ‖x‖. The shorter product counts, as jumps make them longer, the more so nearer to x."""

MOST_GRADIENTS = 64
"""The most gradients of `between_kinks`."""

GRADIENTS_A_PRODUCT, SPARE_GRADIENTS = 4, 32
"""Every product but for the first ones takes at most so many gradients on average: it begins twice as far out as the
last one ended, at most. The first ones may come nearer in several steps."""


ALONG = 0.5
"""A unit vector is along the kinks if more than this share of it is."""

HALF_PRECISION = 0.5
"""Half precision is inside if more than this share of a gradient's entries has the trailing zeros of half precision."""


def may_have_kinks(f_hat: DisplacedFunction, around: Survey) -> bool:
    """Whether kinks may be to blame for products that disagree: not where gradients are known not to be precise, as
    those of solvers, of half precision, and of differences."""
    if around.has_memory or (is_low_precision(f_hat.grad0, HALF_PRECISION) and not around.jumps):
        return False
    return not f_hat.f.gradient_error(f_hat.value0, f_hat.grad_norm) > 0.0


class KinkMet(Exception):  # noqa: N818  (an outcome, not an error)
    """A kink was met that is too near to x for probes, and is none of those that are known."""

    def __init__(self, along: tuple[Tensor, ...], radius: float, even: float = math.inf) -> None:
        super().__init__("a kink that is not known")
        self.along, self.radius, self.even = along, radius, even


class BetweenKinks:
    """∇²f(x)v by central products, each as near to x as its two sides agree.

    Attributes:
        f_hat: f at x, or at a point beside the kink that x lies on.
        within: the gap between kinks.
        radius: of the last product.
        jump: the largest part of a product that a kink may have added, in norm: where its two sides did not agree even
            at the nearest radius. 0 if they always did.
        side: None if x lies on no kink. Else several pieces meet in x: 1 or −1 is the side of the kink where products
            are taken, 0 stands for products across it.
    """

    def __init__(self, f_hat: DisplacedFunction, within: Gap, side: float | None) -> None:
        self.f_hat, self.within, self.side, self._begin = f_hat, within, side, within.radius
        self.radius, self.jump = within.radius, 0.0

    @property
    def noise(self) -> float:
        """The rounding of a product at the last radius, in norm."""
        return math.sqrt(2.0) * self.within.noise / self.radius

    @property
    def rounding(self) -> float:
        """The error of a product at the last radius, in norm: of rounding, and of kinks that were met."""
        return math.hypot(self.noise, self.jump)

    def multiply(self, q: Tensor, out: Tensor) -> None:
        """out ← ∇²f(x)q for a unit q. Two gradients, and two more for every radius at which a kink was met.

        Where x lies on kinks, both q and the product are taken along them. What rounding has left of a q that is not
        along them has no product.
        """
        if self.within.kinks is not None:
            q = self.within.kinks.along(q.clone())
            length = vectors.norm(q)
            if length < ALONG:
                out.zero_()
                return
            q.div_(length)
        probes = self._probes(q, self._begin)
        torch.div(probes.difference, self._way(q, probes.radius), out=out)
        if self.within.kinks is not None:
            self.within.kinks.along(out)  # Of a jump that is taken out once, rounding is left, and would grow.
        first_was_clean, self.radius = len(probes.evens) == 1 and probes.clean, probes.radius
        self._begin = min(WIDER * self.radius, self.within.farthest) if first_was_clean else self.radius

    def again(self, v: Tensor) -> Tensor:
        """∇²f(x)v in a new vector, at another radius than that of the last product. As many gradients."""
        probes = self._probes(v, APART * self.radius)
        return probes.difference.div_(self._way(v, probes.radius))

    def _way(self, v: Tensor, radius: float) -> float:
        """How far the two points x ± rv are apart along v: 2r, but for the rounding of their coordinates."""
        x = self.f_hat.x
        (way,) = vectors.dots((v, torch.add(x, v, alpha=radius).sub_(torch.sub(x, v, alpha=radius))))
        return way if way > 0.0 else 2.0 * radius

    def _probes(self, v: Tensor, begin: float) -> Opposite:
        f_hat = self.f_hat
        within = replace(self.within, radius=begin)
        probes = opposite(f_hat.f, f_hat.x, v, f_hat.grad0, within, sides=within.kinks is None)
        if not probes.clean and self.within.kinks is not None:
            raise KinkMet((v,), probes.radius, probes.evens[-1])
        if not probes.clean:
            self.jump = max(self.jump, probes.evens[-1] / (2.0 * probes.radius))
        return probes


def between_kinks(
    f_hat: DisplacedFunction, along: Tensor, generator: torch.Generator, sides: tuple[float, ...] = (1.0, -1.0)
) -> BetweenKinks | None:
    """Products between the kinks next to x, if there is room for them; None if not.

    Where x lies on a kink, its sides are tried in the order given.

    There is if, along a unit vector that the Hessian does not map to zero, the two sides of x agree at some radius, the
    product at half of it is the same, and not far shorter than farther out, and products are symmetric.

    Cost: 22 gradients, and two for every radius that is tried beside the first ones.
    """
    f, x, grad0, scale, dtype = f_hat.f, f_hat.x, f_hat.grad0, f_hat.x_norm or 1.0, f_hat.x.dtype
    nearest = NEAREST[dtype] * torch.finfo(dtype).eps * scale
    level, jump = _level(f_hat, generator)
    side = None
    if jump is not None:
        f_hat, side = _aside(f_hat, jump, level, generator, sides)
        f, x, grad0 = f_hat.f, f_hat.x, f_hat.grad0
    within = gap(
        f, x, f_hat.x_norm, grad0, generator, along=along, level=level, start=START[dtype] * scale, nearest=nearest,
        sides=True,
    )  # fmt: skip
    if within is None:
        return None
    found = BetweenKinks(f_hat, within, side)
    return None if no_hessian(found, along, generator) else found


def no_hessian(found: BetweenKinks, along: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
    """The unit vectors along which products are not those of a Hessian: the same at half the radius, not far shorter
    than farther out, and symmetric. None if they are."""
    f_hat, within = found.f_hat, found.within
    f, x, grad0, scale = f_hat.f, f_hat.x, f_hat.grad0, f_hat.x_norm or 1.0
    near = torch.empty_like(x)
    found.multiply(along, near)
    sides = within.kinks is None
    nearer = opposite(f, x, along, grad0, replace(within, radius=found.radius / 2.0), sides=sides)
    length, off = vectors.norm(near), vectors.norm(near - nearer.difference.div_(2.0 * nearer.radius))
    farther = (f_hat.central_product(along, share * scale) for share in FAR)
    far = min(vectors.norm(far if within.kinks is None else within.kinks.along(far)) for far in farther)
    longest = NARROW * far if within.kinks is not None else math.inf
    is_hessian = off <= AGREE * length and LACKS * far <= length <= longest and math.isfinite(far)
    if not is_hessian:
        return (along,)
    return next((pair for _ in range(SYMMETRIC) if (pair := _asymmetric(found, x, generator))), ())


def _asymmetric(found: BetweenKinks, x: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
    """A random v and Hv/‖Hv‖, if vᵀH(Hv) is not ‖Hv‖², as it is for a symmetric H; else empty. Two products.

    Within a step of a staircase the gradient may change with a scale alone, which makes no Hessian.
    """
    v = vectors.random_direction(x, generator)
    if found.within.kinks is not None:
        v = found.within.kinks.along(v)
        v.div_(vectors.norm(v))
    w, image = torch.empty_like(v), torch.empty_like(v)
    found.multiply(v, w)
    length = vectors.norm(w)
    if not length > 0.0:
        return (v,)
    found.multiply(w.div_(length), image)
    (back,) = vectors.dots((v, image))
    return () if abs(back - length) <= AGREE * length else (v, w)


def _level(f_hat: DisplacedFunction, generator: torch.Generator) -> tuple[float, Tensor | None]:
    """What rounding makes of ∇f(x+rv) + ∇f(x−rv) − 2∇f(x), at most; and this vector at the last radius, if more is in
    it: a jump at a kink right beside x. Six gradients.

    By second differences along a random direction, over x and on each side of it: kinks are in some of them only.
    """
    x, grad0 = f_hat.x, f_hat.grad0
    v, first = vectors.random_direction(x, generator), FIRST_RADIUS[x.dtype] * (f_hat.x_norm or 1.0)
    seconds, farther, even = list[float](), list[Tensor](), torch.empty_like(x)
    for share in LEVEL_RADII:
        sides = [f_hat.f.grad_at_sum(x, v, sign * share * first) - grad0 for sign in (1.0, -1.0)]
        even = sides[0] + sides[1]
        seconds += [vectors.norm(far - 2.0 * near) for far, near in zip(farther, sides, strict=False)]
        seconds.append(vectors.norm(even))
        farther = sides
    # A second difference of zero is an accident, or exact: then a gradient's own rounding is what is left.
    nearest = LEVEL_RADII[-1] * first
    of_x = vectors.norm(farther[0]) * (1.0 + f_hat.x_norm / nearest)  # L1·‖x + u‖
    rounding = EXACT * torch.finfo(x.dtype).eps * (f_hat.grad_norm + of_x)
    level = LEVEL * min(second or rounding for second in seconds)
    # At a jump of the Hessian at x, the two sides differ by the same share at every radius.
    same = AGREE * vectors.norm(farther[0] - farther[1])
    return level, even if seconds[-1] > min(level, same) else None


def _aside(
    f_hat: DisplacedFunction, jump: Tensor, level: float, generator: torch.Generator, sides: tuple[float, ...]
) -> tuple[DisplacedFunction, float]:
    """f at a point that is a few roundings away from the kink which x lies on, and on which side of it; f at x and 0 if
    that is no better.

    The gradient jumps across a kink along its normal. Up to five gradients on each side that is tried.
    """
    x, way = f_hat.x, ASIDE * FIRST_RADIUS[f_hat.x.dtype] * (f_hat.x_norm or 1.0)
    normal, v = jump / vectors.norm(jump), vectors.random_direction(x, generator)
    for sign in sides:
        there = DisplacedFunction(f_hat.f, torch.add(x, normal, alpha=sign * way))
        for u in (normal, v):
            probes = [there.f.grad_at_sum(there.x, u, side * way / 2.0) - there.grad0 for side in (1.0, -1.0)]
            if not vectors.norm(probes[0] + probes[1]) <= level:
                break
        else:
            return there, sign
    return f_hat, 0.0
