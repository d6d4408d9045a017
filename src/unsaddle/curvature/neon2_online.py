"""Neon2 online: negative curvature from noise, with fresh samples at every step.

Where stochastic NEON takes every gradient on one large S, this takes each on a few samples of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.cost import Ledger
from unsaddle.curvature.displaced import descend
from unsaddle.curvature.extractor import by_settings
from unsaddle.curvature.oja import Product, batch_size, noise_limited_step, num_rounds
from unsaddle.curvature.result import Candidate, Status, Trail
from unsaddle.curvature.search import Observer, Search
from unsaddle.objective import Objective
from unsaddle.theory import neon2 as theory_neon2
from unsaddle.theory import quadratics

ROUND_DELTA = 0.25
"""How often a practical round may draw an unlucky start. Its samples may spoil another quarter; the rounds see to δ."""

NOISE_SLOWDOWN = 7.0 / 8.0
"""What sampling noise leaves of the growth ηγ, at the step of `noise_limited_step`."""


@dataclass(frozen=True, kw_only=True)
class Neon2OnlineSettings:
    """Constants of Neon2 online; `theory_settings` and `practical_settings` make them."""

    step_size: float
    """η."""
    num_steps: int
    """Steps over all rounds."""
    num_rounds: int
    """How often to start again."""
    steps_a_round: int
    """T: what has not grown to r by then is given up."""
    batch: int
    """Fresh samples a step."""
    noise_radius: float
    """σ."""
    escape_radius: float
    """r: what has grown to it is judged."""
    target: float
    """A curvature of at most −target, as it is judged, is wanted."""
    random_iterate: bool = False
    """Judge a uniformly random iterate of the round, as the proof does, instead of the last."""


def theory_settings(
    *,
    gamma: float,
    delta: float,
    dimension: int,
    smoothness: float,
    hessian_lipschitz: float,
    c0: float = theory_neon2.ONLINE_C0,
) -> Neon2OnlineSettings:
    """Neon2's own constants, of which C0 is up to the caller: single samples, a random iterate, z ≤ −3γ/4."""
    steps = theory_neon2.online_num_steps(gamma=gamma, dimension=dimension, smoothness=smoothness, c0=c0)
    sigma = theory_neon2.online_noise_radius(
        gamma=gamma, dimension=dimension, smoothness=smoothness, hessian_lipschitz=hessian_lipschitz, c0=c0
    )
    rounds = num_rounds(delta)
    return Neon2OnlineSettings(
        step_size=theory_neon2.online_step_size(gamma=gamma, dimension=dimension, smoothness=smoothness, c0=c0),
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
    """Batches and steps of Oja's practical setting, r and T of `constants.practice`, and the last iterate.

    Where a batch is everything, it is NEON with r for its test, and one round of it has to do.
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
            at the first t ≤ T with ‖u_t‖ ≥ r: judge u_s, s uniform in {1, …, t}, on samples that it has not seen;
                return it if its curvature is at most −target
        return nothing

    `judge` is v ↦ ∇²F_S(x)v on an independent S, for a unit v.

    Departures: i is a batch; in the practical setting the last iterate is judged, not a random one, which took 0.6 of
    the samples where the noise is as large as ‖∇²f_i‖ ≤ L1 allows. A random one is kept by reservoir sampling, in one
    vector. Where the curvature judged is above 2/η, u has grown because the step overshoots, which is said.

    Cost: two gradients of a batch a step, and what `judge` costs for each round that reached r. Memory: u, and a
    gradient, but for a model; one more for a random iterate.

    >>> from unsaddle import FiniteSum
    >>> from unsaddle.curvature.displaced import DisplacedFunction
    >>> signs = torch.tensor([[1.0, -2.0], [3.0, 0.0], [2.0, -1.0], [2.0, -1.0]])
    >>> saddle = FiniteSum(lambda x, s: 0.5 * (s @ x**2).mean(), signs)
    >>> settings = Neon2OnlineSettings(
    ...     step_size=0.1, num_steps=200, num_rounds=2, steps_a_round=100, batch=1, noise_radius=1e-3,
    ...     escape_radius=1e-1, target=0.5,
    ... )
    >>> everything = DisplacedFunction(saddle.sample(), torch.zeros(2))
    >>> found = neon2_online(
    ...     saddle, torch.zeros(2), lambda v: everything.product(v, 1e-2), settings, torch.Generator().manual_seed(0)
    ... )
    >>> bool(found.vector[1].abs() > found.vector[0].abs())
    True
    """
    eta, r = settings.step_size, settings.escape_radius
    ledger = Ledger() if ledger is None else ledger
    batch = None if objective.num_samples == settings.batch else settings.batch
    trail = Trail(keep_history)
    left = settings.num_steps
    for _ in range(settings.num_rounds):
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
            if settings.random_iterate and _one_in(t, generator):
                kept = u.clone()
            if uu >= r**2 or uu == 0.0:
                break
        if uu < r**2:
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
    return trail.end(Status.NOTHING_FOUND, exhausted=left == 0)


def _one_in(t: int, generator: torch.Generator) -> bool:
    """True with probability 1/t: keeping the t-th of a stream with it leaves each of them kept equally often."""
    return int(torch.randint(t, (), generator=generator, device=generator.device)) == 0


def _run(search: Search, settings: Neon2OnlineSettings) -> Candidate:
    """Two gradients of F_S judge a round."""
    radius = search.measurement_radius
    search.f_hat.let_go()  # From here on, only differences of fresh gradients.
    return neon2_online(
        search.objective,
        search.x,
        lambda v: search.f_hat.central_product(v, radius),
        settings,
        search.generator,
        ledger=search.ledger,
        keep_history=search.question.keep_history,
    )


NEON2_ONLINE = by_settings(
    _run,
    practical=practical_settings,
    theory=theory_settings,
    calls_a_step=2,
    extra_calls=lambda settings: 2 * int(settings.num_rounds),
)
