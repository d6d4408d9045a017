"""How far away F comes to rest: what a gradient that is small beside L1 is measured by."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.measure.values import VALUE_ROUNDING
from unsaddle.objective import SampledFunction

FAR = 0.1
"""A gradient is not small if F comes to rest farther away than this share of max(1, ‖x‖)."""

NEAR, MUCH = 0.01, 0.01
"""Nor is it if F comes to rest farther away than the first share of max(1, ‖x‖), and falls on the way by more than the
second share of |F(x)|. In networks a few per cent of ‖x‖ may be most of the loss."""

STEPS = 20
"""The most gradients that are spent on the way to rest."""

SETTLED = 1e-3
"""The way ends where less than this share of ε is left of the gradient. Only directions that are softer than 1e-5·L1
could then lead farther than `FAR`."""

SHARES = (1.0, 0.5)
"""Shares of the way at which values have to confirm the fall: a valley may be bent."""

CONFIRMED = 0.25
"""A fall is confirmed if values show this share of what the quadratic promises."""

OPPOSITE = 0.5
"""Nor may F fall by more than this share of it on the way back: then curvature makes the fall, not the gradient."""

FARTHER = (4.0, 16.0)
"""Lengths in units of the distance to the lowest point of the quadratic. At the first, a quadratic is higher than at x.
At the second, xᵏ is, for k up to 8."""


class Approach(NamedTuple):
    """A point on the way from x to the lowest point of the quadratic that F is like next to x."""

    step: Tensor
    """s; the point is x + s."""
    fall: float
    """How far the quadratic falls to there."""
    rest: float
    """The norm of its gradient there."""
    way: Tensor
    """The direction of the next step. Its length is not 1."""
    slope: float
    """How far the quadratic falls along the way, for a short step."""


def approaches(f: SampledFunction, x: Tensor, radius: float) -> Iterator[Approach]:
    """The iterates of conjugate gradients on ∇²f(x)s = −∇f(x), by differences of gradients.

    The first is x itself, and ‖s‖ grows from one to the next. Ends where the gradient is zero, or the curvature along
    the way is not positive. Cost: one gradient each.
    """
    g = f.grad(x).clone()
    norm = vectors.norm(g)  # The unit of all vectors: squares of their sizes may underflow or overflow.
    rest = g.div(norm) if 0.0 < norm < math.inf else torch.zeros_like(g)
    way, step, fall = rest.neg(), torch.zeros_like(g), 0.0
    (left,) = vectors.dots((rest, rest))
    while True:
        yield Approach(step, fall, norm * math.sqrt(left), way, norm * left)
        if left == 0.0:
            return
        scale = radius / vectors.norm(way)
        product = f.grad_at_sum(x, way, scale).clone().sub_(g).div_(scale)
        (curvature,) = vectors.dots((way, product))
        if not curvature > 0.0:
            return
        length = norm * (left / curvature)
        fall += length * (norm * left) / 2.0
        step = torch.add(step, way, alpha=length)
        rest.add_(product, alpha=length / norm)
        (new,) = vectors.dots((rest, rest))
        way, left = way.mul(new / left).sub_(rest), new


def small_gradient(f: SampledFunction, x: Tensor, *, radius: float, eps: float, error: float = 0.0) -> float:
    """The norm up to which ∇f(x) leads to a point nearby; inf if it does.

    A stiff direction makes every gradient look small beside L1. It may lead far down all the same, along directions
    that are soft. So the quadratic that f is like next to x is followed down, by conjugate gradients. If that leads
    farther than `FAR`, and values confirm the fall, or farther than `NEAR`, and the fall is `MUCH`, the gradient is not
    small. Nor is it where f flattens out, as a logarithm does: if values farther along the first step, beyond `NEAR`,
    fall by more than a quadratic can.

    Args:
        f: the function.
        x: the point.
        radius: of the differences.
        eps: the norm up to which the gradient counts as small so far.
        error: how far the gradient may be off. What is smaller is not followed.

    Cost: two gradients and two or three values, if less than `SETTLED`·ε is left after that; else up to 1 + `STEPS`
    gradients, and two values more.

    >>> from unsaddle import Function
    >>> f = Function(lambda x: 5e3 * x[0] ** 2 + (x[1] - 1.0) ** 2 / 2.0)
    >>> x = torch.tensor([1e-4, 9.0], dtype=torch.float64)
    >>> round(small_gradient(f.sample(), x, radius=1e-8, eps=90.0), 3)
    0.907
    """
    size, here = max(1.0, vectors.norm(x)), float(f.value(x))
    far, near = FAR * size, NEAR * size
    rounding = VALUE_ROUNDING * torch.finfo(x.dtype).eps * abs(here)

    def falls_by(step: Tensor, share: float) -> float:
        return here - float(f.value(torch.add(x, step, alpha=share)))

    def confirms(step: Tensor, share: float, promised: float) -> bool:
        fall = falls_by(step, share)
        falls = fall > max(rounding, CONFIRMED * share * promised)
        return falls and not falls_by(step, -share) > OPPOSITE * fall

    def flattens_out(at: Approach) -> bool:
        far_enough = FARTHER[-1] * vectors.norm(at.step) > near  # Nearer, a kink may make it fall.
        return far_enough and all(falls_by(at.step, times) > at.fall + rounding for times in FARTHER)

    def unless_it_falls_much(at: Approach) -> float:
        length = vectors.norm(at.step)
        falls = length > near and falls_by(at.step, 1.0) > max(rounding, MUCH * abs(here))
        return norm * near / length if falls else math.inf

    norm, length, before = 0.0, math.inf, None
    for count, at in enumerate(approaches(f, x, radius)):
        if before is None:
            norm, before = at.rest, at
            continue
        length = vectors.norm(at.step)
        if length > far:
            break
        ends = count == STEPS or at.rest <= max(error, SETTLED * eps)
        if (count == 1 or ends) and flattens_out(at):
            return norm / FARTHER[-1]
        if ends:
            return unless_it_falls_much(at)
        before, length = at, math.inf
    assert before is not None
    if not before.rest > error:
        return unless_it_falls_much(before)
    step, promised = _up_to(before, far)
    if not any(confirms(step, share, promised) for share in SHARES):
        return unless_it_falls_much(before)
    return norm * (far / length if math.isfinite(length) else 0.5)


def _up_to(at: Approach, distance: float) -> tuple[Tensor, float]:
    """The step from an approach on along its way, up to a distance from x; and the least that the quadratic promises
    there, if its lowest point along the way is not nearer."""
    squared, along, so_far = vectors.dots((at.way, at.way), (at.step, at.way), (at.step, at.step))
    ahead = (math.sqrt(along**2 + squared * (distance**2 - so_far)) - along) / squared
    return torch.add(at.step, at.way, alpha=ahead), at.fall + ahead * at.slope / 2.0
