"""What to say where a search met no Hessian: it is zero at x, or the gradient jumps there."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.curvature.result import Curvature, Status
from unsaddle.judgement.flat_direction import FlatFall, told
from unsaddle.judgement.lower_points import Around
from unsaddle.judgement.reasons import HIGHER_ORDER, kink_of
from unsaddle.objective import SampledFunction

SHAPES = (Status.NOT_CONFIRMED, Status.NOT_QUADRATIC, Status.PRECISION_TOO_LOW)
"""How a search ends that met no Hessian."""

NEAR, FAR = 1e-4, 1e-2
"""Distances from x, as shares of max(1, ‖x‖), at which gradients tell how they change."""

ZERO_FROM, KINK_TO = 1.5, 0.5
"""Gradients change with the first power of the distance. With a power above the first number, the Hessian is zero; up
to the second, they jump."""


class Growth(NamedTuple):
    """How the gradient changes from x on."""

    order: float
    """k if the change grows as the k-th power of the distance: 1 for a Hessian, 0 for a kink, 2 or more where the
    Hessian is zero."""
    change: float
    """Its norm at the nearer of two distances."""


def growth(f: SampledFunction, x: Tensor, v: Tensor) -> Growth:
    """How ∇f(x + sv) − ∇f(x) grows with s, by two distances. Three gradients.

    >>> from unsaddle import Function
    >>> x, v = torch.zeros(2, dtype=torch.float64), torch.tensor([0.6, 0.8], dtype=torch.float64)
    >>> fun = {"x²": lambda x: (x**2).sum(), "x⁴": lambda x: (x**4).sum(), "|x|": lambda x: x.abs().sum()}
    >>> {name: round(growth(Function(f).sample(), x, v).order, 2) for name, f in fun.items()}
    {'x²': 1.0, 'x⁴': 3.0, '|x|': 0.0}
    """
    size, grad = max(1.0, vectors.norm(x)), f.grad(x).clone()
    near, far = (vectors.norm(f.grad_at_sum(x, v, share * size) - grad) for share in (NEAR, FAR))
    return Growth(math.log(far / near) / math.log(FAR / NEAR) if 0.0 < near <= far < math.inf else 0.0, near)


def without_hessian(
    reason: str, found: Curvature, f: SampledFunction, x: Tensor, generator: torch.Generator
) -> tuple[str, FlatFall | None]:
    """The reason where a search met no Hessian, by how gradients grow; and where the Hessian is zero, how F falls.

    Three gradients, and what `Around.lower_point` takes if the Hessian is zero.
    """
    if found.survey is not None and found.survey.has_memory:
        return reason, None
    v = vectors.random_direction(x, generator)
    order, change = growth(f, x, v)
    if order > ZERO_FROM:
        around = Around(f, x)
        lower = around.lower_point(v)
        return HIGHER_ORDER, None if lower is None else told(around, lower)
    return kink_of(found, change) if order <= KINK_TO and reason == HIGHER_ORDER else reason, None
