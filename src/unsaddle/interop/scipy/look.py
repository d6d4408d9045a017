"""The look where SciPy has converged: short where gradients add up to a Hessian, else as `is_minimum` does it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.cost import Cost, Ledger
from unsaddle.curvature import auto
from unsaddle.curvature.displaced import DisplacedFunction
from unsaddle.curvature.krylov.certificate import KrylovCandidate, KrylovSettings, krylov
from unsaddle.curvature.question import RELATIVE_GAMMA
from unsaddle.curvature.result import Curvature, Status
from unsaddle.interop.scipy.free import FreeFunction
from unsaddle.judgement import Verdict, is_minimum
from unsaddle.judgement.judge import judge
from unsaddle.judgement.second_look import ROUNDINGS
from unsaddle.judgement.verdict import assembled
from unsaddle.measure import direction
from unsaddle.measure.direction import Measurement
from unsaddle.measure.noise import relative_error

MOST_STEPS = 200
"""Gradients after which the short look gives way to the long one."""

SYMMETRIC = 0.25
"""Products add up to a Hessian if the error of the projected matrix, at most its size times its largest asymmetry, is
below this share of γ."""

FEW_STEPS = 4
"""After fewer steps there are not enough entries to compare, and one gradient more checks the products."""

FEW_VARIABLES, SURE = 10, 1e-9
"""With fewer variables a look goes on to the last of them, and spends no more than this of δ on an unlucky start: on a
plane, one in twenty hides far more than −γ."""

FARTHER = (Status.FLAT, Status.NOT_CONFIRMED, Status.NOT_QUADRATIC)
"""Where a longer probe may decide what a short one did not."""

EVERYTHING = float(np.finfo(np.float64).max) / 4.0
"""SciPy has decided that the point is stationary: any gradient is small."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """A verdict, and what gradients say about one line, for values of fun to confirm."""

    verdict: Verdict
    along: Tensor | None = None
    """A unit vector."""
    curvature: float = math.nan
    """Along it, by gradients."""


def look(f: FreeFunction, gamma: float | None, delta: float, seed: int) -> Look:
    """Whether f's point is a minimum. The gradient counts as zero there, whatever its norm.

    The short look is Krylov alone, with the probe radius guessed. What `is_minimum` spends eight gradients on, the
    noise before and whether f is quadratic after, shows in the asymmetry of the products, which costs nothing: rounding
    and kinks are not symmetric. Where they show, or where something else is strange, `is_minimum` has the word.
    """
    ledger = Ledger()
    start_delta = delta if len(f.point) >= FEW_VARIABLES else min(delta, SURE)
    seen = _short(f, gamma, delta, start_delta, seed, ledger)
    return _long(f, gamma, delta, start_delta, seed, ledger.cost) if seen is None else seen


def nothing_free(f: FreeFunction, delta: float) -> Verdict:
    """The verdict where bounds and derivatives hold every variable: a minimum to first order."""
    found = Curvature(
        direction=None,
        curvature=math.nan,
        status=Status.NOTHING_FOUND,
        gradient_norm=0.0,
        cost=Cost(),
        gamma=math.nan,
        delta=delta,
        sought=math.nan,
        extractor="krylov",
        smoothness=math.nan,
        radius=math.nan,
        noise=0.0,
        relative_noise=math.nan,
        hessian_lipschitz=math.nan,
        lowest=math.nan,
    )
    return replace(
        _concluded(f, f.point, found, eps=0.0, delta=delta),
        interval=(math.nan, math.nan),
        reason=(
            "Every variable is at a bound, from where the function rises inwards or which leaves it no room; no "
            "curvature was looked at."
        ),
    )


def _concluded(f: FreeFunction, x: Tensor, found: Curvature, *, eps: float, delta: float) -> Verdict:
    error = ROUNDINGS * found.noise
    judgement = judge(found, gradient_norm=found.gradient_norm, gradient_error=error, eps=eps)
    return assembled(
        f, x, found, judgement, gradient_norm=found.gradient_norm, gradient_error=error, eps=eps, delta=delta
    )


def _short(
    f: FreeFunction, gamma: float | None, delta: float, start_delta: float, seed: int, ledger: Ledger
) -> Look | None:
    """The look with a guessed radius; None where it does not decide."""
    x, generator = f.point, torch.Generator().manual_seed(seed)
    f_hat = DisplacedFunction(f.sample(ledger=ledger), x)
    if not f_hat.is_finite:
        return None
    settings = KrylovSettings(
        num_steps=MOST_STEPS,
        delta=start_delta,
        gamma=gamma,
        relative_gamma=RELATIVE_GAMMA,
        noise=f_hat.f.gradient_error(f_hat.value0, f_hat.grad_norm),
        smallest_radius=f.short_radius,
        basis=max(auto.SMALLEST_BASIS, auto.basis_size(x, auto.free_memory(x.device))),
    )
    start = vectors.random_direction(x, generator)
    candidate = krylov(f_hat, settings, generator, keep_history=True, start=start)
    if candidate.scale.radius > settings.smallest_radius and not _adds_up(candidate, settings):
        # Values are so coarse that probes had to grow on the way.
        settings = replace(settings, smallest_radius=candidate.scale.radius)
        candidate = krylov(f_hat, settings, generator, keep_history=True, start=start)
    if not _adds_up(candidate, settings):
        return None
    if candidate.status is Status.FOUND:
        return _saddle(f, f_hat, candidate, delta)
    if candidate.status is not Status.NOTHING_FOUND:
        return None
    if len(candidate.history) < FEW_STEPS and not _is_linear(f_hat, start, candidate):
        return None
    found = _evidence(f_hat, candidate, delta, Status.NOTHING_FOUND)
    verdict = _concluded(f, x, found, eps=EVERYTHING, delta=delta)
    return Look(verdict=_with_scipys_eps(verdict), along=start, curvature=candidate.history[0][1])


def _adds_up(candidate: KrylovCandidate, settings: KrylovSettings) -> bool:
    """Whether there is an answer, and its products are those of a Hessian."""
    size = min(len(candidate.history), settings.basis)
    return not candidate.exhausted and size * candidate.asymmetry <= SYMMETRIC * candidate.scale.gamma


def _is_linear(f_hat: DisplacedFunction, v: Tensor, candidate: KrylovCandidate) -> bool:
    """Whether the gradient is linear between r and −2r along v. The one at r is remembered from the first step.

    For a quadratic 2(∇f(x+rv) − ∇f(x)) + ∇f(x−2rv) − ∇f(x) = 0; a kink, |x|^{3/2} and a third derivative show.
    """
    r = candidate.scale.radius
    off = 2.0 * f_hat.f.grad_at_sum(f_hat.x, v, r) + f_hat.f.grad_at_sum(f_hat.x, v, -2.0 * r)
    off.sub_(f_hat.grad0, alpha=3.0)
    return vectors.norm(off) / (2.0 * r) <= SYMMETRIC * candidate.scale.gamma


def _saddle(f: FreeFunction, f_hat: DisplacedFunction, candidate: KrylovCandidate, delta: float) -> Look | None:
    """The verdict on a direction that is measured again; None if that does not bear it out."""
    assert candidate.vector is not None
    v = candidate.vector.div_(vectors.norm(candidate.vector))
    same = direction.on_same_sample(f_hat.f, f_hat.x, v, candidate.scale, f_hat.grad0)
    if not (same.is_finite and same.consistent and same.curvature + same.error < 0.0):
        return None
    found = _evidence(f_hat, candidate, delta, Status.FOUND, v, same)
    return Look(verdict=_with_scipys_eps(_concluded(f, f_hat.x, found, eps=EVERYTHING, delta=delta)))


def _evidence(
    f_hat: DisplacedFunction,
    candidate: KrylovCandidate,
    delta: float,
    status: Status,
    direction: Tensor | None = None,
    measured: Measurement | None = None,
) -> Curvature:
    scale = candidate.scale
    # What the products are off by is √2σ/r in norm.
    noise = max(scale.noise, candidate.asymmetry * scale.radius / math.sqrt(2.0))
    return Curvature(
        direction=direction,
        curvature=math.nan if measured is None else measured.curvature,
        status=status,
        gradient_norm=f_hat.grad_norm,
        cost=f_hat.f.cost,
        gamma=scale.gamma,
        delta=delta,
        sought=scale.gamma,
        extractor="krylov",
        smoothness=scale.smoothness,
        radius=scale.radius,
        noise=noise,
        relative_noise=relative_error(
            noise=noise, grad_norm=f_hat.grad_norm, smoothness=scale.smoothness, x_norm=f_hat.x_norm
        ),
        hessian_lipschitz=math.nan if measured is None else measured.hessian_lipschitz,
        lowest=candidate.lowest,
        measurements=() if measured is None else (measured,),
        deciding=candidate.deciding,
        history=candidate.history,
    )


def _long(f: FreeFunction, gamma: float | None, delta: float, start_delta: float, seed: int, spent: Cost) -> Look:
    """`is_minimum`; what it leaves undecided because gradients do not add up, once more from farther away."""
    verdict = is_minimum(f, eps=EVERYTHING, gamma=gamma, delta=delta, start_delta=start_delta, seed=seed)
    spent = spent + verdict.cost
    if verdict.kind == "undecided" and verdict.evidence.status in FARTHER:
        f.look_farther(gamma)
        again = is_minimum(f, eps=EVERYTHING, gamma=gamma, delta=delta, start_delta=start_delta, seed=seed)
        spent = spent + again.cost
        if again.kind != "undecided":
            verdict = again
    if verdict.kind == "undecided" and f.by_differences:
        advice = "give jac, or take a large constant out of fun"
        why = f"Gradients are differences of fun here, off by up to {verdict.gradient_error:.2g}: {advice}."
        verdict = replace(verdict, reason=f"{verdict.reason} {why}")
    verdict = replace(_with_scipys_eps(verdict), cost=spent)
    if verdict.kind != "minimum":
        return Look(verdict=verdict)
    return Look(verdict=verdict, along=verdict.evidence.deciding[0], curvature=verdict.evidence.lowest)


def _with_scipys_eps(verdict: Verdict) -> Verdict:
    """What counted as stationary was this point."""
    return replace(verdict, eps=verdict.gradient_norm + verdict.gradient_error)
