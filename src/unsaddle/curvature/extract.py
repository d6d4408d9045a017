"""`negative_curvature`: from an objective and a point to a measured direction."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from unsaddle import checks, vectors
from unsaddle.cost import Ledger
from unsaddle.curvature import auto, neon, neon2_det, neon2_online, neon_plus, oja, power
from unsaddle.curvature.displaced import DisplacedFunction
from unsaddle.curvature.krylov import extractor as probing
from unsaddle.curvature.krylov import lanczos
from unsaddle.curvature.result import Candidate, Curvature, Status
from unsaddle.curvature.search import Inconclusive, Search
from unsaddle.measure import batches, direction, noise
from unsaddle.measure.direction import Measurement, Scale
from unsaddle.objective import Objective, point_of, with_its_ranks
from unsaddle.theory import extraction

EXTRACTORS: dict[str, Callable[[Search], Candidate]] = {
    "krylov": probing.extract,
    "neon": neon.extract,
    "neon+": neon_plus.extract,
    "power": power.extract,
    "lanczos": lanczos.extract,
    "neon-renormalised": neon.extract_renormalised,
    "neon+-renormalised": neon_plus.extract_renormalised,
    "neon2-det": neon2_det.extract,
    "neon2-online": neon2_online.extract,
    "oja": oja.extract,
    "oja-first-order": oja.extract_first_order,
}
"""Every extractor by name. To add one, write a file with an `extract(search)` and a line here."""

SECOND_ORDER = frozenset({"power", "lanczos", "oja"})
"""Those that need Hessian products; the others are given a function that has none."""

RELATIVE_GAMMA = 1e-2
"""γ by default, as a share of L1."""

STREAM_SAMPLES = 1024
"""Samples drawn from a stream by default."""

RETRIES = 8
"""How often a measured L1 that proves too small is doubled."""


def negative_curvature(
    objective: Objective,
    x: Tensor | None = None,
    *,
    gamma: float | None = None,
    method: str = "auto",
    samples: int | None = None,
    delta: float = 0.05,
    smoothness: float | None = None,
    hessian_lipschitz: float | None = None,
    basis: int | None = None,
    max_gradients: int | None = None,
    seed: int = 0,
    keep_history: bool = False,
    settings: str = "practical",
) -> Curvature:
    """Find a direction v with vᵀ∇²F(x)v ≤ −γ/2, if F has curvature below −γ at x.

    Args:
        objective: `Function`, `FiniteSum`, `Stream`, `numpy_function`, or anything with their `sample`.
        x: where: a 1-D float32 or float64 tensor. It is not changed. May be left out for an objective that has a
            `point` of its own.
        gamma: the curvature sought, γ > 0. By default a hundredth of L1.
        method: an extractor, a key of `EXTRACTORS`; "auto" is krylov, where its basis fits into memory.
        samples: |S|, drawn once; None for everything, or for 1024 where samples never run out.
        delta: the probability of missing a curvature below −γ because of an unlucky random start.
        smoothness: L1, a bound on ‖∇²F‖ near x. Measured with a few gradients if left out.
        hessian_lipschitz: L2, a Lipschitz constant of the Hessian near x, 0 for a quadratic. If left out, f is taken to
            be nearly quadratic within a hundredth of ‖x‖, and the measurement at the end has to bear it out.
        basis: vectors that krylov may hold. By default 20, more where they are small, fewer where memory is short.
        max_gradients: a bound on gradients plus Hessian products.
        seed: of the samples and the random start; the same seed gives the same result.
        keep_history: keep (gradients or products spent, quotient) for each step.
        settings: "practical", or "theory" for the constants of Theorems 1 and 2 (and Lemma 2 on samples).

    Returns:
        The direction with its measured curvature, or the reason why there is none, and in both cases what it cost.

    >>> from unsaddle import Function
    >>> saddle = Function(lambda x: x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4)
    >>> result = negative_curvature(saddle, torch.zeros(2, dtype=torch.float64), gamma=1.5)
    >>> result.status.name, result.curvature < -0.75
    ('FOUND', True)
    """
    return find(
        objective,
        point_of(objective, x),
        gamma=gamma,
        relative_gamma=RELATIVE_GAMMA,
        method=method,
        samples=samples,
        delta=delta,
        smoothness=smoothness,
        hessian_lipschitz=hessian_lipschitz,
        basis=basis,
        max_gradients=max_gradients,
        seed=seed,
        keep_history=keep_history,
        settings=settings,
    )


@with_its_ranks
def find(
    objective: Objective,
    x: Tensor,
    *,
    gamma: float | None,
    relative_gamma: float,
    method: str,
    samples: int | None,
    delta: float,
    smoothness: float | None,
    hessian_lipschitz: float | None,
    basis: int | None = None,
    max_gradients: int | None,
    seed: int,
    keep_history: bool,
    settings: str,
    ledger: Ledger | None = None,
) -> Curvature:
    """`negative_curvature`, with γ relative to L1 and the ledger at the caller's choice."""
    x = checks.point(x)
    name, free = checks.choice(method, "method", ("auto", *EXTRACTORS)), auto.free_memory(x.device)
    if name == "auto":
        name = auto.choose(x, free) if basis is None else "krylov"
    if basis is None:
        basis = max(auto.SMALLEST_BASIS, auto.basis_size(x, free))
    else:
        checks.count(basis, "basis", at_least=3)
    if checks.choice(settings, "settings", ("practical", "theory")) == "theory" and name == "krylov":
        raise ValueError(
            f"settings='theory' needs a method that the theory is about, got method={method!r}; use neon or neon+"
        )
    gamma = None if gamma is None else checks.positive(gamma, "gamma", "leave it out to take a hundredth of L1")
    delta = checks.probability(delta, "delta")
    smoothness = None if smoothness is None else checks.positive(smoothness, "smoothness", "leave it out to measure it")
    if hessian_lipschitz is not None:
        checks.not_negative(hessian_lipschitz, "hessian_lipschitz", "leave it out if it is not known")
    if max_gradients is not None:
        checks.count(max_gradients, "max_gradients")
    generator = torch.Generator().manual_seed(checks.count(seed, "seed", at_least=0))

    ledger = Ledger() if ledger is None else ledger
    before = ledger.cost
    samples = some_samples(objective, samples)
    f = objective.sample(samples, generator, hessian=name in SECOND_ORDER, ledger=ledger)
    stochastic = objective.num_samples is None or f.size < objective.num_samples
    f_hat = DisplacedFunction(f, x)
    search = Search(
        objective=objective,
        f=f,
        f_hat=f_hat,
        given_gamma=gamma,
        relative_gamma=relative_gamma,
        delta=delta,
        basis=basis,
        given_smoothness=smoothness,
        hessian_lipschitz=hessian_lipschitz,
        theory=settings == "theory",
        max_gradients=max_gradients,
        reserve=3 * direction.SAME_SAMPLE_GRADIENTS + (2 * batches.BATCHES if stochastic else 0),
        keep_history=keep_history,
        generator=generator,
    )

    given_lipschitz = math.nan if hessian_lipschitz is None else hessian_lipschitz

    def result(status: Status, scale: Scale = UNKNOWN, **fields: Any) -> Curvature:
        known: dict[str, Any] = UNMEASURED | {"hessian_lipschitz": given_lipschitz} | fields
        relative = noise.relative_error(
            noise=scale.noise, grad_norm=f_hat.grad_norm, smoothness=scale.smoothness, x_norm=f_hat.x_norm
        )
        return Curvature(
            status=status,
            cost=ledger.cost - before,
            delta=delta,
            method=name,
            gamma=scale.gamma,
            smoothness=scale.smoothness,
            radius=scale.radius,
            noise=scale.noise,
            relative_noise=relative,
            gradient_norm=f_hat.grad_norm,
            **known,
        )

    if not f_hat.is_finite:
        return result(Status.NOT_FINITE)
    try:
        candidate = _run(name, search, stochastic)
        scale = search.scale if candidate.scale is None else candidate.scale
    except Inconclusive as reason:
        return result(reason.status)
    evidence: dict[str, Any] = {
        "lowest": candidate.lowest,
        "history": candidate.history,
        "deciding": candidate.deciding,
    }
    if not math.isnan(candidate.hessian_lipschitz):
        evidence["hessian_lipschitz"] = candidate.hessian_lipschitz
    if candidate.vector is None:
        return result(candidate.status, scale, **evidence)
    v = candidate.vector.div_(vectors.norm(candidate.vector))
    grad0 = f_hat.grad0 if name == "krylov" else None
    if grad0 is None:  # Whoever counts vectors chose another extractor: better no L2 than one more.
        f_hat.let_go()
    status, measurements = _confirm(search, scale, v, stochastic, grad0)
    evidence["hessian_lipschitz"] = measurements[0].hessian_lipschitz
    if status is not Status.FOUND:
        evidence["deciding"] = (v,)
    return result(
        status,
        scale,
        direction=v if status is Status.FOUND else None,
        curvature=measurements[-1].curvature,
        measurements=measurements,
        **evidence,
    )


def some_samples(objective: Objective, samples: int | None) -> int | None:
    """|S| as asked for; without that everything, or a default where there is no end to samples."""
    n = objective.num_samples
    if samples is not None and n is not None and checks.count(samples, "samples") > n:
        raise ValueError(f"samples must be at most n = {n}, got {samples}; leave it out to take everything")
    if samples is not None:
        return checks.count(samples, "samples")
    return STREAM_SAMPLES if n is None else None


UNMEASURED = {"direction": None, "curvature": math.nan, "lowest": math.inf}
UNKNOWN = Scale(gamma=math.nan, smoothness=math.nan, noise=math.nan, radius=math.nan)


def _run(name: str, search: Search, stochastic: bool) -> Candidate:
    """Run the extractor; a measured L1 that proves too small is doubled."""
    if search.theory and stochastic:
        search = replace(search, given_gamma=_gamma_on_samples(search))
    candidate = EXTRACTORS[name](search)
    for _ in range(RETRIES if search.given_smoothness is None else 0):
        if candidate.status is not Status.SMOOTHNESS_EXCEEDED:
            break
        search = replace(search, given_gamma=search.gamma, given_smoothness=2.0 * search.smoothness)
        candidate = EXTRACTORS[name](search)
        if candidate.scale is None:
            candidate = replace(candidate, scale=search.scale)
    return candidate


def _gamma_on_samples(search: Search) -> float:
    """Lemma 2: what F_S is promised when F has −γ (E19)."""
    ell = extraction.sampled_log_factor(
        dimension=search.dimension, smoothness=search.smoothness, gamma=search.gamma, delta=search.delta
    )
    return extraction.sampled_gamma(gamma=search.gamma, accuracy=extraction.sampling_accuracy(log_factor=ell))


def _confirm(
    search: Search, scale: Scale, v: Tensor, stochastic: bool, grad0: Tensor | None
) -> tuple[Status, tuple[Measurement, ...]]:
    """Measure the curvature along v again on the same F_S and, where there is more than that, on fresh samples."""
    for radius in dict.fromkeys(scale.measuring_radii or (scale.radius,)):
        same = direction.on_same_sample(search.f, search.x, v, replace(scale, radius=radius), grad0)
        if same.consistent:
            break
    if not same.is_finite:
        return Status.NOT_FINITE, (same,)
    if not same.consistent or same.curvature + same.error >= 0.0:
        return Status.NOT_CONFIRMED, (same,)
    if not stochastic:
        return Status.FOUND, (same,)
    fresh = batches.on_fresh_samples(
        search.objective, search.x, v, same.radius, search.f.size, search.delta, search.generator, search.ledger
    )
    if not fresh.is_finite:
        return Status.NOT_FINITE, (same, fresh)
    confirmed = fresh.curvature + fresh.error < 0.0
    return Status.FOUND if confirmed else Status.SAMPLE_ONLY, (same, fresh)
