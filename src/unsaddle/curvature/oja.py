"""Oja's method, as in Natasha 2: a power iteration with fresh samples at every step."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.cost import Ledger
from unsaddle.curvature.displaced import descend
from unsaddle.curvature.extractor import Extractor
from unsaddle.curvature.power import second_order
from unsaddle.curvature.result import Candidate, Status, Trail
from unsaddle.curvature.search import Observer, Search
from unsaddle.objective import Objective, SampledFunction
from unsaddle.theory import extraction, quadratics

Product = Callable[[Tensor], Tensor]

BATCH = 32
"""Fresh samples a step in the practical settings, or all samples if there are fewer."""


@dataclass(frozen=True, kw_only=True)
class OjaSettings:
    """Constants of Oja's method: η = `step_size`, T = `steps_a_round`."""

    step_size: float
    num_steps: int
    """Steps over all rounds."""
    steps_a_round: int
    batch: int
    """Fresh samples a step."""
    target: float
    """A curvature of at most −target is wanted."""
    radius: float | None = None
    """h of the first-order form, (∇f_i(x+hw) − ∇f_i(x))/h; None for exact Hessian products."""


def theory_settings(
    *, gamma: float, delta: float, dimension: int, smoothness: float, radius: float | None, num_samples: int | None
) -> OjaSettings:
    """Allen-Zhu's settings with all Θ-constants 1, whatever the number of samples is.

    Single samples, T = (L1/γ)²log²(d/p), η = 1/(L1√T), log₂(1/p) rounds.
    """
    steps = extraction.oja_num_steps(smoothness=smoothness, gamma=gamma, dimension=dimension, delta=delta)
    eta, total = 1.0 / (smoothness * math.sqrt(steps)), num_rounds(delta) * steps
    return OjaSettings(step_size=eta, num_steps=total, steps_a_round=steps, batch=1, target=gamma / 2.0, radius=radius)


def practical_settings(
    *, gamma: float, delta: float, dimension: int, smoothness: float, radius: float | None, num_samples: int | None
) -> OjaSettings:
    """Batches of 32, and steps as long as their noise allows: η = min(1/(2L1), bγ/(4L1²)), T = log(d/δ²)/(ηγ).

    If a batch is everything there is no noise, and one round is the power method at half its step.
    """
    batch = batch_size(num_samples)
    eta = noise_limited_step(gamma=gamma, smoothness=smoothness, batch=batch, num_samples=num_samples)
    rounds = 1 if batch == num_samples else num_rounds(delta)
    steps = quadratics.neon_num_steps(step_size=eta, gamma=gamma, dimension=dimension, delta=delta)
    total, target = rounds * steps, gamma / 2.0
    return OjaSettings(step_size=eta, num_steps=total, steps_a_round=steps, batch=batch, target=target, radius=radius)


def batch_size(num_samples: int | None) -> int:
    """b = 32, or all samples if there are fewer."""
    return BATCH if num_samples is None else min(BATCH, num_samples)


def noise_limited_step(*, gamma: float, smoothness: float, batch: int, num_samples: int | None) -> float:
    """η = min(1/(2L1), bγ/(4L1²)); the second bound applies if a batch is not everything.

    If ‖∇²f_i‖ ≤ L1, the root mean square error of a batch Hessian along a direction is at most L1/√b. It slows the
    growth of a mode from ηγ to ηγ − η²L1²/(2b) a step: by an eighth at this η.
    """
    eta = quadratics.step_size(smoothness=smoothness)
    return eta if batch == num_samples else min(eta, batch * gamma / (4.0 * smoothness**2))


def num_rounds(delta: float) -> int:
    """⌈log₂(1/δ)⌉ rounds, each of which succeeds with probability at least a half."""
    return math.ceil(math.log2(1.0 / delta))


def oja(
    objective: Objective,
    x: Tensor,
    judge: Product,
    settings: OjaSettings,
    generator: torch.Generator,
    *,
    ledger: Ledger | None = None,
    keep_history: bool = False,
    observer: Observer | None = None,
) -> Candidate:
    """Find w with wᵀ∇²F(x)w ≤ −target from single samples.

        w ← (I − η∇²f_i(x))w, normalised, i fresh at each step; T steps a round
        judge the last w on independent samples; return it, or start again

    Allen-Zhu (2017). `judge` is v ↦ ∇²F_S(x)v on an independent S. Departure: the last iterate of a round is judged,
    not a random one.

    Cost: one Hessian product of a batch a step (in the first-order form, two gradients), and one `judge` a round.
    Memory: w, and a product or a gradient; the first-order form for a model needs only w.
    """
    trail = Trail(keep_history)
    ledger = Ledger() if ledger is None else ledger
    batch = None if objective.num_samples == settings.batch else settings.batch
    w = torch.zeros_like(x)
    for tau in range(settings.num_steps):
        if tau % settings.steps_a_round == 0:
            w = vectors.random_direction(x, generator)
        if observer is not None:
            observer(tau, w)
        f = objective.sample(batch, generator, hessian=settings.radius is None, ledger=ledger)
        curvature = _step(f, x, w, settings, keep_history)
        length = vectors.norm(w)
        if not (math.isfinite(curvature) and math.isfinite(length)):
            return trail.end(Status.NOT_FINITE)
        trail.note(ledger.gradients + ledger.hessian_products, curvature)
        w = w.div_(length) if length > 0.0 else vectors.random_direction(x, generator)
        if (tau + 1) % settings.steps_a_round == 0:
            (judged,) = vectors.dots((w, judge(w)))
            trail.lowest = min(trail.lowest, judged)
            if judged <= -settings.target:
                return trail.end(Status.FOUND, w)
            if judged * settings.step_size > 2.0:
                return trail.end(Status.SMOOTHNESS_EXCEEDED)
    return trail.end(Status.NOTHING_FOUND, exhausted=True, deciding=(w,))


def _step(f: SampledFunction, x: Tensor, w: Tensor, settings: OjaSettings, with_curvature: bool) -> float:
    """w ← (I − η∇²f(x))w in place; returns the old wᵀ∇²f(x)w, or 0 if it would cost a vector that is not wanted."""
    eta, h = settings.step_size, settings.radius
    if h is None:
        hw = second_order(f).hvp(x, w)
        (curvature,) = vectors.dots((w, hw))
        w.sub_(hw, alpha=eta)
        return curvature
    before = w.clone() if with_curvature else None
    descend(f, x, w.mul_(h), eta)
    w.div_(h)
    return 0.0 if before is None else vectors.dots((before, before - w))[0] / eta


def by_gradients(search: Search) -> Product:
    """Judges a direction by two gradients of F_S. Frees ∇F_S(x), which later steps do not need."""
    radius = search.measurement_radius
    search.f_hat.let_go()
    return lambda v: search.f_hat.central_product(v, radius)


def _extract(search: Search, radius: float | None, judge: Product) -> Candidate:
    settings = search.question.own_settings
    if settings is None:
        make = theory_settings if search.question.theory else practical_settings
        settings = make(radius=radius, num_samples=search.objective.num_samples, **search.constants)
    settings, calls = replace(settings, radius=radius), 1 if radius is None else 2

    def run(s: OjaSettings) -> Candidate:
        keep, ledger = search.question.keep_history, search.ledger
        return oja(search.objective, search.x, judge, s, search.generator, ledger=ledger, keep_history=keep)

    rounds = settings.num_steps // settings.steps_a_round
    return search.within_budget(settings, run, calls_a_step=calls, extra_calls=calls * rounds)


OJA = Extractor(
    extract=lambda search: _extract(search, None, partial(second_order(search.f).hvp, search.x)),
    needs_products=True,
    settings=OjaSettings,
)
OJA_FIRST_ORDER = Extractor(
    extract=lambda search: _extract(search, search.measurement_radius, by_gradients(search)), settings=OjaSettings
)
