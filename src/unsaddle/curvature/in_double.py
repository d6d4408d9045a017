"""F in float64, to be asked again where float32 hides the curvature."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.cost import Ledger
from unsaddle.curvature.auto import free_memory
from unsaddle.curvature.posed import Posed, posed
from unsaddle.curvature.question import Question
from unsaddle.curvature.result import Curvature, Status
from unsaddle.objective import Objective, as_objective

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


class Doubled(NamedTuple):
    """F and x in float64 all through."""

    objective: Objective
    """F itself, if that computes in float64; else a copy."""
    x: Tensor
    gradient_off: float
    """How far ∇F(x) is from that in the caller's precision; 0 for F itself."""


def in_double(
    objective: Objective, x: Tensor, smoothness: float, noise: float, jump: float, ledger: Ledger
) -> Doubled | None:
    """F and x in float64 all through; None where that fails, or is not the same function.

    A gradient in each precision tells, also whether F computes in float64 itself. `smoothness`, `noise` and `jump` are
    what was seen of F.
    """
    try:
        double, at = as_objective(objective).in_double(x, ledger), x.double()
        value, grad = double.sample(ledger=ledger).value_and_grad(at)
    except Exception:  # The caller's code may ask for float32 in ways that nobody foresees.
        return None
    here, in_float = objective.sample(ledger=ledger).value_and_grad(x)
    smoothness, noise = (n if math.isfinite(n) else 0.0 for n in (smoothness, noise))
    length, rounding = vectors.norm(at), max(noise, jump)
    close = GRADIENT * (vectors.norm(grad) + smoothness * length) + ROUNDINGS * rounding
    same = abs(float(value) - float(here)) <= VALUE * abs(float(value)) + ABSOLUTE + rounding * length
    off = vectors.norm(grad - in_float)
    if not same or not off <= close:
        return None
    if x.dtype is torch.float64 and off <= EXACT * close / GRADIENT:
        return Doubled(objective, x, 0.0)
    return Doubled(double, at, off)


def posed_in_double(objective: Objective, x: Tensor, question: Question, found: Curvature, ledger: Ledger) -> Posed:
    """The question to F in float64 all through; or to F as it is, where that cannot be had. `found` is what was seen of
    F."""
    double = in_double(objective, x, found.smoothness, found.noise, found.jump, ledger)
    if double is None:
        return posed(objective, x, question, None)
    question = replace(question, full_precision=True, gradient_off=double.gradient_off)
    return posed(double.objective, double.x, question, None)


def told_in(dtype: torch.dtype, found: Curvature) -> Curvature:
    """The result of a search in float64, with its vectors in the caller's precision."""
    direction = None if found.direction is None else found.direction.to(dtype)
    start = None if found.start is None else found.start.to(dtype)
    deciding = tuple(v.to(dtype) for v in found.deciding)
    return replace(found, direction=direction, deciding=deciding, start=start, in_float64=True)
