"""Where the first answer is inaccurate: the same in float64, refined or searched again, and between kinks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from unsaddle.spectrum.hessian import Hessian, Inexact, asked_in_double, nearer_kinks
from unsaddle.spectrum.result import Status
from unsaddle.vectors import random_direction


class Answer(Protocol):
    """Whatever a search returns."""

    @property
    def status(self) -> Status: ...


Found = TypeVar("Found", bound=Answer)


def looked_again(
    hessian: Hessian,
    search: Callable[[Hessian], Found],
    worst: Callable[[Found], Tensor | None],
    generator: torch.Generator,
    refine: Callable[[Hessian, Found], Found | None] = lambda *_: None,
) -> tuple[Found, Hessian]:
    """The answer of a search, and the Hessian that it is of. If it is INACCURATE, or ends by an `Inexact`, that of F
    in float64, where it can be had. If that is, too, and kinks are to blame, that of products between them.

    Args:
        hessian: whose products the first search takes.
        search: from a Hessian to an answer. Called three times at most; not in float64 where `refine` answers.
        worst: the unit vector of an answer along which radii disagree most; None to leave it at the first answer.
        generator: of the random vectors that tell whether products are those of a Hessian.
        refine: makes an answer of F in float64 from one that is nearly right, for less than a search; None if it is
            not.
    """
    try:
        found = _held(hessian, search)
    except Inexact:
        double = asked_in_double(hessian, random_direction(hessian.x, generator), generator)
        hessian = double or replace(hessian, wary=False)
        found = _held(hessian, search)

    def other(look: Callable[[Hessian, Tensor, torch.Generator], Hessian | None]) -> Hessian | None:
        v = worst(found) if found.status is Status.INACCURATE else None
        return None if v is None else look(hessian, v, generator)

    double = other(asked_in_double)
    if double is not None:
        nearly, hessian = found, double
        found = _held(hessian, lambda h: refine(h, nearly) or search(h))
    nearer = other(nearer_kinks)
    if nearer is not None:
        hessian, found = nearer, _held(nearer, search)
    return found, hessian


def _held(hessian: Hessian, search: Callable[[Hessian], Found]) -> Found:
    """The answer of one search. A copy of a model is made before or after it, where the model is as it was."""
    with hessian.held():
        return search(hessian)
