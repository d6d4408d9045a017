"""Neon2 online: negative curvature from noise, with fresh samples at every step.

Each step has a few samples of its own. Stochastic NEON takes every gradient on one large S.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.cost import Ledger
from unsaddle.curvature.displaced import descend
from unsaddle.curvature.extractor import by_settings
from unsaddle.curvature.oja import Product, batch_size, by_gradients, noise_limited_step, num_rounds
from unsaddle.curvature.result import Candidate, Status, Trail
from unsaddle.curvature.search import Observer, Search
from unsaddle.objective import Objective
from unsaddle.theory import neon2 as theory_neon2
from unsaddle.theory import quadratics
from unsaddle.theory.neon2 import ONLINE_C0

ROUND_DELTA = 0.25
"""Probability of an unlucky start of a practical round. Samples may spoil another quarter; many rounds reach δ."""

NOISE_SLOWDOWN = 7.0 / 8.0
"""Sampling noise leaves this share of the growth ηγ, at the step of `noise_limited_step`."""


@dataclass(frozen=True, kw_only=True)
class Neon2OnlineSettings:
    """Constants of Neon2 online: η = `step_size`, T = `steps_a_round`, σ = `noise_radius`, r = `escape_radius`."""

    step_size: float
    num_steps: int
    """Steps over all rounds."""
    num_rounds: int
    steps_a_round: int
    batch: int
    """Fresh samples a step."""
    noise_radius: float
    escape_radius: float
    target: float
    """A judged curvature of at most −target is wanted."""
    random_iterate: bool = False
    """Judge a uniformly random iterate of the round, as in the proof, instead of the last."""


def theory_settings(
    *, gamma: float, delta: float, dimension: int, smoothness: float, hessian_lipschitz: float, c0: float = ONLINE_C0
) -> Neon2OnlineSettings:
    """The constants of Neon2's theorem, at the caller's C0: single samples, a random iterate, z ≤ −3γ/4."""
    scales: dict[str, Any] = {"gamma": gamma, "dimension": dimension, "smoothness": smoothness, "c0": c0}
    steps, rounds = theory_neon2.online_num_steps(**scales), num_rounds(delta)
    sigma = theory_neon2.online_noise_radius(hessian_lipschitz=hessian_lipschitz, **scales)
    return Neon2OnlineSettings(
        step_size=theory_neon2.online_step_size(**scales),
        num_steps=rounds * steps,
        num_rounds=rounds,
        steps_a_round=steps,
        batch=1,
        noise_radius=sigma,
        escape_radius=theory_neon2.online_escape_radius(noise_radius=sigma, dimension=dimension, c0=c0),
        target=0.75 * gamma,
        random_iterate=True,
    )


def practical_settings(search: Search) -> Neon2OnlineSettings:
    """Batches and steps of Oja's practical settings, r and T of `theory.quadratics`, and the last iterate.

    If a batch is everything, this is one round of NEON with r as its test.
    """
    n = search.objective.num_samples
    batch = batch_size(n)
    eta = noise_limited_step(gamma=search.gamma, smoothness=search.smoothness, batch=batch, num_samples=n)
    growth, delta, rounds = eta * search.gamma, search.delta, 1
    if batch != n:
        growth, delta, rounds = NOISE_SLOWDOWN * growth, max(delta, ROUND_DELTA), num_rounds(delta)
    steps = quadratics.neon2_online_num_steps(growth=growth, dimension=search.dimension, delta=delta)
    return Neon2OnlineSettings(
        step_size=eta,
        num_steps=rounds * steps,
        num_rounds=rounds,
        steps_a_round=steps,
        batch=batch,
        noise_radius=search.noise_radius,
        escape_radius=quadratics.neon2_online_escape_radius(
            noise=search.noise_radius, trust=search.trust_radius, dimension=search.dimension, delta=delta
        ),
        target=search.gamma / 2.0,
    )


def neon2_online(
    objective: Objective,
    x: Tensor,
    judge: Product,
    settings: Neon2OnlineSettings,
    generator: torch.Generator,
    *,
    ledger: Ledger | None = None,
    keep_history: bool = False,
    observer: Observer | None = None,
) -> Candidate:
    """Find u with uᵀ∇²F(x)u/‖u‖² ≤ −target, from a few samples a step.

    Neon2 online and its weak version (Allen-Zhu and Li, 2017), with u = x_t − x_0 in their letters and γ for their δ:

        repeat Θ(log 1/δ) times:
            u_0 = ξ, uniform on the sphere of radius σ
            u_t = u_{t−1} − η(∇f_i(x + u_{t−1}) − ∇f_i(x)), the same i in both, fresh at each t
            at the first t ≤ T with ‖u_t‖ ≥ r: judge u_s, s uniform in {1, …, t}, on independent samples;
                return it if its curvature is at most −target
        return nothing

    `judge` is v ↦ ∇²F_S(x)v on an independent S, for a unit v.

    Departures: i is a batch. The practical settings judge the last iterate, not a random one: this took 0.6 of the
    samples, at the largest noise with ‖∇²f_i‖ ≤ L1. Reservoir sampling keeps a random iterate in one vector. A judged
    curvature above 2/η means that the step overshoots, and ends the run.

    Cost: two gradients of a batch a step, and one `judge` for each round that reached r. Memory: u; except for a model,
    a gradient; for a random iterate, one vector.

    >>> from unsaddle import FiniteSum
    >>> from unsaddle.curvature.displaced import DisplacedFunction
    >>> signs = torch.tensor([[1.0, -2.0], [3.0, 0.0], [2.0, -1.0], [2.0, -1.0]])
    >>> saddle = FiniteSum(lambda x, s: 0.5 * (s @ x**2).mean(), signs)
    >>> rounds = {"num_steps": 200, "num_rounds": 2, "steps_a_round": 100, "batch": 1, "target": 0.5}
    >>> settings = Neon2OnlineSettings(step_size=0.1, noise_radius=1e-3, escape_radius=1e-1, **rounds)
    >>> x, everything = torch.zeros(2), DisplacedFunction(saddle.sample(), torch.zeros(2))
    >>> judge = lambda v: everything.product(v, 1e-2)
    >>> found = neon2_online(saddle, x, judge, settings, torch.Generator().manual_seed(0))
    >>> bool(found.vector[1].abs() > found.vector[0].abs())
    True
    """
    eta, r = settings.step_size, settings.escape_radius
    ledger = Ledger() if ledger is None else ledger
    batch = None if objective.num_samples == settings.batch else settings.batch
    trail = Trail(keep_history)
    left = settings.num_steps
    lowest: tuple[Tensor, ...] = ()
    for _ in range(settings.num_rounds):
        lowest = ()  # Frees the iterate of the last round.
        u = vectors.random_direction(x, generator).mul_(settings.noise_radius)
        uu = settings.noise_radius**2
        kept: Tensor | None = None
        for t in range(1, min(settings.steps_a_round, left) + 1):
            left -= 1
            before = u.clone() if keep_history else None
            descend(objective.sample(batch, generator, ledger=ledger), x, u, eta)
            if before is not None:
                trail.note(ledger.gradients, vectors.dots((before, before - u))[0] / (eta * uu))
            (uu,) = vectors.dots((u, u))
            if not math.isfinite(uu):
                return trail.end(Status.NOT_FINITE, exhausted=left == 0)
            if observer is not None:
                observer(t, u)
            if settings.random_iterate and int(torch.randint(t, (), generator=generator, device=generator.device)) == 0:
                kept = u.clone()  # With probability 1/t, so each of the t iterates is equally likely.
            if uu >= r**2 or uu == 0.0:
                break
        if uu < r**2:
            lowest = (u,)
            continue
        v = u if kept is None else kept
        del u, kept
        v.div_(vectors.norm(v))
        (judged,) = vectors.dots((v, judge(v)))
        if not math.isfinite(judged):
            return trail.end(Status.NOT_FINITE, exhausted=left == 0)
        trail.lowest = min(trail.lowest, judged)
        if judged <= -settings.target:
            return trail.end(Status.FOUND, v)
        if judged * eta > 2.0:
            return trail.end(Status.SMOOTHNESS_EXCEEDED, exhausted=left == 0)
        lowest = (v,)
    return trail.end(Status.NOTHING_FOUND, exhausted=left == 0, deciding=lowest)


def _run(search: Search, *arguments: Any, **how: Any) -> Candidate:
    return neon2_online(search.objective, search.x, by_gradients(search), *arguments, ledger=search.ledger, **how)


NEON2_ONLINE = by_settings(
    _run,
    settings=Neon2OnlineSettings,
    inputs=lambda search: (search,),
    practical=practical_settings,
    theory=theory_settings,
    calls_a_step=2,
    extra_calls=lambda settings: 2 * int(settings.num_rounds),
)
