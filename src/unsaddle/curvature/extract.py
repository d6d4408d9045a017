"""`negative_curvature`: Question → prepare → Search → run → Candidate → confirm → Curvature."""

from __future__ import annotations

import math
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from unsaddle import checks, vectors
from unsaddle.cost import Ledger
from unsaddle.curvature import auto
from unsaddle.curvature.displaced import DisplacedFunction
from unsaddle.curvature.extractor import Extractor
from unsaddle.curvature.in_double import may_be_asked_again, may_double, posed_in_double, searched_again, told_in
from unsaddle.curvature.posed import Posed, least_smoothness, posed
from unsaddle.curvature.question import CLOSE, RELATIVE_GAMMA, Question
from unsaddle.curvature.registry import EXTRACTORS
from unsaddle.curvature.result import NO_ANSWER, Candidate, Curvature, Status
from unsaddle.curvature.search import Inconclusive, Search
from unsaddle.measure import batches, direction, noise
from unsaddle.measure.direction import Measurement, Scale
from unsaddle.measure.where import not_finite
from unsaddle.objective import Objective, point_of, with_its_ranks

RETRIES = 8
"""A measured L1 that is too small is doubled at most so often."""

UNKNOWN = Scale(gamma=math.nan, smoothness=math.nan, noise=math.nan, radius=math.nan)


@checks.in_range
@with_its_ranks
def negative_curvature(
    objective: Objective,
    x: Tensor | None = None,
    *,
    gamma: float | None = None,
    extractor: str = "auto",
    samples: int | None = None,
    delta: float = 0.05,
    smoothness: float | None = None,
    hessian_lipschitz: float | None = None,
    basis: int | None = None,
    max_gradients: int | None = None,
    metric: Any = None,
    seed: int = 0,
    keep_history: bool = False,
    settings: Any = "practical",
) -> Curvature:
    """Find a direction v with vᵀ∇²F(x)v ≤ −γ/2, if F has curvature below −γ at x.

    Every direction is measured again, on fresh samples if F was sampled. It is returned if that curvature is negative
    beyond its error, though it may then be above −γ/2.

    Args:
        objective: `Function`, `FiniteSum`, `Stream`, `numpy_function`, or anything with their `sample`.
        x: the point, a 1-D float32 or float64 tensor. It is not changed. An objective with a `point` does not need it.
        gamma: the curvature sought, γ > 0. By default a hundredth of L1.
        extractor: a key of `EXTRACTORS`. "auto" is krylov if its basis fits into memory.
        samples: |S|, drawn once; None for everything, or for 1024 samples of a stream.
        delta: the probability of missing a curvature below −γ because of an unlucky random start.
        smoothness: L1, a bound on ‖∇²F‖ near x. Measured with a few gradients if left out.
        hessian_lipschitz: L2, a Lipschitz constant of the Hessian near x, 0 for a quadratic. If left out, f is taken to
            be nearly quadratic within a hundredth of ‖x‖; the final measurement checks this.
        basis: vectors that krylov may hold. By default 20; more if they are small, fewer if memory is short.
        max_gradients: a bound on gradients plus Hessian products.
        metric: S of x = Sz, in which the search runs: a positive vector (sizes of the variables, as SciPy's `x_scale`),
            a torch optimizer (Adam, AdamW, RMSprop, Adagrad), an inverse Hessian (SciPy's `hess_inv`), or an object
            with `apply` and `transpose`, z ↦ Sz and g ↦ Sᵀg. The direction, its curvature, γ and `bound` are in your
            own variables. L1, L2, σ and the gradient's norm that are told are those of F(Sz).
        seed: for the samples and the random start; the same seed gives the same result.
        keep_history: keep (gradients or products spent, quotient) for each step.
        settings: "practical"; "theory" for the constants of Theorems 1 and 2, on samples with the γ and δ of Lemma 2
            (`samples` may be fewer than its m); or constants of your own, such as a `NeonPlusSettings` for
            extractor="neon+", which runs Algorithm 2 as printed if `decrease`, 𝓕, is among them.

    Returns:
        The direction with its measured curvature, or the reason why there is none; and the cost. Where float32,
        autocast or kinks hide the curvature, krylov asks F again in float64, on a copy of it (`in_float64`).

    >>> from unsaddle import Function
    >>> saddle = Function(lambda x: x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4)
    >>> result = negative_curvature(saddle, torch.zeros(2, dtype=torch.float64), gamma=1.5)
    >>> result.status.name, result.curvature < -0.75
    ('FOUND', True)
    """
    own = None if isinstance(settings, str) else settings
    if own is not None and gamma is not None and getattr(own, "gamma", None) not in (None, gamma):
        raise ValueError(f"gamma must be that of the settings, {own.gamma}, got {gamma}; leave one of them out")
    question = Question(
        gamma=getattr(own, "gamma", None) if gamma is None else gamma,
        extractor=extractor,
        samples=samples,
        delta=delta,
        smoothness=smoothness,
        hessian_lipschitz=hessian_lipschitz,
        basis=basis,
        max_gradients=max_gradients,
        seed=seed,
        keep_history=checks.flag(keep_history, "keep_history"),
        seen_counts=True,
        accuracy=CLOSE,
        theory=own is None and checks.choice(settings, "settings", ("practical", "theory")) == "theory",
        own_settings=own,
    )
    x = point_of(objective, x)
    if metric is None:
        twice = extractor in ("auto", "krylov") and may_double(objective, x, samples)
        found = _in_either_precision(objective, x, question) if twice else answer(objective, x, question)
        return replace(found, _objective=objective, _x=x)
    if smoothness is not None or hessian_lipschitz is not None or settings != "practical":
        raise ValueError(
            "with a metric, smoothness, hessian_lipschitz and settings must be left out, since they change with it"
        )
    return replace(_answer_in_metric(objective, x, question, metric), _x=x)


def _in_either_precision(objective: Objective, x: Tensor, question: Question) -> Curvature:
    """The answer of a first attempt; or that in float64, on a copy of F, where rounding or kinks hide the curvature."""
    ledger = Ledger()
    first = answer(objective, x, replace(question, first_attempt_only=True), ledger)
    unanswered = first.status in (*NO_ANSWER, Status.NOT_FINITE) or first.over_kinks
    if not unanswered or not may_be_asked_again(first, x, question):
        return first
    asked = posed_in_double(objective, x, question, first, ledger).after(ledger.gradients)
    asked, again = searched_again(objective, x, asked, lambda p: answer(p.objective, p.x, p.question, ledger))
    if first.found and again.status not in (Status.FOUND, Status.NOTHING_FOUND):
        again = first
    elif asked.objective is not objective:
        again = told_in(objective, x, again)
    return replace(again, cost=ledger.cost)


@with_its_ranks
def _answer_in_metric(objective: Objective, x: Tensor, question: Question, metric: Any) -> Curvature:
    """Answers a question by a search in a metric, within its budget."""
    asked, found = answer_posed(posed(objective, x, question, metric), Ledger())
    return asked.own(found)


def answer_posed(asked: Posed, ledger: Ledger) -> tuple[Posed, Curvature]:
    """Answers a question that may be put in a metric; returns also how it was put in the end.

    Without γ, the first search looks for a hundredth of L1 of F(Sz). If it finds nothing below that, γ is to be a
    hundredth of L1 in the user's own variables. Where the first search does not exclude as much, a second one looks for
    it. Where the metric leaves a search without an answer, or L1 is not seen, the last search goes without the metric.
    """
    found = answer(asked.objective, asked.x, asked.question, ledger)
    if asked.scaling is None:
        return asked, found
    goes_on = found.status in NO_ANSWER
    unproved = found.status is Status.NOTHING_FOUND or (found.found and found.curvature > -found.gamma)
    if asked.question.gamma is None and unproved:
        gamma = RELATIVE_GAMMA * least_smoothness(asked, found, ledger)
        if found.bound <= gamma:
            return asked, replace(found, gamma=gamma, cost=ledger.cost)
        goes_on = gamma == 0.0
        if gamma > 0.0:
            again = asked.after(ledger.gradients, gamma)
            found = answer(again.objective, again.x, again.question, ledger)
            goes_on = found.status in NO_ANSWER
            asked = replace(asked, question=replace(asked.question, gamma=gamma))
    if goes_on:
        asked = asked.without_metric().after(ledger.gradients)
        found = answer(asked.objective, asked.x, asked.question, ledger)
    return asked, replace(found, cost=ledger.cost)


@with_its_ranks
def answer(objective: Objective, x: Tensor, question: Question, ledger: Ledger | None = None) -> Curvature:
    """Answers a question. `ledger` counts the cost."""
    with ExitStack() as held:
        ledger = Ledger() if ledger is None else ledger
        search, name = prepare(objective, checks.point(x), question, ledger, held)
        if search.f_hat.is_finite:
            try:
                search, candidate = run(search, EXTRACTORS[name])
                scale = search.scale if candidate.scale is None else candidate.scale
            except Inconclusive as reason:
                return _result(search, name, reason.status)
    if not search.f_hat.is_finite:
        told = not_finite(objective, search.x, search.f_hat.value0, search.f_hat.grad0)
        return _result(search, name, Status.NOT_FINITE, not_finite=told)
    return confirm(search, name, candidate, scale)


def prepare(objective: Objective, x: Tensor, question: Question, ledger: Ledger, held: ExitStack) -> tuple[Search, str]:
    """Draws F_S, takes ∇F_S(x), and chooses the extractor; returns the search and the extractor's name.

    F_S is held until `held` is closed.
    """
    name = checks.choice(question.extractor, "extractor", ("auto", *EXTRACTORS))
    free = auto.free_memory(x.device)
    if name == "auto":
        name = auto.choose(x, free) if question.basis is None else "krylov"
    if question.theory and not EXTRACTORS[name].has_theory:
        raise ValueError(
            f"settings='theory' needs an extractor that the theory is about, got extractor={question.extractor!r}; "
            "use neon or neon+"
        )
    if question.own_settings is not None:
        _check_settings(question.own_settings, question.extractor)
    basis = max(auto.SMALLEST_BASIS, auto.basis_size(x, free)) if question.basis is None else question.basis
    generator, before = torch.Generator().manual_seed(question.seed), ledger.cost
    size = question.sample_size(objective)
    f = objective.sample(size, generator, hessian=EXTRACTORS[name].needs_products, ledger=ledger)
    held.enter_context(f.held())
    sampled = objective.num_samples is None or f.size < objective.num_samples
    search = Search(
        question=question,
        objective=objective,
        f=f,
        f_hat=DisplacedFunction(f, x),
        sampled=sampled,
        basis=basis,
        reserve=_reserve(sampled),
        before=before,
        generator=generator,
    )
    return search, name


def _reserve(sampled: bool) -> int:
    """Gradients that measuring a candidate may take."""
    return direction.MOST_GRADIENTS + (2 * batches.BATCHES if sampled else 0)


def _check_settings(own: Any, name: str) -> None:
    """Raises unless the extractor takes settings of this kind."""
    kind, given = EXTRACTORS[name].settings if name in EXTRACTORS else None, type(own)
    if given is kind:
        return
    takers = [other for other, entry in EXTRACTORS.items() if entry.settings is given]
    expected = "'practical'" if kind is None else f"'practical', 'theory' or a {kind.__name__}"
    hint = f"; use extractor={takers[0]!r} with it" if takers else ""
    raise TypeError(f"settings of extractor={name!r} must be {expected}, got {given.__name__}{hint}")


def run(search: Search, extractor: Extractor) -> tuple[Search, Candidate]:
    """Runs the extractor, and doubles a measured L1 that is too small; returns the search with the last L1."""
    candidate = extractor.extract(search)
    measured = search.question.smoothness is None and search.question.own_settings is None
    for _ in range(RETRIES if measured else 0):
        if candidate.status is not Status.SMOOTHNESS_EXCEEDED:
            break
        gamma, larger = search.question.gamma_at(search.smoothness), 2.0 * search.smoothness
        search = replace(search, question=replace(search.question, gamma=gamma, smoothness=larger))
        candidate = extractor.extract(search)
    return search, candidate


EVIDENCE = (
    "lowest",
    "history",
    "deciding",
    "start",
    "upper",
    "survey",
    "jump",
    "piece",
    "asymmetry",
    "kinks",
    "small_gradient",
)
"""What a candidate tells that its result keeps."""


def confirm(search: Search, name: str, candidate: Candidate, scale: Scale) -> Curvature:
    """Measures the candidate again: no direction is returned unmeasured."""
    evidence = {key: getattr(candidate, key) for key in EVIDENCE}
    if candidate.gradient_norm is not None:
        evidence["gradient_norm"] = candidate.gradient_norm
    evidence["bound"] = _bound(search, candidate, scale)
    if not math.isnan(candidate.hessian_lipschitz):
        evidence["hessian_lipschitz"] = candidate.hessian_lipschitz
    if candidate.vector is None:
        lengths = [vectors.norm(v) for v in candidate.deciding]
        evidence["deciding"] = tuple(v / n for v, n in zip(candidate.deciding, lengths, strict=True) if n > 0.0)
        return _result(search, name, candidate.status, scale, **evidence)
    v = candidate.vector.div_(vectors.norm(candidate.vector))
    grad0 = search.f_hat.grad0 if EXTRACTORS[name].keeps_gradient else None
    if grad0 is None:  # The extractor saves memory, so ∇f(x) goes, and L2 is not estimated.
        search.f_hat.let_go()
    status, measurements = _measured(search, candidate, scale, v, grad0)
    if candidate.status is Status.NOTHING_FOUND and status is not Status.FOUND:
        return _result(search, name, candidate.status, scale, **evidence)
    evidence["hessian_lipschitz"] = measurements[0].hessian_lipschitz
    evidence |= {"direction": v} if status is Status.FOUND else {"deciding": (v,)}
    curvature = measurements[-1].curvature
    return _result(search, name, status, scale, curvature=curvature, measurements=measurements, **evidence)


def _bound(search: Search, candidate: Candidate, scale: Scale) -> float:
    """The smallest γ that is excluded in F_S: what the extractor says, or what it looked for and did not find."""
    nothing = candidate.status is Status.NOTHING_FOUND and not candidate.exhausted
    return min(candidate.bound, scale.gamma) if nothing else candidate.bound


def _measured(
    search: Search, candidate: Candidate, scale: Scale, v: Tensor, grad0: Tensor | None
) -> tuple[Status, tuple[Measurement, ...]]:
    """Measures the curvature along v on the same F_S and, if F_S is not everything, on fresh samples."""
    same = candidate.measured
    if same is None:
        same = direction.on_same_sample(search.f, search.x, v, scale, grad0)
    if not same.is_finite:
        return Status.NOT_FINITE, (same,)
    if not same.is_negative:
        return Status.NOT_CONFIRMED, (same,)
    if not search.sampled:
        return Status.FOUND, (same,)
    fresh = batches.on_fresh_samples(search.objective, search.x, v, same, search.delta, search.generator, search.ledger)
    if not fresh.is_finite:
        return Status.NOT_FINITE, (same, fresh)
    confirmed = fresh.curvature + fresh.error < 0.0
    return Status.FOUND if confirmed else Status.SAMPLE_ONLY, (same, fresh)


def _result(search: Search, name: str, status: Status, scale: Scale = UNKNOWN, **known: Any) -> Curvature:
    f_hat, given = search.f_hat, search.question.hessian_lipschitz
    fields: dict[str, Any] = {"direction": None, "curvature": math.nan, "lowest": math.inf}
    fields["gradient_norm"] = f_hat.grad_norm
    fields["hessian_lipschitz"] = math.nan if given is None else given
    relative = noise.relative_error(
        noise=scale.noise, grad_norm=f_hat.grad_norm, smoothness=scale.smoothness, x_norm=f_hat.x_norm
    )
    return Curvature(
        status=status,
        cost=search.cost,
        delta=search.delta if search.question.own_settings is None else math.nan,
        extractor=name,
        gamma=math.nan if math.isnan(scale.gamma) else search.question.gamma_at(scale.smoothness),
        sought=scale.gamma,
        smoothness=scale.smoothness,
        radius=scale.radius,
        noise=scale.noise,
        relative_noise=relative,
        _objective=search.objective,
        **(fields | known),
    )
