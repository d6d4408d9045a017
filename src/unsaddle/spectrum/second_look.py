"""A second search by products between kinks, where the first one is inaccurate because of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from unsaddle.spectrum.hessian import Hessian, nearer_kinks
from unsaddle.spectrum.result import Status


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
) -> Found:
    """The answer of a search. If it is INACCURATE, and kinks are to blame, that of a second one between them.

    Args:
        hessian: whose products the first search takes.
        search: from a Hessian to an answer. Called twice at most.
        worst: the unit vector of an answer along which radii disagree most; None to leave it at the first answer.
        generator: of the random vectors that look for the gap between kinks.
    """
    found = search(hessian)
    v = worst(found) if found.status is Status.INACCURATE else None
    between = None if v is None else nearer_kinks(hessian, v, generator)
    return found if between is None else search(between)
