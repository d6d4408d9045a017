"""F in float64, to be asked again where float32 hides the curvature."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.cost import Ledger
from unsaddle.curvature.auto import free_memory
from unsaddle.curvature.posed import Posed, posed
from unsaddle.curvature.question import Question
from unsaddle.curvature.result import Curvature, Status
from unsaddle.objective import Objective, as_objective

T = TypeVar("T")

VECTORS, COPIES = 24, 4
"""F is copied if so many float64 vectors like x fit into the free memory, a basis, and so many times what F holds:
a copy in its own precision and one in float64, and what a gradient takes."""

VALUE, ABSOLUTE, GRADIENT, ROUNDINGS = 1e-3, 1e-6, 1e-2, 100.0
"""F in float64 is taken for the same function if its value differs by this share at most, or by the second number, as
a loss of nearly zero does, or as the noise of gradients explains, as of autocast; and its gradient by this share of
‖∇F‖ + L1·‖x‖ and so many times that noise."""

LEAST_BUDGET = 40
"""Gradients that have to be left: four for the copy, and 34 below which no search begins."""

EXACT = 1e-10
"""Up to this share of ‖∇F‖ + L1·‖x‖, the gradient of a float64 x shows that F computes in float64 itself."""


def may_double(objective: Objective, x: Tensor, samples: int | None) -> bool:
    """Whether F may be asked in float64 all through: it is not sampled, and there is memory for copies of it."""
    n, free = objective.num_samples, free_memory(x.device)
    sampled = n is None or (samples is not None and samples < n)
    asked = as_objective(objective)
    fits = free is None or free >= 8 * (VECTORS * vectors.dimension(x) + COPIES * asked.double_size)
    return x.dtype in (torch.float32, torch.float64) and not sampled and fits and asked.doubles


def may_be_asked_again(found: Curvature, x: Tensor, question: Question) -> bool:
    """Whether float64 may tell more than a first attempt, and the budget allows it.

    Not where the gradient at x was another one at another call, or not finite, nor where it is constant in float64.
    """
    if question.max_gradients is not None and question.max_gradients - found.cost.gradients < LEAST_BUDGET:
        return False
    has_memory = found.survey is not None and found.survey.has_memory
    is_flat = found.status is Status.FLAT and x.dtype is torch.float64
    ended = found.status in (Status.BUDGET_SPENT, Status.NOT_DETERMINISTIC) or found.cost.gradients <= 1
    return not (has_memory or is_flat or ended)


class InFloat64(NamedTuple):
    """F and x in float64 all through."""

    objective: Objective
    """F itself, if that computes in float64; else a copy."""
    x: Tensor
    gradient_off: float
    """How far ∇F(x) is from that in the caller's precision; 0 for F itself."""


def in_double(
    objective: Objective, x: Tensor, smoothness: float, noise: float, jump: float, ledger: Ledger
) -> InFloat64 | None:
    """F and x in float64 all through; None where that fails, or is not the same function.

    A gradient in each precision tells, also whether F computes in float64 itself. `smoothness`, `noise` and `jump` are
    what was seen of F.
    """
    try:
        double = as_objective(objective).in_double(x, ledger)
        value, grad = double.sample(ledger=ledger).value_and_grad(x.double())
    except Exception:  # The caller's code may ask for float32 in ways that nobody foresees.
        return None
    here, in_float = objective.sample(ledger=ledger).value_and_grad(x)
    smoothness, noise = (n if math.isfinite(n) else 0.0 for n in (smoothness, noise))
    length, size = vectors.norm(x), vectors.norm(grad) + smoothness * vectors.norm(x)
    same = abs(float(value) - float(here)) <= VALUE * abs(float(value)) + ABSOLUTE + noise * length
    off = vectors.norm(grad - in_float)
    if not same or not off <= GRADIENT * size + ROUNDINGS * max(noise, jump):
        return None
    if x.dtype is torch.float64 and off <= EXACT * size:
        return InFloat64(objective, x, 0.0)
    return InFloat64(double, x.double(), off)


def posed_in_double(objective: Objective, x: Tensor, question: Question, found: Curvature, ledger: Ledger) -> Posed:
    """The question to F in float64 all through; or to F as it is, where that cannot be had. `found` is what was seen of
    F."""
    double = in_double(objective, x, found.smoothness, found.noise, found.jump, ledger)
    if double is None:
        return posed(objective, x, question, None)
    question = replace(question, full_precision=True, gradient_off=double.gradient_off)
    return posed(double.objective, double.x, question, None)


def searched_again(objective: Objective, x: Tensor, asked: Posed, search: Callable[[Posed], T]) -> tuple[Posed, T]:
    """What a search of F in float64 says; or one of F as it is, if the copy fails where it did not at x."""
    if asked.objective is objective:
        return asked, search(asked)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # The caller has seen them, or they are about float64.
            return asked, search(asked)
    except Exception:  # As above.
        question = replace(asked.question, full_precision=False, gradient_off=0.0)
        own = posed(objective, x, question, None)
        return own, search(own)


def told_in(objective: Objective, x: Tensor, found: Curvature) -> Curvature:
    """The result of a search in float64, with its vectors in the caller's precision, and nothing of the copy."""
    direction = None if found.direction is None else found.direction.to(x.dtype)
    start = None if found.start is None else found.start.to(x.dtype)
    deciding = tuple(v.to(x.dtype) for v in found.deciding)
    told = replace(found, direction=direction, deciding=deciding, start=start, in_float64=True)
    return replace(told, _objective=objective, _x=x)
